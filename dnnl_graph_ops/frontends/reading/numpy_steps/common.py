"""What the NumPy steps share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .... import dtypes
from ....errors import ShapeError, UnsupportedError
from ..node import Array, OnnxNode


class Described(NamedTuple):
    """An input that a call gives, and its number among those."""

    dtype: str
    shape: tuple[int, ...]
    number: int


# appends kernels to a program, on dense views of what a call gives and of the results
Own = Callable[[Any, Sequence[Any], Sequence[Any]], None]
# finds them for a node: its inputs as they are known, None for those left out; None where there are none
FindOwn = Callable[[OnnxNode, Sequence[Any]], Own | None]


def dtype_of(operand: Any) -> str:
    """Of what a call gives, or what is known."""
    return operand.dtype if isinstance(operand, Described) else dtypes.label(operand.dtype)


def views_of(program: Any, operands: Sequence[Any], reads: Sequence[Any]) -> list[Any]:
    """Where operands lie: those that are known become constants."""
    return [reads[one.number] if isinstance(one, Described) else program.constant(one) for one in operands]


def one_kernel(kernel: Any, title: str) -> Own:
    """Own code that is a single kernel."""
    return lambda program, reads, writes: program.kernel(kernel, reads, writes, title)


def axis_of(node: OnnxNode, rank: int, default: int) -> int:
    """Its attribute `axis`, counted from the front.

    Raises:
        ShapeError: there is no such axis.
    """
    axis = int(node.attrs.get("axis", default))
    if not -rank <= axis < max(rank, 1):
        raise ShapeError(f"{node.where}: axis {axis} is outside of a tensor with {rank} axes")
    return axis % max(rank, 1)


def item(inputs: Sequence[Any], index: int) -> Any:
    """An input that may be left out."""
    return inputs[index] if index < len(inputs) else None


def number(array: Array) -> Any:
    """The only one in an array."""
    return array.reshape(-1)[0].item()


def wide(array: Array) -> Array:
    """Floats in 64 bits: what is computed of them is rounded once, at the end."""
    return array if array.dtype.kind in "iubc" else array.astype(np.float64)


def places(node: OnnxNode, indices: Array, size: int, back: bool = True) -> Array:
    """Indices of an axis, those from its end (where these are allowed) counted from the front.

    Raises:
        ShapeError: one that is outside of it.
    """
    if indices.size and (indices.min() < (-size if back else 0) or indices.max() >= size):
        raise ShapeError(f"{node.where}: indices from {indices.min()} to {indices.max()} of {size} elements")
    return indices + size * (indices < 0)


def among(node: OnnxNode, name: str, default: str, allowed: Sequence[str]) -> str:
    """A text attribute.

    Raises:
        UnsupportedError: it is none of these.
    """
    found = str(node.attrs.get(name, default))
    if found not in allowed:
        raise UnsupportedError(f"{node.where}: {name}={found!r}, only {', '.join(allowed)}")
    return found
