"""Nearest upsampling and the convolution behind it as one transposed convolution, where gradients are recorded.

The taps are summed by a product with a matrix, so that PyTorch records the gradient of the layer's own weights.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional

from ..passes import taps
from . import ops
from .spec import Ints, Spec

_NAMES = ("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias")
_PLAIN = {"size": None, "mode": "nearest", "align_corners": None, "recompute_scale_factor": None, "antialias": False}


def source_of(value: Any, axes: int) -> tuple[fx.Node, Ints] | None:
    """Returns what an `interpolate` of a captured graph repeats by nearest, and how often along each spatial axis."""
    if not isinstance(value, fx.Node) or value.target is not functional.interpolate:
        return None
    given: Mapping[str, Any] = {**_PLAIN, **dict(zip(_NAMES, value.args, strict=False)), **value.kwargs}
    scales = given.get("scale_factor")
    scales = scales if isinstance(scales, list | tuple) else (scales,) * axes
    plain = all(given[name] == default for name, default in _PLAIN.items())
    if (
        not plain
        or len(scales) != axes
        or not all(isinstance(s, int | float) and s >= 1 and s % 1 == 0 for s in scales)
    ):
        return None
    source = given["input"]
    return (source, tuple(map(int, scales))) if isinstance(source, fx.Node) and max(scales) > 1 else None


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, scales: Ints) -> Tensor:
    """Returns the convolution of x with its elements repeated, by what has fewer products."""
    if x.ndim == weight.ndim == len(scales) + 2 and (fold := _fold(spec, scales, tuple(weight.shape[2:]))):
        transposed, matrix, kernel = fold
        outputs, inputs, groups = weight.shape[0], weight.shape[1], spec.groups
        summed = weight.flatten(2) @ torch.tensor(matrix, dtype=weight.dtype, device=weight.device)
        # (O, I / groups, ...) of a convolution is (I, O / groups, ...) of a transposed one
        apart = summed.reshape(groups, outputs // groups, inputs, *kernel).transpose(1, 2)
        return ops.call("", transposed, x, apart.reshape(groups * inputs, outputs // groups, *kernel), bias)
    larger = functional.interpolate(x, scale_factor=[float(scale) for scale in scales])
    return ops.call("", spec, larger, weight, bias)


def is_folded(spec: Spec, scales: Ints, weight: Tensor) -> bool:
    """Whether a convolution of repeated elements runs as one transposed convolution."""
    return weight.ndim == len(scales) + 2 and _fold(spec, scales, tuple(weight.shape[2:])) is not None


@lru_cache(256)
def _fold(spec: Spec, scales: Ints, kernel: Ints) -> tuple[Spec, list[list[float]], Ints] | None:
    """Returns the transposed convolution of the source, the matrix (old taps, new taps), and the new kernel.

    Returns None where no transposed convolution computes both, or it has no fewer products.
    """
    columns = zip(scales, kernel, spec.stride, spec.dilation, spec.padding, strict=True)
    axes = [taps.Axis(scale, k, s, d, pad, pad, 1) for scale, k, s, d, pad in columns]
    folded = taps.folded(axes, taps.transposed)
    if folded is None:
        return None
    new = tuple(len(window.matrix) for window in folded)
    if torch.Size(new).numel() >= torch.Size(map(operator.mul, kernel, scales)).numel():
        return None
    stride, pads, dilation = zip(*((w.stride, (w.begin, w.end), w.dilation) for w in folded), strict=True)
    begin, end = zip(*pads, strict=True)
    if begin != end:
        return None
    matrix = taps.whole([window.matrix for window in folded]).T.tolist()
    return Spec(True, stride, begin, dilation, (0,) * len(stride), spec.groups), matrix, new
