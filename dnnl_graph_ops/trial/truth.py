"""The result of a trial by NumPy in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..backends.host_ops import HOST
from ..backends.host_ops.quantization import static
from ..graph import Node, Value
from ..schema import kinds
from .graphs import Array, Trial


def truth(made: Trial) -> Array:
    """The result in float64: where it is quantized, not rounded yet."""
    values: dict[Value, Array] = {value: array.astype(np.float64) for value, array in made.data.items()}
    values |= {value: value.constant.astype(np.float64) for value in made.graph.constants if value.constant is not None}
    with np.errstate(all="ignore"):
        for node in made.graph.nodes:
            values[node.outputs[0]] = _evaluated(node, [values[value] for value in node.inputs])
    return values[made.result]


def right(actual: Array, exact: Array) -> bool:
    """Whether a result is the exact one, rounded."""
    # what the definition does not tell, such as the root of a negative number, is whatever it is
    actual, exact = (array[~np.isnan(exact)] for array in (actual, exact))
    if actual.dtype.kind == "f":
        bound = 1e-5 * np.abs(exact[np.isfinite(exact)]).max(initial=1)
    else:
        ends = np.iinfo(actual.dtype)
        exact, bound = np.clip(exact, ends.min, ends.max), 0.5 + 1e-3
    with np.errstate(invalid="ignore"):
        return bool(np.all((actual == exact) | (np.abs(actual - exact) <= bound)))


def _evaluated(node: Node, inputs: Sequence[Array]) -> Array:
    attrs = dict(node.attrs)
    if node.kind in kinds("convolves"):
        return _convolved(node, inputs)
    if node.kind == "Quantize":
        scales, points = static(attrs, inputs[0])
        return np.asarray(inputs[0] / scales + points)
    if node.kind in kinds("pools"):
        return _pooled(node, inputs[0])
    shape, *shapes = (tuple(map(int, value.shape)) for value in (node.outputs[0], *node.inputs))  # type: ignore[arg-type]
    return np.asarray(HOST[node.kind](attrs, shapes, shape)(attrs, inputs, shape)[0])


def _convolved(node: Node, inputs: Sequence[Array]) -> Array:
    attrs, (x, w, *bias) = node.attrs, inputs
    last, transposed, groups = attrs["data_format"] == "NXC", node.kind == "ConvTranspose", attrs["groups"]
    x = np.moveaxis(x, -1, 1) if last else x
    if not attrs["weights_format"].endswith("X"):
        w = np.moveaxis(w, (-2, -1), (1, 0))
    kernel, strides, dilations, pads = w.shape[2:], attrs["strides"], attrs["dilations"], attrs["pads_begin"]
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.reshape(groups, -1, *w.shape[1:])
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    if transposed:
        sizes = [(n - 1) * s + r for n, s, r in zip(x.shape[3:], strides, reach, strict=True)]
        y = np.zeros((x.shape[0], groups, w.shape[2], *sizes))
    else:
        ends = zip(pads, attrs["pads_end"], strict=True)
        x = np.pad(x, [(0, 0)] * 3 + [*ends])
        sizes = [(n - r) // s + 1 for n, s, r in zip(x.shape[3:], strides, reach, strict=True)]
        y = np.zeros((x.shape[0], groups, w.shape[1], *sizes))
    steps = x.shape[3:] if transposed else y.shape[3:]
    for tap in product(*map(range, kernel)):
        starts = [t * d for t, d in zip(tap, dilations, strict=True)]
        moved: Any = (..., *_windows(starts, steps, strides))
        at: Any = (..., *tap)
        factor = w[at]
        if transposed:
            y[moved] += _mixed(factor.swapaxes(1, 2), x)
        else:
            y += _mixed(factor, x[moved])
    y = y.reshape(y.shape[0], -1, *y.shape[3:])
    if transposed:
        more = attrs["output_padding"] or (0,) * len(kernel)
        inner = zip(pads, attrs["pads_end"], more, y.shape[2:], strict=True)
        cropped: Any = (..., *(slice(begin, size - end + o) for begin, end, o, size in inner))
        y = y[cropped]
    if bias:
        y = y + bias[0].reshape(-1, *[1] * len(kernel))
    return np.moveaxis(y, 1, -1) if last else y


def _windows(starts: Sequence[int], counts: Sequence[int], strides: Sequence[int]) -> Iterator[slice]:
    """So many places on each axis."""
    return (slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, counts, strides, strict=True))


def _mixed(factor: Array, x: Array) -> Array:
    """factor (groups, O, I) times the channels of x (N, groups, I, spatial...)."""
    return (factor @ x.reshape(*x.shape[:3], -1)).reshape(*x.shape[:2], -1, *x.shape[3:])


def _pooled(node: Node, x: Array) -> Array:
    attrs, mean = node.attrs, node.kind == "AvgPool"
    last = attrs["data_format"] == "NXC"
    x = np.moveaxis(x, -1, 1) if last else x
    result = node.outputs[0].shape
    places: Sequence[int] = result[1:-1] if last else result[2:]  # type: ignore[assignment]
    kernel, strides, pads = attrs["kernel"], attrs["strides"], attrs["pads_begin"]
    sizes = zip(places, strides, kernel, x.shape[2:], pads, strict=True)
    behind = [max((o - 1) * s + k - n - p, 0) for o, s, k, n, p in sizes]
    inside = np.ones(x.shape[2:])
    counted = np.pad(inside, [*zip(pads, attrs["pads_end"], strict=True)], constant_values=1)
    widths = [*zip(pads, behind, strict=True)]
    more = [(0, max(b - e, 0)) for b, e in zip(behind, attrs["pads_end"], strict=True)]
    x = np.pad(x, [(0, 0)] * 2 + widths, constant_values=0 if mean else -np.inf)
    weight = np.pad(inside, widths) if attrs.get("exclude_pad") else np.pad(counted, more)
    parts, weights = [], []
    for tap in product(*map(range, kernel)):
        moved: Any = (..., *_windows(tap, places, strides))
        parts.append(x[moved])
        weights.append(weight[moved])
    y = sum(parts) / sum(weights) if mean else np.max(parts, axis=0)
    return np.moveaxis(np.asarray(y), 1, -1) if last else np.asarray(y)
