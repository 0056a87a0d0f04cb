"""Runs pooling, reductions and resampling of dequantized tensors: a Dequantize, the op, and a Quantize or none.

Largest elements and sums of the integers are exact in s32. A result is (integer - zero point) * scale / divisor, in
f64, where the zero point of a sum counts once for each term: the mean of x is (sum(x) - n * zero) * scale / n. It is
rounded once: to f32, or, divided by the scale of the Quantize as well, to the nearest integer, ties to even.

An Interpolate reads integers and computes in f32 as it does on the results of a Dequantize, with the same numbers. That
of few channels is left to the library, where it is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..algorithms.lower import Decision
from ..graph import Node
from ..ir import dims
from ..ir.env import Env
from ..ir.rewrites import Rewrite
from ..onednn.exact_int8 import points_fit
from ..program.elementwise import INTEGERS
from ..schema import kinds
from . import window
from .backend import Backend, FusionGroup, Lowering, Search
from .layout import Wish, wishes
from .quantized import point

BUILDERS = {
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
    "a pooling, reduction or resampling of a dequantized tensor, and a Quantize, run on the integers",
    (
        "no tensor is empty",
        "the integers have 8 bits",
        "the zero point is an integer of this dtype",
        "the source has one scale",
        "sums fit into 32 bits",
        "an Interpolate has three spatial axes or many channels",
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


def _unmet(dequantize: Node, head: Node) -> str:
    """Returns the condition that a Dequantize and the op that reads it do not meet, "" if integers compute both."""
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
    return ""


def _rounds(node: Node) -> bool:
    has_bytes = node.kind == "Quantize" and node.outputs[0].dtype in INTEGERS
    return has_bytes and len(node.attrs["scales"]) == 1 and points_fit(node)


def match(nodes: Sequence[Node], env: Env) -> Parts | None:
    """Returns the parts of nodes, in topological order, that one kernel runs on the integers; None where none does."""
    if not env.prefers_builtin or len(nodes) not in (2, 3):
        return None
    dequantize, head, *rest = nodes
    if dequantize.kind != "Dequantize" or head.kind not in BUILDERS or head.inputs != (dequantize.outputs[0],):
        return None
    unmet = _unmet(dequantize, head)
    FUSE_INT8_WINDOW.tell(head, unmet)
    if unmet or not all(_rounds(node) and node.inputs == (head.outputs[0],) for node in rest):
        return None
    return Parts(dequantize, head, rest[0] if rest else None)


def build(lowering: Lowering, group: FusionGroup) -> Decision:
    parts: Parts = group.match
    source = parts.dequantize.inputs[0]
    views = [lowering.view(source)], [lowering.view(group.result)]
    BUILDERS[parts.head.kind](lowering.program, parts.head, *views, parts.scales)
    return Decision("builtin integer window", source.dtype)


def _find(search: Search) -> None:
    """Takes each op with the Dequantize that it alone reads, and the Quantize that alone reads it."""
    for head in search.nodes:
        (maker,) = {value.node for value in head.inputs} if len(head.inputs) == 1 else (None,)
        if head.kind not in BUILDERS or maker not in search.numbers:
            continue
        if search.reader(head.inputs[0]) is not head:
            continue
        last = search.reader(head.outputs[0])
        members = [maker, head, *([last] if last is not None and _rounds(last) else [])]
        parts = match(members, search.env)
        if parts is not None:
            search.take(FusionGroup(tuple(members), INTEGER_WINDOW, parts))


def _layout(group: FusionGroup) -> Iterator[Wish]:
    parts: Parts = group.match
    yield from wishes(group.nodes)
    # a reduction takes any layout
    if "data_format" in parts.head.attrs:
        yield from window.layout(parts.head, parts.dequantize.inputs[0], group.result)


INTEGER_WINDOW = Backend("integer_window", build, match, find=_find, layout=_layout)
