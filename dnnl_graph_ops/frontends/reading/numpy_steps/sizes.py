"""How many bytes a NumPy step takes beyond its inputs, before it runs: where numbers that a call gives, or attributes,
may ask for more than there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....errors import Error
from ....runtime.memory_limit import process_limit
from ..fold import sized
from ..node import OnnxNode
from .common import item, number

Size = Callable[[OnnxNode, Sequence[Any]], int]

# what is computed in 64 bits
_WIDE = 8


def _listed(array: Any) -> list[int]:
    return [int(one) for one in np.reshape(array, -1)]


def _window(node: OnnxNode, inputs: Sequence[Any]) -> int:
    return 3 * _WIDE * int(number(inputs[0]))


def _filters(node: OnnxNode, inputs: Sequence[Any]) -> int:
    filters, length = (int(number(one)) for one in inputs[:2])
    return _WIDE * (filters + 2) * (length // 2 + 3)


def _classes(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """The comparison and the result."""
    return int(inputs[0].size * number(inputs[1])) * (1 + int(inputs[2].itemsize))


def _around(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, pads, axes = inputs[0], item(inputs, 1), item(inputs, 3)
    given = _listed(node.attrs.get("pads") or node.attrs.get("paddings") or []) if pads is None else _listed(pads)
    rows = range(data.ndim) if axes is None else _listed(axes)
    sizes = list(data.shape)
    for axis, before, after in zip(rows, given, given[len(given) // 2 :], strict=False):
        sizes[axis] += max(before, 0) + max(after, 0)
    return int(data.itemsize) * math.prod(sizes)


def _cropped(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, sizes = inputs[0], list(inputs[0].shape)
    for axis, size in zip(node.attrs.get("axes", range(data.ndim)), _listed(inputs[1]), strict=False):
        # what is cut off is a view, one axis after the other
        sizes[axis] = max(sizes[axis], size)
    return 2 * int(data.itemsize) * math.prod(sizes)


def _resized(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, index = inputs[0], 1 if node.opset < 11 else 2
    scales, sizes = item(inputs, index), item(inputs, 3) if index == 2 else None
    axes = node.attrs.get("axes") or range(data.ndim)
    wanted = list(data.shape)
    if sizes is not None and sizes.size:
        for axis, size in zip(axes, _listed(sizes), strict=False):
            wanted[axis] = max(size, 1)
        if node.attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch":
            pairs = [(wanted[axis], max(data.shape[axis], 1)) for axis in axes]
            most = max(new / old for new, old in pairs)
            for axis in axes:
                wanted[axis] = math.ceil(data.shape[axis] * most)
    else:
        factors = node.attrs.get("scales", ()) if scales is None else scales.reshape(-1).tolist()
        for axis, factor in zip(axes, factors, strict=False):
            wanted[axis] = math.ceil(data.shape[axis] * factor)
    return 3 * _WIDE * math.prod(max(old, new, 1) for old, new in zip(data.shape, wanted, strict=True))


def _transformed(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, length = inputs[0], item(inputs, 1)
    if length is None:
        return 0
    axis = int(node.attrs.get("axis", 1) if node.opset < 20 else -2 if item(inputs, 2) is None else number(inputs[2]))
    rest = list(data.shape[:-1])
    del rest[axis if axis >= 0 else axis + 1]
    return 4 * _WIDE * math.prod(rest) * int(number(length))


def _framed(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, step, window, length = inputs[0], int(number(inputs[1])), item(inputs, 2), item(inputs, 3)
    size = int(number(length)) if length is not None else data.shape[1] if window is None else len(window)
    count = max((data.shape[1] - size) // max(step, 1) + 1, 0)
    return 4 * _WIDE * int(data.shape[0]) * count * size


def _unpooled(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, wanted = inputs[0], item(inputs, 2)
    kernel = node.attrs["kernel_shape"]
    strides = node.attrs.get("strides") or [1] * len(kernel)
    sizes = [size * stride + k for size, stride, k in zip(data.shape[2:], strides, kernel, strict=False)]
    own = math.prod((*data.shape[:2], *sizes))
    return int(data.itemsize) * (own + (0 if wanted is None else math.prod(_listed(wanted))))


def _image(node: OnnxNode, inputs: Sequence[Any]) -> int:
    data, image, block = inputs[0], _listed(inputs[1]), _listed(inputs[2])
    pads = node.attrs.get("pads") or [0] * 2 * len(image)
    sides = zip(image, pads, pads[len(image) :], strict=False)
    channels = int(data.shape[0]) * int(data.shape[1]) // max(math.prod(block), 1)
    return _WIDE * (channels * math.prod(size + a + b for size, a, b in sides) + data.size)


def _grid(node: OnnxNode, inputs: Sequence[Any]) -> int:
    size = _listed(inputs[1])
    return 3 * _WIDE * len(size) * math.prod(size[2:]) * (size[0] if size else 1)


def _padded(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """What windows are over; a copy of each window is as large as its kernel."""
    data = inputs[0]
    kernel = node.attrs.get("kernel_shape") or inputs[1].shape[2:]
    rank = len(kernel)
    pads, strides = node.attrs.get("pads") or [0] * 2 * rank, node.attrs.get("strides") or [1] * rank
    dilations = node.attrs.get("dilations") or [1] * rank
    lead = int(math.prod(data.shape[:2]))
    whole = copies = 1
    each = zip(data.shape[2:], kernel, pads, pads[rank:], strides, dilations, strict=False)
    for size, k, before, after, stride, dilation in each:
        # with the last window, which may begin at the end
        room = size + max(before, 0) + max(after, 0)
        whole *= room + k * dilation
        copies *= (room // max(stride, 1) + 1) * k
    return _WIDE * lead * (whole + copies)


def _einsum(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """The result; of three operands or more, what is between them is no larger in any sensible order."""
    left, _, right = str(node.attrs.get("equation", "")).replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for term, data in zip(left.split(","), inputs, strict=False):
        if "..." not in term and len(term) == data.ndim:
            sizes.update(zip(term, data.shape, strict=True))
    return _WIDE * math.prod(sizes.get(label, 1) for label in right if label != ".")


def _product(node: OnnxNode, inputs: Sequence[Any]) -> int:
    a, b = inputs[0], inputs[3 if node.op_type == "QLinearMatMul" else 1]
    rows, columns = a.shape[-2:-1] or (1,), b.shape[-1:] if b.ndim > 1 else (1,)
    return _WIDE * math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])) * int(rows[0]) * int(columns[0])


def _scores(node: OnnxNode, inputs: Sequence[Any]) -> int:
    q, k, past = inputs[0], inputs[1], item(inputs, 4)
    total = k.shape[-2] + (0 if past is None else past.shape[2])
    heads = q.shape[1] if q.ndim == 4 else int(node.attrs.get("q_num_heads") or 1)
    return 4 * _WIDE * int(q.shape[0]) * int(heads) * int(q.shape[-2]) * int(total)


def _points(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """Of one region after the other the points."""
    data, regions = inputs[:2]
    out = math.prod(int(node.attrs.get(f"output_{side}", 1)) for side in ("height", "width"))
    ratio = int(node.attrs.get("sampling_ratio", 0))
    spans = np.abs(regions.astype(np.float64)) * node.attrs.get("spatial_scale", 1.0) * 2 + 2
    points = out * ratio**2 if ratio > 0 else float(np.square(spans.max(initial=1) + max(out, 1)))
    if not math.isfinite(points):
        return 1 << 62
    return _WIDE * int(data.shape[1]) * (5 * int(points) + out * len(regions))


def _deformed(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """What each tap reads of each channel, several times."""
    data, _, offset = inputs[:3]
    each = int(offset.size) // max(data.ndim - 2, 1) * int(data.shape[1])
    return 4 * _WIDE * each // max(int(node.attrs.get("offset_group", 1)), 1)


def _outer(node: OnnxNode, inputs: Sequence[Any]) -> int:
    return _WIDE * math.prod(np.broadcast_shapes(*(one.shape for one in inputs if one is not None)))


_SIZES: dict[str, Size] = {
    **dict.fromkeys(("AveragePool", "ConvInteger", "LpPool", "MaxPool"), _padded),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), _window),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _product),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "Pow", "Xor"), _outer),
    **dict.fromkeys(("Resize", "Upsample"), _resized),
    "AffineGrid": _grid,
    "Attention": _scores,
    "CenterCropPad": _cropped,
    "Col2Im": _image,
    "DFT": _transformed,
    "DeformConv": _deformed,
    "Einsum": _einsum,
    "MaxUnpool": _unpooled,
    "MelWeightMatrix": _filters,
    "OneHot": _classes,
    "Pad": _around,
    "RoiAlign": _points,
    "STFT": _framed,
}


def needed(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """Bytes, as far as they are more than what a few times the inputs take."""
    size = sized(node, inputs)
    return _SIZES[node.op_type](node, inputs) if not size and node.op_type in _SIZES and not node.domain else size


def bound(node: OnnxNode, inputs: Sequence[Any]) -> None:
    """Refuse what this machine cannot hold, before it is made.

    Raises:
        Error: it is more than the process may have.
    """
    size = needed(node, inputs)
    if size > process_limit():
        raise Error(f"{node.where}: needs {size} bytes, of which this process may have {process_limit()}")
