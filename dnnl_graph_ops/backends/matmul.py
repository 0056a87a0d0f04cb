"""Runs a MatMul with constant weights as a convolution of one tap, with post-ops, on weights that are packed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ..algorithms.lower import Decision, lower
from ..convolution.nodes import make_problem, post_ops
from ..convolution.problem import ConvProblem
from ..graph import Node, Value
from ..ir.env import Env
from ..program import epilogue as post
from ..program.epilogue import Epilogue, EpilogueOp
from ..program.program import View
from ..schema import kinds
from ..strides import channels_last
from .backend import Backend, FusionGroup, Lowering, match_by

_AXES = range(2, 6)  # numbers of axes of a src that is read as (N, spatial..., C), or as (rows, C)
_ADDING = kinds("adds")
_PLAIN: dict[str, Any] = {"groups": 1, "auto_pad": "None", "data_format": "NXC", "weights_format": "XIO"}


def by_rows(node: Node) -> bool:
    """Whether a node is a MatMul of the rows of src and one matrix of weights, none of them empty."""
    if node.kind != "MatMul" or node.attrs.get("transpose_a"):
        return False
    src, weights, *bias = node.inputs
    return (
        len(weights.shape) == 2
        and src.ndim in _AXES
        and all(value.is_constant and len(value.shape) == 1 for value in bias)
        and all(size for value in (*node.inputs, *node.outputs) for size in value.shape)
    )


def leads(node: Node) -> bool:
    """Whether a node is a MatMul in f32 of rows with constant weights (IC, OC), which may run with post-ops."""
    return (
        by_rows(node)
        and node.inputs[1].is_constant
        and all(value.dtype == "f32" for value in (*node.inputs, *node.outputs))
    )


def problem_of(head: Node, rest: Sequence[Node], view_of: Callable[[Value], View], env: Env) -> ConvProblem:
    """Returns the convolution of one tap that computes a MatMul and its post-ops `rest`.

    Where the strides of src, dst and the post-ops' operands allow, all rows become one axis: src (..., IC) is read as
    (1, rows, IC) and dst (..., OC) is written as (1, rows, OC).
    """
    src, weights = view_of(head.inputs[0]), view_of(head.inputs[1])
    dst = view_of((rest[-1] if rest else head).outputs[0])
    if head.attrs.get("transpose_b"):
        weights = weights.permute((1, 0))
    epilogue = post_ops(head, rest, view_of, env)
    bias = view_of(head.inputs[2]) if len(head.inputs) > 2 else None
    if bias is None:
        bias, epilogue = _own_bias(epilogue, dst.shape[-1])
    in_rows = _rows(src, dst, epilogue)
    if in_rows is not None:
        src, dst, epilogue = in_rows
    elif src.ndim == 2:
        src, dst = src.insert(0), dst.insert(0)
        # operands (rows, C) as (1, C, rows), vectors as they are
        epilogue = post.map_views(epilogue, lambda v: v if v.ndim == 1 else v.permute((1, 0)).insert(0))
    taps = (1,) * (src.ndim - 2)
    weights = replace(weights, shape=(*taps, *weights.shape), strides=(*taps, *weights.strides))
    inputs = [src, weights] if bias is None else [src, weights, bias]
    zeros = (0,) * len(taps)
    attrs = {**_PLAIN, "strides": taps, "dilations": taps, "pads_begin": zeros, "pads_end": zeros}
    return make_problem("Convolution", attrs, inputs, dst, epilogue, f"{head.kind} {head.name!r}")


def _own_bias(epilogue: Epilogue, channels: int) -> tuple[View | None, Epilogue]:
    """Splits a bias off the post-ops: returns the constant vector that the first post-op adds, and the other post-ops.

    Returns None and all post-ops where the first adds no such vector, or where another post-op reads the product.
    """
    first = epilogue[0] if epilogue else None
    if first is None or first.kind not in _ADDING or any(0 in op.operands for op in epilogue[1:]):
        return None, epilogue
    added = [operand for operand in first.operands if isinstance(operand, View)]
    if len(added) != 1 or added[0].size != channels or max(added[0].shape) != channels:
        return None, epilogue
    (vector,) = added
    axis = vector.shape.index(channels)
    if not vector.is_constant or axis != min(vector.ndim - 1, 1):
        return None, epilogue
    flat = replace(vector, shape=(channels,), strides=(vector.strides[axis],))
    return flat, post.renumbered(epilogue[1:], -1)


def _rows(src: View, dst: View, epilogue: Epilogue) -> tuple[View, View, Epilogue] | None:
    """Returns src and dst as (1, rows, channels), and post-ops with operands as (1, channels, rows).

    Returns None where the strides of one of them do not allow that.
    """
    rows = prod(dst.shape[:-1])
    seen = [view.reshaped((1, rows, view.shape[-1])) for view in (src, dst)]
    moved: list[EpilogueOp] = []
    for op in epilogue:
        operands = tuple(_row_operand(o, dst) if isinstance(o, View) else o for o in op.operands)
        if any(operand is None for operand in operands):
            return None
        moved.append(replace(op, operands=tuple(o for o in operands if o is not None)))
    return None if seen[0] is None or seen[1] is None else (seen[0], seen[1], tuple(moved))


def _row_operand(view: View, dst: View) -> View | None:
    """Returns an operand (N, C, spatial...) of a post-op as (1, C, rows); None where its strides do not allow that."""
    if view.ndim == 1:
        return view
    sizes = (view.shape[0], *view.shape[2:])
    whole = (dst.shape[0], *dst.shape[1:-1])
    if sizes == whole:
        rows = view.permute(channels_last(view.ndim)).reshaped((1, prod(whole), view.shape[1]))
        return None if rows is None else rows.permute((0, 2, 1))
    if prod(sizes) == 1:
        return replace(view, shape=(1, view.shape[1], 1), strides=(1, view.strides[1], 1))
    return None


def _build(lowering: Lowering, group: FusionGroup) -> Decision:
    head, *rest = group.nodes
    problem = problem_of(head, rest, lowering.view, lowering.env)
    lowering.macs += problem.macs
    return lower(lowering.program, problem, lowering.env, lowering.choose, lowering.selectors.get(head.name))


MATMUL = Backend("matmul", _build, match_by(leads), leads=leads, weighs=True)
