"""Describes post-ops: the element-wise ops that follow the head of a fused group, as a small graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import schema
from ..ir.env import Env
from ..record import record
from . import post_op_errors
from .program import Edge, NativeOp, Operand, Program, View

# kinds that may be post-ops: those that the library fuses, and PReLU, which only builtin kernels fuse
KINDS = schema.POST_OPS | {"PReLU"}


@record()
class EpilogueOp:
    """One post-op. An operand is a View, or the number of an earlier result: 0 the head's, i that of the i-th post-op.

    Views have the rank of dst and the axes (N, C, spatial...); only the vector of a BiasAdd or PReLU has rank 1.
    """

    kind: str
    attrs: Mapping[str, Any]
    operands: tuple[View | int, ...]
    name: str = ""


Epilogue = tuple[EpilogueOp, ...]


def views(epilogue: Epilogue) -> list[View]:
    """Returns the views that post-ops read besides the result of the head."""
    return [operand for op in epilogue for operand in op.operands if isinstance(operand, View)]


def refusals(epilogue: Epilogue, env: Env, head: str, dtype: str) -> dict[str, str]:
    """Returns the names of post-ops that the library must not compute in a dtype after its op `head`, and why."""
    return {
        op.name or op.kind: reason
        for op in epilogue
        if (reason := post_op_errors.refusal(op.kind, op.attrs, head, dtype, env))
    }


def map_views(epilogue: Epilogue, function: Callable[[View], View]) -> Epilogue:
    """Returns the post-ops with `function` applied to each of their views."""
    return tuple(
        EpilogueOp(op.kind, op.attrs, tuple(function(o) if isinstance(o, View) else o for o in op.operands), op.name)
        if any(isinstance(o, View) for o in op.operands)
        else op
        for op in epilogue
    )


def ops_on(head: Operand, epilogue: Epilogue, dst: View) -> list[NativeOp]:
    """Returns the post-ops as ops of one native step, from `head` to `dst`; results between them are Edges."""
    results: list[Operand] = [head]
    ops = []
    for position, op in enumerate(epilogue, 1):
        target: Operand = dst if position == len(epilogue) else Edge(dst.shape, dst.dtype)
        inputs = tuple(results[o] if isinstance(o, int) else o for o in op.operands)
        ops.append(NativeOp(op.kind, op.attrs, inputs, (target,), op.name))
        results.append(target)
    return ops


def fused(
    kind: str, attrs: Mapping[str, Any], inputs: Sequence[View | None], epilogue: Epilogue, dst: View
) -> list[NativeOp]:
    """Returns an op and its post-ops, the last of which writes dst; inputs that are None, as a bias, are left out."""
    result = Edge(dst.shape, dst.dtype) if epilogue else dst
    head = NativeOp(kind, attrs, tuple(view for view in inputs if view is not None), (result,))
    return [head, *ops_on(result, epilogue, dst)]


def apply(program: Program, source: View, epilogue: Epilogue, dst: View, label: str = "post-ops") -> None:
    """Appends post-ops on `source` as a step of the library in the dtype of `source`, which writes `dst`."""
    inner = map_views(epilogue, lambda view: program.converted(view, source.dtype))
    if source.dtype == dst.dtype:
        program.native(ops_on(source, inner, dst), label)
        return
    result = program.like(dst, source.dtype)
    program.native(ops_on(source, inner, result), label)
    program.copy(result, dst, f"{source.dtype} to {dst.dtype}")


def labelled(label: str, epilogue: Epilogue) -> str:
    """Returns a step's label followed by the kinds of its post-ops, e.g. "multiply + ReLU"."""
    return " + ".join((label, *(op.kind for op in epilogue)))


def with_bias(bias: View | None, epilogue: Epilogue) -> Epilogue:
    """Returns a BiasAdd of `bias` and the post-ops after it; only the post-ops if there is no bias."""
    if bias is None:
        return epilogue
    return (EpilogueOp("BiasAdd", {"data_format": "NCX"}, (0, bias)), *renumbered(epilogue, 1))


def renumbered(epilogue: Epilogue, by: int) -> Epilogue:
    """Returns the post-ops with `by` added to the numbers of the results that they read."""
    return tuple(
        replace(op, operands=tuple(o + by if isinstance(o, int) else o for o in op.operands)) for op in epilogue
    )
