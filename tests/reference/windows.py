"""Pooling, resampling and reductions, with the gradients of the first two."""

import math
from collections.abc import Sequence

import numpy as np

from .conv_transpose import channels_first, from_channels_first, same_pads


def _pads(spatial, kernel, dilations, strides, pads_begin, pads_end, auto_pad):
    mode = auto_pad.upper()
    if mode == "NONE":
        return list(pads_begin), list(pads_end)
    if mode == "VALID":
        return [0] * len(kernel), [0] * len(kernel)
    pairs = [
        same_pads((k - 1) * d + 1 - (i % s or s), mode == "SAME_LOWER")
        for i, k, d, s in zip(spatial, kernel, dilations, strides, strict=True)
    ]
    return [p[0] for p in pairs], [p[1] for p in pairs]


class Pool:
    """Where each window of a pooling op reads, on sources padded by `before` and `after`."""

    def __init__(
        self,
        spatial: Sequence[int],
        *,
        kernel,
        strides,
        pads_begin,
        pads_end,
        dilations=None,
        auto_pad="None",
        rounding_type="floor",
    ):
        self.kernel, self.strides = list(kernel), list(strides)
        rates = list(dilations or [1])
        self.dilations = rates * len(self.kernel) if len(rates) == 1 else rates
        self.before, self.explicit_after = _pads(
            spatial, self.kernel, self.dilations, strides, pads_begin, pads_end, auto_pad
        )
        up = rounding_type == "ceil"
        self.output, self.after = [], []
        axes = zip(spatial, self.kernel, self.dilations, self.strides, self.before, self.explicit_after, strict=True)
        for i, k, d, s, pb, pe in axes:
            room = i + pb + pe - ((k - 1) * d + 1)
            count = (math.ceil(room / s) if up else room // s) + 1
            self.output.append(count)
            # negative padding leaves elements out of the count alone
            self.after.append(max((count - 1) * s + (k - 1) * d + 1 - i - pb, pe, 0))

    def pad(self, array: np.ndarray, value: float) -> np.ndarray:
        width = [(0, 0), (0, 0), *zip(self.before, self.after, strict=True)]
        return np.pad(array, width, constant_values=value)

    def crop(self, array: np.ndarray, spatial: Sequence[int]) -> np.ndarray:
        return array[(..., *(slice(b, b + i) for b, i in zip(self.before, spatial, strict=True)))]

    def taps(self):
        for tap in np.ndindex(*self.kernel):
            parts = zip(tap, self.dilations, self.strides, self.output, strict=True)
            yield (..., *(slice(k * d, k * d + s * (o - 1) + 1, s) for k, d, s, o in parts))

    def counts(self, spatial: Sequence[int], exclude_pad: bool) -> np.ndarray:
        """Elements that each average divides by."""
        ones = np.ones((1, 1, *spatial))
        if not exclude_pad:
            explicit = [max(e, 0) for e in self.explicit_after]
            ones = np.pad(ones, [(0, 0), (0, 0), *zip(self.before, explicit, strict=True)], constant_values=1)
            extra = [(0, a - e) for a, e in zip(self.after, explicit, strict=True)]
            padded = np.pad(ones, [(0, 0), (0, 0), *extra])
        else:
            padded = self.pad(ones, 0)
        return np.maximum(sum(padded[t] for t in self.taps()), 1)


def max_pool(src, *, data_format="NXC", **attributes):
    x = channels_first(src, data_format)
    pool = Pool(x.shape[2:], **attributes)
    padded = pool.pad(x, -np.inf)
    dst = np.full((*x.shape[:2], *pool.output), -np.inf, dtype=x.dtype)
    for tap in pool.taps():
        np.maximum(dst, padded[tap], out=dst)
    return from_channels_first(dst, data_format)


def max_pool_backward(src, diff_dst, *, data_format="NXC", **attributes):
    """The first maximum of a window takes its gradient."""
    x, dy = channels_first(src, data_format), channels_first(diff_dst, data_format)
    pool = Pool(x.shape[2:], **attributes)
    padded = pool.pad(x, -np.inf)
    best = np.full(dy.shape, -np.inf)
    for tap in pool.taps():
        np.maximum(best, padded[tap], out=best)
    diff, taken = np.zeros_like(padded), np.zeros(dy.shape, dtype=bool)
    for tap in pool.taps():
        hit = (padded[tap] == best) & ~taken
        diff[tap] += np.where(hit, dy, 0.0)
        taken |= hit
    return from_channels_first(pool.crop(diff, x.shape[2:]), data_format)


def avg_pool(src, *, exclude_pad, data_format="NXC", **attributes):
    x = channels_first(src, data_format)
    pool = Pool(x.shape[2:], **attributes)
    padded = pool.pad(x, 0)
    total = sum(padded[t] for t in pool.taps())
    return from_channels_first(total / pool.counts(x.shape[2:], exclude_pad), data_format)


def avg_pool_backward(diff_dst, src_shape=None, *, exclude_pad, data_format="NXC", **attributes):
    dy = channels_first(diff_dst, data_format)
    shape = [int(v) for v in src_shape]
    spatial = shape[1:-1] if data_format.upper() == "NXC" else shape[2:]
    pool = Pool(spatial, **attributes)
    share = dy / pool.counts(spatial, exclude_pad)
    diff = pool.pad(np.zeros((*dy.shape[:2], *spatial)), 0)
    for tap in pool.taps():
        diff[tap] += share
    return from_channels_first(pool.crop(diff, spatial), data_format)


def _resize_matrix(source: int, target: int, mode: str, transformation: str) -> np.ndarray:
    """Weights (target, source) of one axis."""
    place = np.arange(target, dtype=np.float64)
    if transformation == "align_corners":
        position = place * (source - 1) / max(target - 1, 1)
    else:
        position = (place + 0.5) * source / target - 0.5
    matrix = np.zeros((target, source))
    rows = np.arange(target)
    if mode == "nearest":
        matrix[rows, np.clip(np.floor(position + 0.5), 0, source - 1).astype(int)] = 1
        return matrix
    position = np.clip(position, 0, source - 1)
    left = np.floor(position).astype(int)
    right = np.minimum(left + 1, source - 1)
    np.add.at(matrix, (rows, left), 1 - (position - left))
    np.add.at(matrix, (rows, right), position - left)
    return matrix


def _resize(array: np.ndarray, matrices: Sequence[np.ndarray]) -> np.ndarray:
    for axis, matrix in enumerate(matrices, start=2):
        array = np.moveaxis(np.moveaxis(array, axis, -1) @ matrix.T, -1, axis)
    return array


def _targets(spatial, sizes, scales) -> list[int]:
    if sizes is not None and len(sizes):
        return [int(v) for v in sizes]
    return [int(np.float32(i) * np.float32(s)) for i, s in zip(spatial, scales, strict=True)]


def interpolate(
    src,
    size_input=None,
    *,
    mode,
    sizes=None,
    scales=None,
    coordinate_transformation_mode="half_pixel",
    data_format="NXC",
):
    x = channels_first(src, data_format)
    target = _targets(x.shape[2:], sizes if size_input is None else size_input, scales)
    matrices = [
        _resize_matrix(i, o, mode, coordinate_transformation_mode) for i, o in zip(x.shape[2:], target, strict=True)
    ]
    return from_channels_first(_resize(x, matrices), data_format)


def interpolate_backward(
    src,
    diff_dst,
    size_input=None,
    *,
    mode,
    sizes=None,
    scales=None,
    coordinate_transformation_mode="half_pixel",
    data_format="NXC",
):
    x, dy = channels_first(src, data_format), channels_first(diff_dst, data_format)
    matrices = [
        _resize_matrix(i, o, mode, coordinate_transformation_mode).T
        for i, o in zip(x.shape[2:], dy.shape[2:], strict=True)
    ]
    return from_channels_first(_resize(dy, matrices), data_format)


REDUCTIONS = {
    "ReduceL1": lambda x, axis, keep: np.abs(x).sum(axis=axis, keepdims=keep),
    "ReduceL2": lambda x, axis, keep: np.sqrt(np.square(x).sum(axis=axis, keepdims=keep)),
    "ReduceMax": lambda x, axis, keep: x.max(axis=axis, keepdims=keep),
    "ReduceMean": lambda x, axis, keep: x.mean(axis=axis, keepdims=keep),
    "ReduceMin": lambda x, axis, keep: x.min(axis=axis, keepdims=keep),
    "ReduceProd": lambda x, axis, keep: x.prod(axis=axis, keepdims=keep),
    "ReduceSum": lambda x, axis, keep: x.sum(axis=axis, keepdims=keep),
}


def reduce(kind, src, axes_input=None, *, axes=(), keep_dims=False):
    chosen = axes if axes_input is None else axes_input
    return REDUCTIONS[kind](src, tuple(int(a) for a in chosen), keep_dims)
