"""Ranges of tensors over samples, chosen by name from their extremes or a histogram, and the scales that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from ..errors import InvalidArgumentError, warn
from ..graph import Node
from ..net import Net
from ..net.samples import Sample

Array = np.ndarray[Any, Any]
Limits = tuple[float, float]
Ranges = Literal["minmax", "percentile", "mse"]
RANGES: tuple[Ranges, ...] = get_args(Ranges)

# the largest integers: of u8, and of s8 with a symmetric range
_U8, S8 = 255, 127
_BINS = 2048
# most values that a warning names
_NAMED = 8
# of all elements, beyond each end of a range by percentile
_BEYOND = 1e-4
# parts of the extremes that are tried as ends of a range of least squares, of activations and of weights
_PARTS, _PARTS_OF_WEIGHTS = np.linspace(1, 0.02, 50), np.linspace(1, 0.5, 26)


def passes(ranges: Ranges) -> int:
    """Returns how often `observed` runs all samples: again for a histogram."""
    return 1 if ranges == "minmax" else 2


def observed(
    net: Net, nodes: Sequence[Node], data: Callable[[], Iterable[Sample]], ranges: Ranges
) -> dict[Node, Limits]:
    """Returns the lowest and the highest number, 0 between them, that the source of each node is quantized for.

    Raises:
        InvalidArgumentError: values that are not finite.

    Warns:
        UserWarning: values that are 0 on all samples.
    """
    values = list(dict.fromkeys(node.inputs[0] for node in nodes))
    names = {f"value {i}": value for i, value in enumerate(values)}
    probe = net.graph.compile({**names, **net.outputs})
    lows, highs = np.zeros(len(values)), np.zeros(len(values))

    def seen() -> Iterable[tuple[int, Array]]:
        for sample in data():
            results = probe.run({name: sample[name] for name in probe.input_names if name in sample})
            yield from ((i, results[name]) for i, name in enumerate(names))

    for i, array in seen():
        low, high = float(array.min(initial=0)), float(array.max(initial=0))
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InvalidArgumentError(f"calibrate: {values[i].name!r} is not finite on a sample; its range is unknown")
        lows[i], highs[i] = min(lows[i], low), max(highs[i], high)
    zeros = [value.name for value, low, high in zip(values, lows, highs, strict=True) if low == high == 0]
    if zeros:
        more = f" and {len(zeros) - _NAMED} more" if len(zeros) > _NAMED else ""
        warn(
            f"calibrate: all samples give zeros alone at {', '.join(map(repr, zeros[:_NAMED]))}{more}, so the layers "
            "that read them get a scale of 1 without meaning; pass samples of the data that the model will run on"
        )
    limits = [(float(low), float(high)) for low, high in zip(lows, highs, strict=True)]
    if ranges != "minmax":
        counts = np.zeros((len(values), _BINS))
        for i, array in seen():
            counts[i] += np.histogram(array, _BINS, limits[i] if lows[i] < highs[i] else (0, 1))[0]
        limits = [_CHOICES[ranges](*ends, count) for ends, count in zip(limits, counts, strict=True)]
    of_value = dict(zip(values, limits, strict=True))
    return {node: of_value[node.inputs[0]] for node in nodes}


def source_scale(low: float, high: float) -> tuple[str, float, int]:
    """Returns dtype, scale and zero point of a range; 0 is always exact."""
    if low == 0.0 == high:
        return "u8", 1.0, 0
    if low < 0 and max(-low, high) < 1.1 * min(-low, high):
        return "s8", max(-low, high) / S8, 0
    scale = (high - low) / _U8
    return "u8", scale, int(np.clip(round(-low / scale), 0, _U8))


def weight_scales(weights: Array, axis: int, ranges: Ranges) -> Array:
    """Returns the scales in f32 of the channels along an axis of weights in s8: of the largest element, or by "mse"."""
    rows = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1).astype(np.float32)
    peaks = np.abs(rows).max(axis=1, initial=0.0)
    # of zeros alone as fine as others: the bias is rounded by them, too
    peaks = np.where(peaks > 0, peaks, peaks[peaks > 0].min(initial=1.0))
    best = (peaks / S8).astype(np.float32)
    if ranges != "mse":
        return best
    least = np.full(len(rows), np.inf)
    for part in _PARTS_OF_WEIGHTS:
        scales = (part * peaks / S8).astype(np.float32)[:, None]
        errors = np.square(np.clip(np.rint(rows / scales), -S8, S8) * scales - rows).sum(axis=1)
        better = errors < least
        best[better], least[better] = scales[better, 0], errors[better]
    return best


def _percentile(low: float, high: float, counts: Array) -> Limits:
    """Returns the range without the lowest and the highest share `_BEYOND` of all elements."""
    edges = np.linspace(low, high, _BINS + 1)
    share = np.cumsum(counts) / max(counts.sum(), 1)
    first, last = np.searchsorted(share, (_BEYOND, 1 - _BEYOND))
    return min(float(edges[first]), 0.0), max(float(edges[min(last + 1, _BINS)]), 0.0)


def _least_squares(low: float, high: float, counts: Array) -> Limits:
    """Returns the range of the least squared error of rounding and clipping: moves both ends in, then each alone."""
    edges = np.linspace(low, high, _BINS + 1)
    numbers = (edges[:-1] + edges[1:]) / 2

    def error(ends: Limits) -> float:
        dtype, scale, zero = source_scale(*ends)
        bottom, top = (-S8, S8) if dtype == "s8" else (0, _U8)
        levels = np.clip(np.rint(numbers / scale) + zero, bottom, top) - zero
        return float(counts @ np.square(levels * scale - numbers))

    best = min(((part * low, part * high) for part in _PARTS), key=error)
    best = min(((part * low, best[1]) for part in _PARTS), key=error)
    return min(((best[0], part * high) for part in _PARTS), key=error)


_CHOICES: dict[str, Callable[[float, float, Array], Limits]] = {"percentile": _percentile, "mse": _least_squares}
