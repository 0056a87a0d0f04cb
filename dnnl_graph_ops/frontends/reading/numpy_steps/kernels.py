"""Builtin kernels for masks and indices: ops on integers and booleans, comparisons, gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import dtypes
from ....graph.json_format import MAX_NDIM
from ....program import elementwise_int, gather, select
from ....program.program import Program, View
from ..node import OnnxNode
from ..types import DTYPES
from .common import Described, FindOwn, Own, dtype_of, views_of


def _element_wise(op: str) -> FindOwn:
    """Returns an element-wise kernel for operands of one dtype; more than two operands are combined in turn."""

    def find(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
        found = {dtype_of(operand) for operand in inputs}
        if len(found) != 1 or not elementwise_int.takes(op, *found):
            return None

        def build(program: Program, reads: Sequence[View], writes: Sequence[View]) -> None:
            views, target = views_of(program, inputs, reads), writes[0]
            while len(views) > 2:
                joined = program.scratch(np.broadcast_shapes(views[0].shape, views[1].shape), target.dtype)
                elementwise_int.append(program, op, views[:2], joined, node.op_type)
                views[:2] = [joined]
            elementwise_int.append(program, op, views, target, node.op_type)

        return build if len(inputs) > 1 or op in ("not", "is_nan") else None

    return find


def _cast(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    (src,) = inputs

    def build(program: Program, reads: Sequence[View], writes: Sequence[View]) -> None:
        elementwise_int.append(program, "cast", reads, writes[0], node.op_type)

    code = node.attrs.get("to")
    result = DTYPES.get(code) if isinstance(code, int) else None
    return build if result is not None and elementwise_int.takes("cast", dtype_of(src), result) else None


def _where(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    cond, *sources = inputs
    kinds = {dtype_of(one) for one in sources}
    if dtype_of(cond) != "boolean" or len(kinds) != 1 or not kinds <= dtypes.CODES.keys() - dtypes.PACKED:
        return None

    def build(program: Program, reads: Sequence[View], writes: Sequence[View]) -> None:
        select.append(program, views_of(program, inputs, reads), writes[0], node.op_type)

    return build


def _expand(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    src, *_ = inputs
    if not isinstance(src, Described) or src.dtype in dtypes.PACKED:
        return None

    def build(program: Program, reads: Sequence[View], writes: Sequence[View]) -> None:
        source, target = reads[src.number], writes[0]
        missing = target.ndim - source.ndim
        steps = (0 if n == 1 else step for n, step in zip(source.shape, source.strides, strict=True))
        program.copy(View(source.buffer, target.shape, (*(0,) * missing, *steps), source.offset), target, node.op_type)

    return build


def _transpose(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    (src,) = inputs
    if src.dtype in dtypes.PACKED:
        return None
    order = node.attrs.get("perm") or range(len(src.shape))[::-1]

    def build(program: Program, reads: Sequence[View], writes: Sequence[View]) -> None:
        program.copy(reads[0].permute(tuple(order)), writes[0], node.op_type)

    return build


def _concat(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    if any(dtype_of(one) in dtypes.PACKED for one in inputs):
        return None

    def build(program: Program, reads: Sequence[View], writes: Sequence[View]) -> None:
        axis, start = int(node.attrs["axis"]) % writes[0].ndim, 0
        for view in views_of(program, inputs, reads):
            size = view.shape[axis]
            program.copy(view, writes[0].narrow(axis, start, size), node.op_type)
            start += size

    return build


def _places_of(data: Any, places: Any) -> bool:
    """Whether a kernel gathers rows of the first operand by indices in the second."""
    return dtype_of(places) in gather.INDICES and dtype_of(data) in dtypes.CODES and dtype_of(data) not in dtypes.PACKED


def _gather(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    data, places = inputs
    axis, rank = int(node.attrs.get("axis", 0)), len(data.shape)
    if not _places_of(data, places) or not -rank <= axis < rank or rank + len(places.shape) > MAX_NDIM:
        return None
    axis %= rank

    def build(program: Program, reads: Sequence[View], writes: Sequence[View]) -> None:
        gather.rows(program, views_of(program, inputs, reads), writes[0], node.op_type, range(axis, axis + 1))

    return build


def _gather_rows(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    data, places = inputs
    batch, depth = int(node.attrs.get("batch_dims", 0)), places.shape[-1] if places.shape else 0
    if not _places_of(data, places) or not depth or batch + depth > len(data.shape):
        return None

    def build(program: Program, reads: Sequence[View], writes: Sequence[View]) -> None:
        views = views_of(program, inputs, reads)
        gather.rows(program, views, writes[0], node.op_type, range(batch, batch + depth), batched=batch > 0)

    return build


def _given(count: int | None, find: FindOwn) -> FindOwn:
    """Returns `find` for nodes with `count` inputs (None: any number), none of them left out."""

    def found(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
        if any(one is None for one in inputs) or len(inputs) != (count or max(len(inputs), 1)):
            return None
        return find(node, inputs)

    return found


NATIVE: dict[str, FindOwn] = {
    **{
        name: _given(2, _element_wise(op))
        for name, op in {
            "Add": "add", "And": "and", "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal",
            "Less": "less", "LessOrEqual": "less_equal", "Mul": "multiply", "Or": "or", "Sub": "subtract",
            "Xor": "xor",
        }.items()
    },
    "Cast": _given(1, _cast),
    "Concat": _given(None, _concat),
    "Expand": _given(2, _expand),
    "Gather": _given(2, _gather),
    "GatherND": _given(2, _gather_rows),
    "IsNaN": _given(1, _element_wise("is_nan")),
    "Max": _given(None, _element_wise("maximum")),
    "Min": _given(None, _element_wise("minimum")),
    "Not": _given(1, _element_wise("not")),
    "Transpose": _given(1, _transpose),
    "Where": _given(3, _where),
}  # fmt: skip
