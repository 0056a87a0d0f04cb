"""Transposed convolution and its three gradients in float64, one kernel tap at a time.

Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, chapter 4;
attribute meanings as in oneDNN's ConvTranspose.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

PerAxis = int | Sequence[int]

# axes of an array in the named format, in the order IC, OC/groups, kernel...
_TO_IOX = {
    "IOX": lambda rank: (0, 1, *range(2, rank)),
    "OIX": lambda rank: (1, 0, *range(2, rank)),
    "XOI": lambda rank: (rank - 1, rank - 2, *range(rank - 2)),
    "XIO": lambda rank: (rank - 2, rank - 1, *range(rank - 2)),
}


class Setting(NamedTuple):
    """Attributes with one value per spatial axis and the pads resolved."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    output_padding: tuple[int, ...]
    groups: int


def _per_axis(value: PerAxis, rank: int) -> tuple[int, ...]:
    return (int(value),) * rank if isinstance(value, int | np.integer) else tuple(int(v) for v in value)


def same_pads(total: int, lower: bool) -> tuple[int, int]:
    """Begin and end pad that share `total`; the odd one goes in front for SAME_LOWER."""
    total = max(total, 0)
    begin = (total + 1) // 2 if lower else total // 2
    return begin, total - begin


def setting(
    kernel: Sequence[int],
    *,
    strides: PerAxis = 1,
    pads_begin: PerAxis = 0,
    pads_end: PerAxis = 0,
    dilations: PerAxis = 1,
    auto_pad: str = "none",
    output_padding: PerAxis = 0,
    groups: int = 1,
) -> Setting:
    rank = len(kernel)
    steps, rates = _per_axis(strides, rank), _per_axis(dilations, rank)
    begin, end = _per_axis(pads_begin, rank), _per_axis(pads_end, rank)
    mode = auto_pad.upper()
    if mode == "VALID":
        begin = end = (0,) * rank
    elif mode != "NONE":
        pairs = [
            same_pads((k - 1) * d + 1 - s, mode == "SAME_LOWER") for k, d, s in zip(kernel, rates, steps, strict=True)
        ]
        begin, end = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    return Setting(steps, rates, begin, end, _per_axis(output_padding, rank), groups)


def extents(kernel: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    """Size of the dilated kernel per axis."""
    return tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))


def output_spatial(source: Sequence[int], kernel: Sequence[int], s: Setting) -> tuple[int, ...]:
    """Spatial sizes of dst for the sizes of src."""
    parts = zip(source, extents(kernel, s.dilations), *s[:1], *s[2:5], strict=True)
    return tuple(st * (i - 1) + e - pb - pe + op for i, e, st, pb, pe, op in parts)


def source_spatial(output: Sequence[int], kernel: Sequence[int], s: Setting) -> tuple[int, ...]:
    """Spatial sizes of src for the sizes of dst: the smallest that explains them."""
    parts = zip(output, extents(kernel, s.dilations), *s[:1], *s[2:5], strict=True)
    return tuple((o + pb + pe - op - e) // st + 1 for o, e, st, pb, pe, op in parts)


def channels_first(array: np.ndarray, data_format: str) -> np.ndarray:
    return np.moveaxis(array, -1, 1) if data_format.upper() == "NXC" else array


def from_channels_first(array: np.ndarray, data_format: str) -> np.ndarray:
    return np.moveaxis(array, 1, -1) if data_format.upper() == "NXC" else array


def to_iox(weights: np.ndarray, weights_format: str) -> np.ndarray:
    """View with axes IC, OC/groups, kernel... ."""
    return weights.transpose(_TO_IOX[weights_format.upper()](weights.ndim))


def from_iox(weights: np.ndarray, weights_format: str) -> np.ndarray:
    """View of (IC, OC/groups, kernel...) in another format."""
    return weights.transpose(np.argsort(_TO_IOX[weights_format.upper()](weights.ndim)))


def documented(weights: np.ndarray, weights_format: str, groups: int) -> np.ndarray:
    """Grouped weights (IC, OC/g, k...) in the shape that oneDNN's pages print for IOX or XOI."""
    ic, oc, *kernel = weights.shape
    split = weights.reshape(groups, ic // groups, oc, *kernel)
    joined = np.moveaxis(split, 0, 1).reshape(ic // groups, groups * oc, *kernel)
    return from_iox(joined, weights_format)


def _grouped(array: np.ndarray, groups: int) -> np.ndarray:
    """(C, N, X...) as (groups, C/groups, N*X)."""
    return array.reshape(groups, array.shape[0] // groups, -1)


def _channel_major(array: np.ndarray, data_format: str) -> np.ndarray:
    return np.swapaxes(channels_first(array, data_format), 0, 1).astype(np.float64)


def _canvas(source: Sequence[int], output: Sequence[int], kernel: Sequence[int], s: Setting) -> list[int]:
    """Sizes that hold every tap of every source element and the whole output behind its pad."""
    reach = extents(kernel, s.dilations)
    return [
        max(st * (i - 1) + e, pb + o)
        for i, o, e, st, pb in zip(source, output, reach, s.strides, s.pads_begin, strict=True)
    ]


def _window(start: Sequence[int], length: Sequence[int]) -> tuple[slice, ...]:
    return (slice(None), slice(None), *(slice(a, a + n) for a, n in zip(start, length, strict=True)))


def _tap(tap: Sequence[int], source: Sequence[int], s: Setting) -> tuple[slice, ...]:
    """Where the canvas meets one kernel tap: one element per source element."""
    parts = zip(tap, source, s.strides, s.dilations, strict=True)
    return (slice(None), slice(None), *(slice(k * d, k * d + st * i, st) for k, i, st, d in parts))


def _spread(canvas: np.ndarray, output: np.ndarray, s: Setting) -> np.ndarray:
    canvas[_window(s.pads_begin, output.shape[2:])] = output
    return canvas


def forward(
    src: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    **attributes,
) -> np.ndarray:
    """dst in float64. `weights` in the library's shape of the named format."""
    x = _channel_major(src, data_format)
    w = to_iox(weights, weights_format).astype(np.float64)
    kernel, source = w.shape[2:], x.shape[2:]
    s = setting(kernel, **attributes)
    batch, outputs = x.shape[1], w.shape[1] * s.groups
    output = output_spatial(source, kernel, s)
    canvas = np.zeros((outputs, batch, *_canvas(source, output, kernel, s)))
    if x.size:
        columns = _grouped(x, s.groups)
        for tap in np.ndindex(*kernel):
            rows = _grouped(w[(..., *tap)], s.groups).transpose(0, 2, 1)
            canvas[_tap(tap, source, s)] += (rows @ columns).reshape(outputs, batch, *source)
    dst = np.swapaxes(canvas[_window(s.pads_begin, output)], 0, 1)
    if bias is not None:
        dst = dst + np.asarray(bias, dtype=np.float64).reshape(-1, *(1,) * len(kernel))
    return np.ascontiguousarray(from_channels_first(dst, data_format))


def backward_data(
    diff_dst: np.ndarray,
    weights: np.ndarray,
    *,
    src_spatial: Sequence[int] | None = None,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    **attributes,
) -> np.ndarray:
    """diff_src in float64; its spatial sizes follow from diff_dst unless `src_spatial` gives them."""
    dy = _channel_major(diff_dst, data_format)
    w = to_iox(weights, weights_format).astype(np.float64)
    kernel, output = w.shape[2:], dy.shape[2:]
    s = setting(kernel, **attributes)
    source = tuple(src_spatial) if src_spatial is not None else source_spatial(output, kernel, s)
    inputs, batch = w.shape[0], dy.shape[1]
    canvas = _spread(np.zeros((*dy.shape[:2], *_canvas(source, output, kernel, s))), dy, s)
    diff = np.zeros((s.groups, inputs // s.groups, batch * math.prod(source)))
    for tap in np.ndindex(*kernel):
        diff += _grouped(w[(..., *tap)], s.groups) @ _grouped(canvas[_tap(tap, source, s)], s.groups)
    diff_src = np.swapaxes(diff.reshape(inputs, batch, *source), 0, 1)
    return np.ascontiguousarray(from_channels_first(diff_src, data_format))


def backward_weights(
    src: np.ndarray,
    diff_dst: np.ndarray,
    kernel: Sequence[int],
    *,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    **attributes,
) -> np.ndarray:
    """diff_weights in float64, in the library's shape of the named format."""
    x, dy = _channel_major(src, data_format), _channel_major(diff_dst, data_format)
    s = setting(kernel, **attributes)
    source = x.shape[2:]
    canvas = _spread(np.zeros((*dy.shape[:2], *_canvas(source, dy.shape[2:], kernel, s))), dy, s)
    columns = _grouped(x, s.groups)
    diff = np.zeros((x.shape[0], dy.shape[0] // s.groups, *kernel))
    for tap in np.ndindex(*kernel):
        met = _grouped(canvas[_tap(tap, source, s)], s.groups).transpose(0, 2, 1)
        diff[(..., *tap)] = (columns @ met).reshape(diff.shape[:2])
    return np.ascontiguousarray(from_iox(diff, weights_format))


def backward_bias(diff_dst: np.ndarray, *, data_format: str = "NXC") -> np.ndarray:
    """diff_bias in float64: diff_dst summed over everything but the channel."""
    return _channel_major(diff_dst, data_format).sum(axis=tuple(range(1, diff_dst.ndim)))
