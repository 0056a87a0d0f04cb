"""Computes the result of a trial in NumPy in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.host_ops import HOST
from ..backends.host_ops.quantization import static
from ..graph import Node, Value
from ..schema import kinds
from ..selftest import windows
from .graphs import Array, Trial


def truth(made: Trial) -> Array:
    """Returns the result in float64, not rounded yet if it is quantized."""
    values: dict[Value, Array] = {value: array.astype(np.float64) for value, array in made.data.items()}
    values |= {value: value.constant.astype(np.float64) for value in made.graph.constants if value.constant is not None}
    with np.errstate(all="ignore"):
        for node in made.graph.nodes:
            values[node.outputs[0]] = _evaluated(node, [values[value] for value in node.inputs])
    return values[made.result]


def right(actual: Array, exact: Array) -> bool:
    """Whether a result is the exact result, rounded."""
    # undefined results, such as the root of a negative number, are not compared
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
    shape, *shapes = (tuple(map(int, value.shape)) for value in (node.outputs[0], *node.inputs))  # type: ignore[arg-type]
    if node.kind in kinds("pools"):
        return _pooled(node, inputs[0], shape)
    return np.asarray(HOST[node.kind](attrs, shapes, shape)(attrs, inputs, shape)[0])


def _convolved(node: Node, inputs: Sequence[Array]) -> Array:
    attrs, (x, w, *bias) = node.attrs, inputs
    layout, groups, strides, dilations = (attrs[name] for name in ("data_format", "groups", "strides", "dilations"))
    x = np.moveaxis(x, -1, 1) if layout == "NXC" else x
    if not attrs["weights_format"].endswith("X"):
        w = np.moveaxis(w, (-2, -1), (1, 0))
    x, w = x.reshape(x.shape[0], groups, -1, *x.shape[2:]), w.reshape(groups, -1, *w.shape[1:])
    kernel, pads = w.shape[3:], [*zip(attrs["pads_begin"], attrs["pads_end"], strict=True)]
    taps: list[Any] = [(..., *tap) for tap in np.ndindex(*kernel)]
    if node.kind == "ConvTranspose":
        steps = zip(x.shape[3:], strides, kernel, dilations, strict=True)
        y = np.zeros((*x.shape[:2], w.shape[2], *((n - 1) * s + d * (k - 1) + 1 for n, s, k, d in steps)))
        targets = windows(y, kernel, strides, dilations)
        for tap in taps:
            targets[tap] += np.einsum("ngi...,gio->ngo...", x, w[tap])
        more = attrs["output_padding"] or (0,) * len(kernel)
        inner = zip(pads, more, y.shape[3:], strict=True)
        cropped: Any = (..., *(slice(begin, size - end + o) for (begin, end), o, size in inner))
        y = y[cropped]
    else:
        sources = windows(np.pad(x, [(0, 0)] * 3 + pads), kernel, strides, dilations)
        y = np.asarray(sum(np.einsum("ngi...,goi->ngo...", sources[tap], w[tap]) for tap in taps))
    y = y.reshape(y.shape[0], -1, *y.shape[3:])
    if bias:
        y = y + bias[0].reshape(-1, *[1] * len(kernel))
    return np.moveaxis(y, 1, -1) if layout == "NXC" else y


def _pooled(node: Node, x: Array, shape: Sequence[int]) -> Array:
    attrs, kernel, mean = node.attrs, node.attrs["kernel"], node.kind == "AvgPool"
    layout, begins, ends = (attrs[name] for name in ("data_format", "pads_begin", "pads_end"))
    x, places = (np.moveaxis(x, -1, 1), shape[1:-1]) if layout == "NXC" else (x, shape[2:])
    sizes = zip(places, attrs["strides"], kernel, x.shape[2:], begins, ends, strict=True)
    # positions by which the last window exceeds the padding
    beyond = [(0, max((o - 1) * s + k - n - p - e, 0)) for o, s, k, n, p, e in sizes]
    explicit = [*zip(begins, ends, strict=True)]
    weight = np.pad(np.ones(x.shape[2:]), explicit, constant_values=not attrs.get("exclude_pad"))
    widths = [(b, e + more) for (b, e), (_, more) in zip(explicit, beyond, strict=True)]
    x = np.pad(x, [(0, 0)] * 2 + widths, constant_values=0 if mean else -np.inf)
    views = (windows(a, kernel, attrs["strides"], [1] * len(kernel)) for a in (x, np.pad(weight, beyond)))
    over, weights = (view.reshape(*view.shape[: -len(kernel)], -1) for view in views)
    y = over.sum(-1) / weights.sum(-1) if mean else over.max(-1)
    return np.moveaxis(y, 1, -1) if layout == "NXC" else y
