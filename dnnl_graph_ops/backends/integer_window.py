"""Runs pools, reductions, resampling and GroupNorm of dequantized tensors: a Dequantize, the op, a Quantize or none.

Largest elements and sums of the integers are exact in s32. A result is (integer - zero point) * scale / divisor, in
f64, where the zero point of a sum counts once for each term: the mean of x is (sum(x) - n * zero) * scale / n. It is
rounded once: to f32, or, divided by the scale of the Quantize as well, to the nearest integer, ties to even.

An Interpolate reads integers and computes in f32 as it does on the results of a Dequantize, with the same numbers. That
of few channels is left to the library, where it is faster.

The norm of scaled integers less a zero point is that of the integers with epsilon / scale^2. A GroupNorm is computed in
f32 and rounded once to the integers of a Quantize; one without a Quantize has post-ops in f32 instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..algorithms.lower import Decision
from ..graph import Node, Value
from ..ir import dims
from ..ir.env import Env
from ..ir.rewrites import Rewrite
from ..onednn.exact_int8 import points_fit
from ..program.element_ops import INTEGERS
from ..program.program import Program
from ..schema import kinds
from . import norm, window
from .backend import Backend, FusionGroup, Lowering, Search
from .layout import Wish, wishes
from .quantized import point

_Builder = Callable[[Program, Node, window.Views, window.Views, window.Scales], None]
BUILDERS: dict[str, _Builder] = {
    "GroupNorm": norm.integer_norm,
    "Interpolate": window.resample,
    **dict.fromkeys(kinds("pools"), window.pool),
    "ReduceMax": window.reduce,
    "ReduceMean": window.reduce,
    "ReduceSum": window.reduce,
}
# terms of a sum in s32
_MOST_TERMS = (2**31 - 1) // 255
FUSE_INT8_WINDOW = Rewrite(
    "fuse_int8_window",
    "a pooling, reduction, resampling or GroupNorm of a dequantized tensor, and a Quantize, run on the integers",
    (
        "no tensor is empty",
        "the integers have 8 bits",
        "the zero point is an integer of this dtype",
        "the source has one scale",
        "sums fit into 32 bits",
        "an Interpolate has three spatial axes or many channels",
        "a norm has positive scales, and a Quantize reads it",
    ),
)


class Parts(NamedTuple):
    """The nodes of a group: a Dequantize, the op that reads its result, and the Quantize after it or None."""

    dequantize: Node
    head: Node
    quantize: Node | None

    @property
    def scales(self) -> window.Scales:
        return (*_scale(self.dequantize), *((1.0, 0) if self.quantize is None else _scale(self.quantize)))


def _scale(node: Node) -> tuple[float, int]:
    (scale,) = node.attrs["scales"]
    return float(np.float32(scale)), point(node)


def _terms(head: Node) -> int:
    if head.kind in kinds("pools"):
        return prod(head.attrs["kernel"])
    if head.kind not in window.REDUCTIONS:
        return 1
    return prod(dims(head.inputs[0])) // max(prod(dims(head.outputs[0])), 1)


def _unmet(dequantize: Node, head: Node, quantize: Node | None) -> str:
    """Returns the condition that a Dequantize and the ops after it do not meet, "" if integers compute them."""
    if any(0 in value.shape for value in (head.inputs[0], head.outputs[0])):
        return "no tensor is empty"
    if dequantize.inputs[0].dtype not in INTEGERS:
        return "the integers have 8 bits"
    if not points_fit(dequantize):
        return "the zero point is an integer of this dtype"
    if len(dequantize.attrs["scales"]) != 1:
        return "the source has one scale"
    if _terms(head) > _MOST_TERMS:
        return "sums fit into 32 bits"
    if head.kind == "Interpolate" and not window.resamples_many(head):
        return "an Interpolate has three spatial axes or many channels"
    if head.kind == "GroupNorm" and not (quantize and min(_scale(node)[0] for node in (dequantize, quantize)) > 0):
        return "a norm has positive scales, and a Quantize reads it"
    return ""


def _rounds(node: Node) -> bool:
    has_bytes = node.kind == "Quantize" and node.outputs[0].dtype in INTEGERS
    return has_bytes and len(node.attrs["scales"]) == 1 and points_fit(node)


def _reads(head: Node, value: Value) -> bool:
    """Whether an op reads a value as its only operand, or as the one that a norm scales and shifts."""
    if head.kind not in BUILDERS or not head.inputs or head.inputs[0] is not value:
        return False
    if head.kind == "GroupNorm":
        return norm.serves(head) and value not in head.inputs[1:]
    return len(head.inputs) == 1


def match(nodes: Sequence[Node], env: Env) -> Parts | None:
    """Returns the parts of nodes, in topological order, that one kernel runs on the integers; None where none does."""
    if not env.prefers_builtin or len(nodes) not in (2, 3):
        return None
    dequantize, head, *rest = nodes
    if dequantize.kind != "Dequantize" or not _reads(head, dequantize.outputs[0]):
        return None
    unmet = _unmet(dequantize, head, rest[0] if rest and _rounds(rest[0]) else None)
    FUSE_INT8_WINDOW.tell(head, unmet)
    if unmet or not all(_rounds(node) and node.inputs == (head.outputs[0],) for node in rest):
        return None
    return Parts(dequantize, head, rest[0] if rest else None)


def build(lowering: Lowering, group: FusionGroup) -> Decision:
    parts: Parts = group.match
    source = parts.dequantize.inputs[0]
    views = [lowering.view(value) for value in (source, *parts.head.inputs[1:])], [lowering.view(group.result)]
    BUILDERS[parts.head.kind](lowering.program, parts.head, *views, parts.scales)
    by = "builtin integer norm" if parts.head.kind == "GroupNorm" else "builtin integer window"
    return Decision(by, source.dtype)


def _find(search: Search) -> None:
    """Takes each op with the Dequantize that it alone reads, and the Quantize that alone reads it."""
    for head in search.nodes:
        maker = head.inputs[0].node if head.kind in BUILDERS and head.inputs else None
        if maker not in search.numbers or search.reader(head.inputs[0]) is not head:
            continue
        last = search.reader(head.outputs[0])
        members = [maker, head, *([last] if last is not None and _rounds(last) else [])]
        parts = match(members, search.env)
        if parts is not None:
            search.take(FusionGroup(tuple(members), INTEGER_WINDOW, parts))


def _layout(group: FusionGroup) -> Iterator[Wish]:
    parts: Parts = group.match
    yield from wishes(group.nodes)
    # a reduction or norm takes any layout
    if "data_format" in parts.head.attrs and parts.head.kind != "GroupNorm":
        yield from window.layout(parts.head, parts.dequantize.inputs[0], group.result)


INTEGER_WINDOW = Backend("integer_window", build, match, find=_find, layout=_layout)
