"""Helpers of NumPy steps: axes, indices, attributes, views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .... import dtypes
from ....errors import ShapeError, UnsupportedError
from ....words import counted
from ..node import Array, OnnxNode


class Described(NamedTuple):
    """An input of a call, and its number among the inputs of the call."""

    dtype: str
    shape: tuple[int, ...]
    number: int


# appends kernels to a program, on dense views of the inputs and of the results
Own = Callable[[Any, Sequence[Any], Sequence[Any]], None]
# returns the builtin kernels for a node with these inputs (None: left out), or None
FindOwn = Callable[[OnnxNode, Sequence[Any]], Own | None]


def dtype_of(operand: Any) -> str:
    """Returns the dtype of an input of a call, or of a known array."""
    return operand.dtype if isinstance(operand, Described) else dtypes.label(operand.dtype)


def views_of(program: Any, operands: Sequence[Any], reads: Sequence[Any]) -> list[Any]:
    """Returns views of the operands; known arrays become constants."""
    return [reads[one.number] if isinstance(one, Described) else program.constant(one) for one in operands]


def one_kernel(kernel: Any, title: str) -> Own:
    """Returns a builder of one builtin kernel."""
    return lambda program, reads, writes: program.kernel(kernel, reads, writes, title)


def axis_of(node: OnnxNode, rank: int, default: int) -> int:
    """Returns a node's attribute `axis` as a non-negative axis.

    Raises:
        ShapeError: the axis does not exist.
    """
    axis = int(node.attrs.get("axis", default))
    if not -rank <= axis < max(rank, 1):
        raise ShapeError(f"{node.where}: axis {axis} is outside of a tensor with {counted(rank, 'axis')}")
    return axis % max(rank, 1)


def item(inputs: Sequence[Any], index: int) -> Any:
    """Returns an input; None if it is left out."""
    return inputs[index] if index < len(inputs) else None


def number(array: Array) -> Any:
    """Returns the only element of an array."""
    return array.reshape(-1)[0].item()


def wide(array: Array) -> Array:
    """Returns floats as float64, so that results are rounded once, at the end."""
    return array if array.dtype.kind in "iubc" else array.astype(np.float64)


def places(node: OnnxNode, indices: Array, size: int, back: bool = True) -> Array:
    """Returns indices of an axis as non-negative ones; negative ones count from the end, if allowed.

    Raises:
        ShapeError: an index outside of the axis.
    """
    if indices.size and (indices.min() < (-size if back else 0) or indices.max() >= size):
        raise ShapeError(f"{node.where}: indices from {indices.min()} to {indices.max()} of {size} elements")
    return indices + size * (indices < 0)


def among(node: OnnxNode, name: str, default: str, allowed: Sequence[str]) -> str:
    """Returns a text attribute that must be one of these.

    Raises:
        UnsupportedError: another text.
    """
    found = str(node.attrs.get(name, default))
    if found not in allowed:
        raise UnsupportedError(f"{node.where}: {name}={found!r}, only {', '.join(allowed)}")
    return found
