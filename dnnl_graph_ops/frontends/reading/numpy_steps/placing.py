"""Builtin kernels for gather and scatter by tensors of indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from .... import dtypes
from ...._core import kernels
from ..node import OnnxNode
from .common import FindOwn, Own, axis_of, dtype_of, views_of

_INDEX = {"s32": 4, "s64": 8}
# reductions that kernels have, for f32 only
_COMBINED = frozenset({"add", "max", "min", "mul"})


def _problem(
    data: Any, indices: Any, outer: int, sizes: Sequence[int], row: int, count: int, each: bool = False
) -> Any:
    """Returns the kernel's problem of a gather or scatter; None if kernels lack a dtype, or there are no elements."""
    kind, width = dtype_of(data), _INDEX.get(dtype_of(indices))
    if kind not in dtypes.CODES or kind in dtypes.PACKED or width is None or 0 in (outer, row, count, *sizes):
        return None
    return kernels.IndexProblem(outer, sizes, row, dtypes.itemsize(kind), count, width, each)


def _along(node: OnnxNode, data: Any, indices: Any) -> Any:
    """Returns one index for each element; None if the indices cover only a part of the other axes."""
    axis = axis_of(node, len(data.shape), 0)
    shapes = [(*one.shape[:axis], *one.shape[axis + 1 :]) for one in (data, indices)]
    if not len(data.shape) == len(indices.shape) > 0 or shapes[0] != shapes[1]:
        return None
    outer, row = prod(data.shape[:axis]), prod(data.shape[axis + 1 :])
    return _problem(data, indices, outer, [data.shape[axis]], row, indices.shape[axis], each=True)


def _made(node: OnnxNode, inputs: Sequence[Any], kernel: Any) -> Own:
    def build(program: Any, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        program.kernel(kernel, views_of(program, inputs, reads), writes, node.op_type)

    return build


def _gather_elements(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    problem = _along(node, *inputs)
    return None if problem is None else _made(node, inputs, kernels.gather_elements(problem))


def _putting(node: OnnxNode, inputs: Sequence[Any], problem: Any) -> Own | None:
    how = str(node.attrs.get("reduction", "none"))
    if problem is None or not (how == "none" or (how in _COMBINED and dtype_of(inputs[0]) == "f32")):
        return None
    return _made(node, inputs, kernels.scatter(problem, how))


def _scatter_elements(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    data, indices, updates = inputs
    return _putting(node, inputs, _along(node, data, indices)) if updates.shape == indices.shape else None


def _scatter_rows(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    data, indices, updates = inputs
    depth = indices.shape[-1] if indices.shape else 0
    if not 0 < depth <= len(data.shape):
        return None
    if tuple(updates.shape) != (*indices.shape[:-1], *data.shape[depth:]):
        return None
    row, count = prod(data.shape[depth:]), prod(indices.shape[:-1])
    return _putting(node, inputs, _problem(data, indices, 1, data.shape[:depth], row, count))


NATIVE: dict[str, FindOwn] = {
    "GatherElements": _gather_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_rows,
}
