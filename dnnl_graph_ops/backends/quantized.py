"""Finds the nodes of a quantized product, and reads their scales, zero points and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import schema
from ..graph import Node
from ..ir.rewrites import Rewrite
from ..onednn.exact_int8 import channels, integer_words, points_fit
from ..program import element_ops, elementwise
from . import dynamic, matmul

Array = np.ndarray[Any, Any]

CONVOLUTIONS = schema.kinds("convolves")
_DEQUANTIZES = schema.kinds("dequantizes")

FUSE_INT8 = Rewrite(
    "fuse_int8",
    "a convolution or MatMul of integers, its post-ops and a Quantize run as one product of integers",
    (
        "a Dequantize computes each operand",
        "no tensor is empty",
        "the integers have 8 bits",
        "zero points are integers of these dtypes",
        "the source has one scale",
        "scales of weights lie along the result's channels",
        "weights of a MatMul are constant",
        "a zero point that the call tells has the source's dtype",
        "the result has one scale",
        "sums fit into 32 bits",
        "the kernel takes the layer",
        "the kernel has the post-ops",
    ),
)
BOUND_INTEGERS = Rewrite(
    "bound_integers",
    "a ReLU or Clamp before a Quantize bounds its integers",
    ("the last post-op is a ReLU or Clamp",),
)


FUSE_RESIDUAL = Rewrite(
    "fuse_residual",
    "the sum of a convolution's integers and other integers, both dequantized, and a Quantize run with the convolution",
    (
        "an Add alone reads the floats of both",
        "both have one shape",
        "the integers have 8 bits, and one scale each",
        "zero points are integers of these dtypes",
        "the convolution's integers stand for the floats that became them",
        "the kernel adds the sum",
    ),
)


class Sum(NamedTuple):
    """Nodes of a sum: Quantize and Dequantize of a product, Dequantize of the rest, Add, a ReLU or Clamp or None."""

    inner: Node
    floats: Node
    other: Node
    add: Node
    bound: Node | None


class Quantized(NamedTuple):
    """Nodes of a quantized product: Dequantize of src and of weights, the head, post-ops, and Quantize or None.

    `residual`: the sum between the post-ops and the Quantize, or None.
    """

    src: Node
    weights: Node
    head: Node
    epilogue: tuple[Node, ...]
    quantize: Node | None
    residual: Sum | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether the scale of src is known at the call."""
        return len(self.src.inputs) > 1


def is_head(node: Node) -> bool:
    return node.kind in CONVOLUTIONS or matmul.by_rows(node)


def quantized(nodes: Sequence[Node]) -> Quantized | None:
    """Returns nodes, in any order, as the parts of a quantized product; None where they are not one."""
    head = next((node for node in nodes if is_head(node)), None)
    if head is None:
        return None
    src, weights = (value.node for value in head.inputs[:2])
    if src is None or weights is None or src is weights or src not in nodes or weights not in nodes:
        return None
    rest = [node for node in nodes if node not in (src, weights, head)]
    quantize = rest.pop() if rest and rest[-1].kind == "Quantize" else None
    unmet = ""
    integers = [
        value.dtype for value in (*src.inputs[:1], *weights.inputs[:1], *(quantize.outputs if quantize else ()))
    ]
    if src.kind not in _DEQUANTIZES or weights.kind != "Dequantize":
        unmet = "a Dequantize computes each operand"
    elif any(0 in node.outputs[0].shape for node in (src, weights, head)):
        unmet = "no tensor is empty"
    elif not element_ops.INTEGERS.issuperset(integers):
        unmet = "the integers have 8 bits"
    elif not all(map(points_fit, (src, weights, *([] if quantize is None else [quantize])))):
        unmet = "zero points are integers of these dtypes"
    elif not (dynamic.has_one_scale(src) if len(src.inputs) > 1 else len(src.attrs["scales"]) == 1):
        unmet = "the source has one scale"
    elif "axis" in integer_words(weights, channels(head)).split():
        unmet = "scales of weights lie along the result's channels"
    elif head.kind not in CONVOLUTIONS and not weights.inputs[0].is_constant:
        unmet = "weights of a MatMul are constant"
    elif any(value.dtype != src.inputs[0].dtype for value in src.inputs[2:]):
        unmet = "a zero point that the call tells has the source's dtype"
    elif quantize is not None and len(quantize.attrs["scales"]) != 1:
        unmet = "the result has one scale"
    if unmet:
        return FUSE_INT8.declined(head, unmet)
    return Quantized(src, weights, head, tuple(rest), quantize)


def with_sum(q: Quantized, added: Sum, last: Node) -> Quantized | None:
    """Returns a product with the sum that follows its Quantize, and a Quantize; None where no kernel runs the sum."""
    ends = *added[:3], last
    unmet, (left, right) = "", added.add.inputs
    if left.shape != right.shape:
        unmet = "both have one shape"
    elif not all(map(elementwise.is_quantizing, ends)) or any(len(node.attrs["scales"]) != 1 for node in ends):
        unmet = "the integers have 8 bits, and one scale each"
    elif not all(map(points_fit, ends)):
        unmet = "zero points are integers of these dtypes"
    elif scale_of(added.floats) != scale_of(added.inner):
        unmet = "the convolution's integers stand for the floats that became them"
    if unmet:
        return FUSE_RESIDUAL.declined(added.add, unmet)
    return q._replace(quantize=last, residual=added)


def point(node: Node) -> int:
    return int((node.attrs.get("zps") or (0,))[0])


def scale_of(node: Node) -> tuple[float, int]:
    """Returns the scale and the zero point of a Dequantize or Quantize by tensor."""
    return float(node.attrs["scales"][0]), point(node)
