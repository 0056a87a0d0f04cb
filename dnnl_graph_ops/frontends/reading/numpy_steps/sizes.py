"""Bounds the bytes of NumPy steps before they run, if numbers of a call or attributes determine a result's size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..equation import axes_of
from ..node import OnnxNode
from .common import item, number
from .table import ROWS, Row

# bytes of results computed in 64 bits
WIDE = 8


def _listed(array: Any) -> list[int]:
    return [int(one) for one in np.reshape(array, -1)]


def window(node: OnnxNode, inputs: Sequence[Any]) -> int:
    return 3 * WIDE * int(number(inputs[0]))


def filters(node: OnnxNode, inputs: Sequence[Any]) -> int:
    filters, length = (int(number(one)) for one in inputs[:2])
    return WIDE * (filters + 2) * (length // 2 + 3)


def classes(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """OneHot: the comparison and the result."""
    return int(inputs[0].size * number(inputs[1])) * (1 + int(inputs[2].itemsize))


def cropped(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, sizes = inputs[0], list(inputs[0].shape)
    for axis, size in zip(node.attrs.get("axes", range(data.ndim)), _listed(inputs[1]), strict=False):
        # cropping makes views, axis by axis
        sizes[axis] = max(sizes[axis], size)
    return 2 * int(data.itemsize) * math.prod(sizes)


def transformed(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, length = inputs[0], item(inputs, 1)
    if length is None:
        return 0
    axis = int(node.attrs.get("axis", 1) if node.opset < 20 else -2 if item(inputs, 2) is None else number(inputs[2]))
    rest = list(data.shape[:-1])
    del rest[axis if axis >= 0 else axis + 1]
    return 4 * WIDE * math.prod(rest) * int(number(length))


def framed(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, step, window, length = inputs[0], int(number(inputs[1])), item(inputs, 2), item(inputs, 3)
    size = int(number(length)) if length is not None else data.shape[1] if window is None else len(window)
    count = max((data.shape[1] - size) // max(step, 1) + 1, 0)
    return 4 * WIDE * int(data.shape[0]) * count * size


def unpooled(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, wanted = inputs[0], item(inputs, 2)
    kernel = node.attrs["kernel_shape"]
    strides = node.attrs.get("strides") or [1] * len(kernel)
    sizes = [size * stride + k for size, stride, k in zip(data.shape[2:], strides, kernel, strict=False)]
    own = math.prod((*data.shape[:2], *sizes))
    return int(data.itemsize) * (own + (0 if wanted is None else math.prod(_listed(wanted))))


def grid(node: OnnxNode, inputs: Sequence[Any]) -> int:
    size = _listed(inputs[1])
    return 3 * WIDE * len(size) * math.prod(size[2:]) * (size[0] if size else 1)


def einsum(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """Einsum: the result; with three operands or more, intermediate results are at most as large in a good order."""
    shape = axes_of(node.attrs.get("equation"), [data.shape for data in inputs], node.where).shape
    return WIDE * math.prod(map(int, shape))  # type: ignore[arg-type]


def product(node: OnnxNode, inputs: Sequence[Any]) -> int:
    a, b = inputs[0], inputs[3 if node.op_type == "QLinearMatMul" else 1]
    rows, columns = a.shape[-2:-1] or (1,), b.shape[-1:] if b.ndim > 1 else (1,)
    return WIDE * math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])) * int(rows[0]) * int(columns[0])


def scores(node: OnnxNode, inputs: Sequence[Any]) -> int:
    q, k, past = inputs[0], inputs[1], item(inputs, 4)
    total = k.shape[-2] + (0 if past is None else past.shape[2])
    heads = q.shape[1] if q.ndim == 4 else int(node.attrs.get("q_num_heads") or 1)
    return 4 * WIDE * int(q.shape[0]) * int(heads) * int(q.shape[-2]) * int(total)


def points(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """RoiAlign: the points of one region at a time."""
    data, regions = inputs[:2]
    out = math.prod(int(node.attrs.get(f"output_{side}", 1)) for side in ("height", "width"))
    ratio = int(node.attrs.get("sampling_ratio", 0))
    spans = np.abs(regions.astype(np.float64)) * node.attrs.get("spatial_scale", 1.0) * 2 + 2
    points = out * ratio**2 if ratio > 0 else float(np.square(spans.max(initial=1) + max(out, 1)))
    if not math.isfinite(points):
        return 1 << 62
    return WIDE * int(data.shape[1]) * (5 * int(points) + out * len(regions))


def deformed(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """DeformConv: several copies of the samples of every kernel element and channel."""
    data, _, offset = inputs[:3]
    each = int(offset.size) // max(data.ndim - 2, 1) * int(data.shape[1])
    return 4 * WIDE * each // max(int(node.attrs.get("offset_group", 1)), 1)


def _itemsize(inputs: Sequence[Any]) -> int:
    """Returns the bytes of a result's element; NumPy widens mixed dtypes to 8 bytes, or to the widest."""
    kinds = {array.dtype for array in inputs if array is not None}
    widest = max((kind.itemsize for kind in kinds), default=0)
    return int(widest if len(kinds) == 1 else max(WIDE, widest))


def whole(_: OnnxNode, inputs: Sequence[Any]) -> int:
    """The bytes of all inputs together."""
    return sum(array.size for array in inputs if array is not None) * _itemsize(inputs)


def outer(_: OnnxNode, inputs: Sequence[Any]) -> int:
    """The broadcast result of the inputs, pair by pair."""
    size = math.prod(np.broadcast_shapes(*(one.shape for one in inputs if one is not None)))
    return size * _itemsize(inputs) * max(len(inputs) - 1, 1)


# operators of onnx.reference
for _name in ("BlackmanWindow", "HammingWindow", "HannWindow"):
    ROWS[_name] = Row(None, window, (0,))
ROWS["CenterCropPad"] = Row(None, cropped, (1,))
ROWS["MelWeightMatrix"] = Row(None, filters, (0, 1))
