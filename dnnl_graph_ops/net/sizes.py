"""Shapes of a net's inputs as users state them: by name or in order, a dim a number or a range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeAlias

from .._core import Executor, PlanCache
from ..errors import InvalidArgumentError, ShapeError
from ..graph import Value
from ..schema.arguments import int64, show, suggest
from ..shapes import check_sizes

Ints = tuple[int, ...]
# the shape of each input; None: of unknown rank, and not stated
Shapes: TypeAlias = tuple[Ints | None, ...]
# the sizes of each dim; None: a shape of unknown rank that nobody stated
_Dims: TypeAlias = tuple[Sequence[int], ...] | None
# the shape of an input of unknown rank
UNKNOWN: tuple[int | None, ...] = (-1,)

# More take minutes to compile, and seldom fit into the limit of all plans.
MOST_SIZES = 1024


class Parts(NamedTuple):
    """The plans that a call with given shapes runs, each by its cache and a function that compiles it if it is missing.

    `late`: titles of the parts whose shapes only a call tells.
    """

    plans: Sequence[tuple[PlanCache, Callable[[], Executor]]]
    late: Sequence[str] = ()


def by_name(given: Any, names: Iterable[str], where: str, what: str = "input") -> dict[str, Any]:
    """Returns {input name: shape as it was given}; `what` the names are names of, for messages.

    Raises:
        TypeError: no mapping. InvalidArgumentError: a name that is none of `names`.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{where}: needs {{input name: shape}}, got {show(given)} of type {type(given).__name__}")
    known = list(names)
    for name in given:
        if name not in known:
            raise InvalidArgumentError(
                f"{where}: no {what} {show(name)}{suggest(name, known)}; there are {', '.join(known)}"
            )
    return dict(given)


def is_shape(item: object) -> bool:
    """Whether a value is written as a shape: a sequence, but no text and no mapping."""
    return hasattr(item, "__iter__") and not isinstance(item, str | bytes | Mapping | range)


def all_shapes(inputs: Sequence[Value], sizes: Any, where: str) -> list[Shapes]:
    """Returns the shapes of all inputs for each size, without repetitions; a range in a shape stands for many sizes.

    Raises:
        TypeError: `sizes` is no sequence of sizes. ShapeError: a shape does not fit its input.
        InvalidArgumentError: an unknown or missing input; more than MOST_SIZES sizes.
    """
    if isinstance(sizes, Mapping) or not is_shape(sizes):
        raise TypeError(
            f"{where}: 'sizes' is a list of sizes, got {show(sizes)} of type {type(sizes).__name__}; "
            "pass [size] for one size"
        )
    found: dict[Shapes, None] = {}
    for size in sizes:
        found.update(dict.fromkeys(_expanded(_by_input(inputs, size, where), len(found), where)))
    return list(found)


def _by_input(inputs: Sequence[Value], size: Any, where: str) -> list[_Dims]:
    """Returns the dims of each input of one size; an input of known shape may be left out by name."""
    names = [value.name for value in inputs]
    if isinstance(size, Mapping):
        shapes = by_name(size, names, where)
    elif not is_shape(size):
        raise TypeError(
            f"{where}: a size is a shape or {{input name: shape}}, got {show(size)} of type {type(size).__name__}; "
            "'sizes' is a list of sizes, pass [size] for one size"
        )
    else:
        several = list(size)
        if len(inputs) == 1 and not (len(several) == 1 and is_shape(several[0])):
            several = [several]
        if len(several) != len(inputs) or not all(map(is_shape, several)):
            raise InvalidArgumentError(
                f"{where}: the size {show(size)} is not a shape for each of the {len(inputs)} inputs "
                f"({', '.join(names)}); a size is a tuple of shapes, or {{input name: shape}}"
            )
        shapes = dict(zip(names, several, strict=True))
    return [_dims(value, shapes.get(value.name), f"{where}: input {value.name!r}") for value in inputs]


def _dims(value: Value, shape: Any, where: str) -> _Dims:
    if shape is None:
        if value.shape == UNKNOWN:
            return None
        if None in value.shape:
            raise InvalidArgumentError(f"{where}: the shape {value.shape} has unknown dims, and no size states it")
        return tuple((size or 0,) for size in value.shape)
    if not is_shape(shape):
        raise TypeError(f"{where}: a shape is a tuple of ints and ranges, got {show(shape)}")
    items = tuple(shape)
    dims = tuple(dim if isinstance(dim, range) else (_dim(dim, where),) for dim in items)
    if value.shape != UNKNOWN and not _fits(dims, value.shape):
        raise ShapeError(f"{where}: the shape {show(items)} does not fit the declared {value.shape}")
    if any(not dim for dim in dims):
        raise InvalidArgumentError(f"{where}: the shape {show(items)} has an empty range")
    for end in (0, -1):
        check_sizes(tuple(int64(dim[end], where) for dim in dims), where, "the input")
    return dims


def _fits(dims: Sequence[Sequence[int]], shape: Sequence[int | None]) -> bool:
    return len(dims) == len(shape) and all(
        want is None or all(size == want for size in dim[:2]) for want, dim in zip(shape, dims, strict=True)
    )


def _dim(dim: Any, where: str) -> int:
    if dim is None:
        raise ShapeError(f"{where}: a size has no unknown dims; write a number or a range for None")
    return int64(dim, f"{where}: a dim")


def _expanded(shapes: Sequence[_Dims], before: int, where: str) -> Iterator[Shapes]:
    """Yields every combination of the sizes in ranges; `before`: the number of sizes that were stated before."""
    axes = [dim for dims in shapes if dims is not None for dim in dims]
    count = before + prod(map(len, axes))
    if count > MOST_SIZES:
        raise InvalidArgumentError(
            f"{where}: {count} sizes or more, but at most {MOST_SIZES} at a time; state fewer, range(20, 200, 8) for "
            "instance, and pad inputs to these"
        )
    for sizes in product(*axes):
        rest = iter(sizes)
        yield tuple(None if dims is None else tuple(next(rest) for _ in dims) for dims in shapes)
