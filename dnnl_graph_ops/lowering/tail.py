"""Post-ops: the small graph of elementwise ops that hangs on the head of a partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .. import schema
from .env import Env
from .program import Edge, NativeOp, Operand, Program, View

# what may follow a head: ops that the library fuses there, and one that only own kernels do
KINDS = schema.POST_OPS | {"PReLU"}
# what the library's vector code makes a number of NaN in, though their definition keeps it
LOSING_NAN = schema.kinds("nan_lost_behind")


@dataclass(frozen=True)
class TailOp:
    """One post-op. An operand is a View, or the number of an earlier result: 0 the head, i the i-th post-op.

    Operands are in normal form: rank of dst, axes (N, C, spatial...); only a vector of BiasAdd or PReLU has rank 1.
    """

    kind: str
    attrs: Mapping[str, Any]
    operands: tuple[View | int, ...]
    name: str = ""


Tail = tuple[TailOp, ...]


def views(tail: Tail) -> list[View]:
    """The views that post-ops read besides the head."""
    return [operand for op in tail for operand in op.operands if isinstance(operand, View)]


def native(tail: Tail, env: Env) -> bool:
    """Whether the library fuses ops of these kinds, and computes what it is to compute."""
    losing = LOSING_NAN if env.prefers_own else frozenset[str]()
    return all(op.kind in schema.POST_OPS and op.kind not in losing for op in tail)


def map_views(tail: Tail, function: Callable[[View], View]) -> Tail:
    """The same post-ops on other views."""
    return tuple(
        replace(op, operands=tuple(function(o) if isinstance(o, View) else o for o in op.operands)) for op in tail
    )


def ops_on(head: Operand, tail: Tail, dst: View) -> list[NativeOp]:
    """The post-ops as native ops from `head` to `dst`; the results between them stay inside the step."""
    results: list[Operand] = [head]
    ops = []
    for position, op in enumerate(tail, 1):
        target: Operand = dst if position == len(tail) else Edge(dst.shape, dst.dtype)
        inputs = tuple(results[o] if isinstance(o, int) else o for o in op.operands)
        ops.append(NativeOp(op.kind, op.attrs, inputs, (target,), op.name))
        results.append(target)
    return ops


def fused(head: Callable[[Operand], NativeOp], tail: Tail, dst: View) -> list[NativeOp]:
    """The head op and its post-ops, writing dst. `head` makes the head op for an output operand."""
    if not tail:
        return [head(dst)]
    edge = Edge(dst.shape, dst.dtype)
    return [head(edge), *ops_on(edge, tail, dst)]


def apply(program: Program, source: View, tail: Tail, dst: View, label: str = "post-ops") -> None:
    """Run post-ops as a step of their own, in the dtype of `source`."""
    inner = map_views(tail, lambda view: program.converted(view, source.dtype))
    if source.dtype == dst.dtype:
        program.native(ops_on(source, inner, dst), label)
        return
    result = program.like(dst, source.dtype)
    program.native(ops_on(source, inner, result), label)
    program.copy(result, dst, f"{source.dtype} to {dst.dtype}")


def with_bias(bias: View | None, tail: Tail) -> Tail:
    """The post-ops with a bias in front of them."""
    if bias is None:
        return tail
    moved = (replace(op, operands=tuple(o + 1 if isinstance(o, int) else o for o in op.operands)) for op in tail)
    return (TailOp("BiasAdd", {"data_format": "NCX"}, (0, bias)), *moved)
