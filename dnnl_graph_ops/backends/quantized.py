"""Finds the nodes of a quantized product, and reads their scales, zero points and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes, schema
from ..graph import Node
from ..ir.rewrites import Rewrite
from ..onednn.exact_int8 import channels, integer_words
from ..program import elementwise
from ..program.epilogue import Epilogue
from ..program.program import Buffer, Place, View
from . import dynamic, matmul

Array = np.ndarray[Any, Any]

# the instruction set without integer dot products, which every CPU has
WORDS = "avx2words"
CONVOLUTIONS = schema.kinds("convolves")
_DEQUANTIZES = schema.kinds("dequantizes")
_BOUNDING = schema.kinds("bounds")

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
        "padding with zeros adds few products",
        "the kernel takes the layer",
        "integer products are faster by estimate",
        "the kernel has the post-ops",
    ),
)
BOUND_INTEGERS = Rewrite(
    "bound_integers",
    "a ReLU or Clamp before a Quantize bounds its integers",
    ("the last post-op is a ReLU or Clamp",),
)


class Quantized(NamedTuple):
    """Nodes of a quantized product: Dequantize of src and of weights, the head, post-ops, and Quantize or None."""

    src: Node
    weights: Node
    head: Node
    epilogue: tuple[Node, ...]
    quantize: Node | None

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
    elif not elementwise.INTEGERS.issuperset(integers):
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


def points_fit(node: Node) -> bool:
    """Whether the stated zero points of a Dequantize or Quantize are integers of its 8-bit dtype."""
    integers = node.outputs[0] if node.kind == "Quantize" else node.inputs[0]
    kinds = np.iinfo(dtypes.numpy_dtype(integers.dtype))
    return all(kinds.min <= point <= kinds.max for point in node.attrs.get("zps") or ())


def shift(weights: Node) -> int:
    """Returns the integer that a kernel of bytes subtracts from weights as it packs them: it multiplies by s8."""
    return 128 if weights.inputs[0].dtype == "u8" else 0


def constant_weights(q: Quantized, view: View) -> Array:
    """Returns the integers of constant weights, in the shape of `view`."""
    array = q.weights.inputs[0].constant
    assert array is not None
    # strides of elements of one byte
    return np.lib.stride_tricks.as_strided(array.reshape(-1)[view.offset :], view.shape, view.strides)


def bounded(epilogue: Epilogue, quantize: Node) -> tuple[Epilogue, int, int]:
    """Replaces a ReLU or Clamp right before a Quantize by bounds of the integers.

    Returns the post-ops without it, and the lowest and highest integer; all post-ops and the bounds of the dtype where
    the last post-op is another. Rounding is monotonic, so clamping before or after it gives the same.
    """
    kinds = np.iinfo(dtypes.numpy_dtype(quantize.outputs[0].dtype))
    low, high = int(kinds.min), int(kinds.max)
    scale, zero = np.float32(quantize.attrs["scales"][0]), np.float32(point(quantize))

    def rounded(bound: float) -> int:
        return int(np.clip(np.rint(np.float32(bound) / scale) + zero, low, high))

    if not epilogue or epilogue[-1].kind not in _BOUNDING:
        BOUND_INTEGERS.declined(quantize, "the last post-op is a ReLU or Clamp")
        return epilogue, low, high
    BOUND_INTEGERS.fired(quantize)
    # each post-op's result is read inside of the group, so the last post-op reads the one before it
    op = epilogue[-1]
    bounds = (0.0, np.inf) if op.kind == "ReLU" else (op.attrs["min"], op.attrs["max"])
    return epilogue[:-1], rounded(bounds[0]), rounded(bounds[1])


def as_floats(view: View) -> View:
    """Returns a view in f32 with the same strides: post-ops in a kernel see results so, before they are rounded."""
    return replace(view, buffer=Buffer(Place.SCRATCH, "f32", view.buffer.elements))


def of_channels(size: int, values: Sequence[float], dtype: Any) -> Array:
    """Expands scales or zero points of the weights, of size 1, OC / groups or OC, to an array (OC) of this size."""
    array = np.asarray(values, dtype)
    # several values are those of one group's channels, or of all
    return np.broadcast_to(array, (size,)).copy() if array.size == 1 else np.tile(array, size // array.size)


def zero_points(q: Quantized, size: int) -> Array:
    """Returns the zero points (OC) of the weights, for OC = `size`, in s32."""
    return of_channels(size, q.weights.attrs.get("zps") or (0,), np.int32)


def point(node: Node) -> int:
    return int((node.attrs.get("zps") or (0,))[0])
