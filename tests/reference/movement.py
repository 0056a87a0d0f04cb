"""Quantization, matrix products and ops that move or choose elements."""

from collections.abc import Sequence

import numpy as np

from .conv_transpose import PerAxis


def _on_axis(values: Sequence[float] | None, rank: int, qtype: str, axis: int) -> np.ndarray:
    array = np.asarray([0.0] if values is None or not len(values) else values, dtype=np.float64)
    if qtype != "per_channel" or array.size == 1:
        return array.reshape(-1)[:1]
    return array.reshape([-1 if a == axis % rank else 1 for a in range(rank)])


def quantize(src, *, scales, zps=None, qtype="per_tensor", axis=1):
    """round(x / scale) + zero point, ties to even; saturation follows from the result's type."""
    return np.rint(src / _on_axis(scales, src.ndim, qtype, axis)) + _on_axis(zps, src.ndim, qtype, axis)


def dequantize(src, *, scales, zps=None, qtype="per_tensor", axis=1):
    return (src - _on_axis(zps, src.ndim, qtype, axis)) * _on_axis(scales, src.ndim, qtype, axis)


def _spread(values, shape, qtype, axis, group_shape) -> np.ndarray:
    if values is None:
        return np.zeros(1)
    if qtype != "per_group":
        return _on_axis(values.reshape(-1), len(shape), qtype, axis)
    for a, size in enumerate(group_shape):
        if values.shape[a] != shape[a]:
            values = np.repeat(values, size, axis=a)
    return values


def dynamic_quantize(src, scales, zps=None, *, qtype="per_tensor", axis=1):
    place = (src.shape, qtype, axis, ())
    return np.rint(src / _spread(scales, *place)) + _spread(zps, *place)


def dynamic_dequantize(src, scales, zps=None, *, qtype="per_tensor", axis=1, group_shape: PerAxis = ()):
    place = (src.shape, qtype, axis, group_shape)
    return (src - _spread(zps, *place)) * _spread(scales, *place)


def matmul(src, weights, bias=None, *, transpose_a=False, transpose_b=False, accumulation_mode="strict"):
    a = np.swapaxes(src, -1, -2) if transpose_a and src.ndim > 1 else src
    b = np.swapaxes(weights, -1, -2) if transpose_b and weights.ndim > 1 else weights
    dst = a @ b
    return dst if bias is None else dst + bias


def static_reshape(src, *, shape, special_zero):
    target = [src.shape[i] if v == 0 and special_zero else v for i, v in enumerate(shape)]
    return src.reshape(target)


def part(src, *, starts, ends, axes=None, steps=None):
    index = [slice(None)] * src.ndim
    for axis, *one in zip(axes or range(len(starts)), starts, ends, steps or [1] * len(starts), strict=True):
        index[axis] = slice(*one)
    return src[tuple(index)]


def pad(src, *, pads_begin, pads_end, mode="constant", value=0.0):
    more = {"constant_values": value} if mode == "constant" else {}
    return np.pad(src, list(zip(pads_begin, pads_end, strict=True)), mode.lower(), **more)


def gather(src, indices, *, axis=0):
    return np.take(src, indices.astype(np.int64), axis)


def gen_index(src, *, axis):
    axis %= src.ndim
    column = np.arange(src.shape[axis]).reshape([-1 if a == axis else 1 for a in range(src.ndim)])
    return np.broadcast_to(column, src.shape).astype(np.float64)


_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_KEYS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)


def philox(index: np.ndarray, seed: int, offset: int) -> np.ndarray:
    """Word `index` of the Philox4x32-10 stream (Salmon et al., "Parallel random numbers: as easy as
    1, 2, 3", 2011): the counter is (offset, index rounded down to 4), the key is the seed."""
    index = index.astype(np.uint64)
    block = index & ~np.uint64(3)
    shift = np.uint64(32)
    fixed = [np.full_like(index, (offset >> s) & 0xFFFFFFFF) for s in (0, 32)]
    counter = [*fixed, block & _LOW, block >> shift]
    key = [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
    for _ in range(10):
        first = counter[0] * np.uint64(_PHILOX_MULTIPLIERS[0])
        second = counter[2] * np.uint64(_PHILOX_MULTIPLIERS[1])
        counter = [
            (second >> shift) ^ counter[1] ^ np.uint64(key[0]),
            second & _LOW,
            (first >> shift) ^ counter[3] ^ np.uint64(key[1]),
            first & _LOW,
        ]
        key = [(k + step) & 0xFFFFFFFF for k, step in zip(key, _PHILOX_KEYS, strict=True)]
    return np.choose((index & np.uint64(3)).astype(int), counter)


def dropout(src, seed, offset, probability):
    """dst and mask: an element stays where its random word exceeds the probability."""
    p = float(np.float32(np.asarray(probability).reshape(-1)[0]))
    words = philox(np.arange(src.size), int(np.ravel(seed)[0]), int(np.ravel(offset)[0]))
    mask = (words > np.uint64(0xFFFFFFFF) * p).reshape(src.shape)
    return np.where(mask, src / (1 - p) if p < 1 else 0.0, 0.0), mask.astype(np.float64)
