"""Builds a kernel that the extension declares, and an array for each of its operands, from a case.

The declaration of a kernel names its operands and their dims, as "src (n, c, src_spatial), dst (n, c, dst_spatial)". A
case gives the sizes of these dims, and the arguments that follow neither from a size nor from an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from .. import dtypes
from .._core import DataType, kernels
from ..errors import InvalidArgumentError
from ..program.arrays import aligned
from ..strides import dense_strides

F32: Final = int(DataType.f32)
SCRATCH: Final = "scratch"


class Sizes(dict[str, Any]):
    """Sizes by name, as attributes too: numbers, and tuples of several dims."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


Shapes = Callable[[Sizes, Mapping[str, Any]], Mapping[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Case:
    """The part of a kernel's call that its declaration leaves open.

    sizes: numbers by the names that `--shape` takes. dims: the sizes of the dims, from these numbers. arguments: of the
    factory that are neither sizes nor dtypes nor strides of operands. shapes: of operands without dims in the
    declaration. dtypes: of operands that no argument names. below: bound of indices. several: operands that the
    declaration ends with "...". macs: multiply-adds of a run. unit: the dtype of its products.
    """

    sizes: dict[str, int]
    dims: Callable[[Sizes], Mapping[str, Any]] = lambda s: s
    arguments: Callable[[Sizes], Mapping[str, Any]] = lambda s: {}
    shapes: Shapes = lambda s, a: {}
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    below: Callable[[Sizes], int] = lambda s: 1
    several: Mapping[str, int] = field(default_factory=dict[str, int])
    macs: Callable[[Sizes], int] = lambda s: 0
    unit: str = "f32"
    taken: Callable[[Any], Any] = lambda result: result


@dataclass(frozen=True)
class Built:
    """A kernel with an array for each operand. moved: the bytes of all operands but scratch memory."""

    kernel: Any
    operands: tuple[Any, ...]
    moved: int
    macs: int
    unit: str


@cache
def declared() -> dict[str, tuple[Any, ...]]:
    """Returns (parameters, operands) of each declared function and class by its name."""
    return {name: (parameters, operands) for scope, name, _, parameters, _, operands, _ in kernels.table() if not scope}


def names() -> list[str]:
    """Returns the names of all kernels: the declarations with operands."""
    return sorted(name for name, (_, operands) in declared().items() if operands)


def build(name: str, case: Case, shape: Mapping[str, int]) -> Built:
    """Returns a kernel of its case's sizes, those of `shape` instead if given, with operands of random numbers.

    Raises:
        InvalidArgumentError: the case has no such size.
    """
    _, text = declared()[name]
    if unknown := set(shape) - set(case.sizes):
        raise InvalidArgumentError(f"{name} has no size {', '.join(sorted(unknown))}; it has {', '.join(case.sizes)}")
    sizes = Sizes(case.dims(Sizes({**case.sizes, **shape})))
    operands = list(_operands(text, case))
    shapes = {operand: _sizes(dims, sizes) for operand, dims in operands if dims and sizes.keys() >= {*dims}}
    dims = dict(operands)
    arguments = dict(case.arguments(sizes))
    values = _arguments(name, sizes, arguments, shapes, dims)
    kernel = case.taken(getattr(kernels, name)(**values))
    shapes |= case.shapes(sizes, values)
    rng, moved = np.random.default_rng(0), 0
    arrays: list[Any] = []
    for operand, _ in operands:
        if operand == SCRATCH:
            arrays.append(aligned(kernel.scratch_bytes, np.dtype(np.uint8)))
        else:
            arrays.append(_array(rng, shapes[operand], _dtype(operand, case, values), case.below(sizes)))
            moved += arrays[-1].nbytes
    return Built(kernel, tuple(arrays), moved, case.macs(sizes), case.unit)


def _operands(text: str, case: Case) -> Iterable[tuple[str, list[str]]]:
    """Yields the name and the dims of each operand of a declaration, without optional ones and those of an epilogue."""
    depth, begin = 0, 0
    parts: list[str] = []
    for i, letter in enumerate(f"{text},"):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    for part in parts:
        name, _, rest = part.partition("(")
        name = name.split()[0].rstrip(".")
        if not part.startswith("["):
            count = case.several.get(name, 0) if part.endswith("...") else 1
            yield from [(name, [dim.strip() for dim in rest.rpartition(")")[0].split(",") if dim.strip()])] * count


def _sizes(dims: Iterable[str], sizes: Sizes) -> tuple[int, ...]:
    """Returns the sizes of dims by their text in the declaration; a tuple stands for several dims."""
    shape: list[int] = []
    for dim in dims:
        shape.extend(np.atleast_1d(sizes[dim]).tolist())
    return tuple(shape)


def _arguments(
    name: str,
    sizes: Sizes,
    arguments: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, list[str]],
) -> dict[str, Any]:
    """Returns the arguments of a declared function or class, without those that keep their defaults."""
    return {
        parameter: _argument(parameter, kind, sizes, arguments, shapes, dims)
        for parameter, kind, default in declared()[name][0]
        if parameter in arguments or parameter in sizes or not default
    }


def _argument(
    name: str,
    kind: str,
    sizes: Sizes,
    arguments: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, list[str]],
) -> Any:
    """Returns an argument of a factory: given, a size, a declared object, or the dtype or strides of an operand."""
    if name in arguments:
        return arguments[name]
    if name in sizes:
        return sizes[name]
    if kind in declared():
        return getattr(kernels, kind)(**_arguments(kind, sizes, arguments, shapes, dims))
    if name.endswith("dtype"):
        return F32
    operand = name.removesuffix("_strides")
    return strides_of(shapes[operand], dims[operand])


def strides_of(shape: tuple[int, ...], dims: list[str]) -> tuple[int, ...]:
    """Returns the strides of a dense operand, channels last; filter kernels leave out the stride of the channels."""
    if dims[:2] in (["n", "c"], ["n", "channels"]):
        strides = dense_strides((shape[0], *shape[2:], shape[1]))
        return (strides[0], strides[-1], *strides[1:-1])
    return dense_strides(shape)[:-1] if dims[0] == "batch" and dims[-1].endswith("_channels") else dense_strides(shape)


def _dtype(operand: str, case: Case, values: Mapping[str, Any]) -> str:
    if operand in case.dtypes:
        return case.dtypes[operand]
    number = values.get(f"{operand}_dtype", values.get("dtype", F32))
    return DataType(number).name


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, below: int) -> Any:
    kind = dtypes.numpy_dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(0, below, shape).astype(kind) if dtype == "s64" else np.ones(shape, kind)
    return rng.standard_normal(shape, np.float32).astype(kind)
