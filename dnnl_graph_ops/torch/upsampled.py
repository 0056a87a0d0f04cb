"""Nearest upsampling and the convolution behind it as one transposed convolution, where gradients are recorded.

The taps are summed by a product with a matrix, so that PyTorch records the gradient of the layer's own weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, fx
from torch.nn import functional

from ..passes import taps
from . import ops
from .spec import Ints, Spec

# packing a tap of the weights and of their gradient takes as long as so many products; below so many saved products the
# calls between count
_PACKED, _LEAST_PRODUCTS = 100, 5_000_000
_NAMES = ("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias")
_PLAIN = {"size": None, "mode": "nearest", "align_corners": None, "recompute_scale_factor": None, "antialias": False}


def source_of(layer: fx.Node, axes: int) -> tuple[fx.Node, Ints] | None:
    """Returns what a convolution of a captured graph reads repeated by nearest, and how often along each spatial axis.

    The `interpolate` is the node before the convolution, which alone reads it: nothing is written between the two, nor
    is recording switched.
    """
    value = layer.args[0] if layer.args else None
    if not isinstance(value, fx.Node) or value.target is not functional.interpolate or layer.prev is not value:
        return None
    arguments: Mapping[str, Any] = {**_PLAIN, **dict(zip(_NAMES, value.args, strict=False)), **value.kwargs}
    scales, source = whole_scales(arguments.get("scale_factor"), axes), arguments["input"]
    plain = all(arguments[name] == default for name, default in _PLAIN.items())
    if not plain or not scales or len(value.users) > 1:
        return None
    example = source.meta.get("example_value") if isinstance(source, fx.Node) else None
    if not isinstance(example, Tensor) or example.ndim != axes + 2:
        return None
    return source, scales


def whole_scales(factor: Any, axes: int) -> Ints:
    """Returns how often an upsampling by a factor, or one for each axis, repeats elements; () if not a whole number."""
    factors = factor if isinstance(factor, list | tuple) else (factor,) * axes
    whole = all(isinstance(number, int | float) and number >= 1 and number % 1 == 0 for number in factors)
    return tuple(map(int, factors)) if whole and len(factors) == axes and max(factors) > 1 else ()


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, scales: Ints) -> Tensor:
    """Returns the convolution of x with its elements repeated, as one layer where this has fewer products."""
    fold = fold_of(spec, scales, x.shape, weight.shape)
    if fold is None:
        larger = functional.interpolate(x, scale_factor=[float(scale) for scale in scales])
        return ops.call("", spec, larger, weight, bias)
    outputs, inputs, groups = weight.shape[0], weight.shape[1], spec.groups
    summed = weight.flatten(2) @ fold.matrix.to(weight)
    # (O, I / groups, ...) of a convolution is (I, O / groups, ...) of a transposed one
    apart = summed.reshape(groups, outputs // groups, inputs, *fold.kernel).transpose(1, 2)
    return ops.call("", fold.spec, x, apart.reshape(groups * inputs, outputs // groups, *fold.kernel), bias)


def fold_of(spec: Spec, scales: Ints, x: Sequence[int], weight: Sequence[int]) -> _Fold | None:
    """Returns the transposed convolution that runs for one of repeated elements; None if this runs as it is.

    It takes its place where the products that are saved are more than those of the sums of taps and their gradient.
    """
    kernel = tuple(weight[2:])
    if not len(x) == len(weight) == len(scales) + 2 or x[1] != weight[1] * spec.groups:
        return None
    edges = zip(x[2:], scales, kernel, spec.padding, spec.dilation, strict=True)
    if 0 in x or any(n * scale + 2 * pad <= (k - 1) * d for n, scale, k, pad, d in edges):
        return None
    fold = _fold(spec, scales, kernel)
    if fold is None:
        return None
    old, new = prod(kernel), prod(fold.kernel)
    saved = x[0] * prod(x[2:]) * (old * prod(scales) - new)
    products = weight[0] * weight[1] * (saved - 2 * old * new - _PACKED * new)
    return fold if products > _LEAST_PRODUCTS else None


class _Fold(NamedTuple):
    """A transposed convolution of the source, the matrix (old taps, new taps) of its weights, and its kernel."""

    spec: Spec
    matrix: Tensor
    kernel: Ints


@lru_cache(256)
def _fold(spec: Spec, scales: Ints, kernel: Ints) -> _Fold | None:
    """Returns the transposed convolution of the source; None where none computes both with fewer products."""
    columns = zip(scales, kernel, spec.stride, spec.dilation, spec.padding, strict=True)
    axes = [taps.Axis(scale, k, s, d, pad, pad, 1) for scale, k, s, d, pad in columns]
    folded = taps.folded(axes, taps.transposed)
    if folded is None or any(window.begin != window.end for window in folded):
        return None
    new = tuple(len(window.matrix) for window in folded)
    if prod(new) >= prod(kernel) * prod(scales):
        return None
    stride, begin, dilation = zip(*((w.stride, w.begin, w.dilation) for w in folded), strict=True)
    matrix = torch.from_numpy(taps.whole([window.matrix for window in folded]).T.astype(np.float32))
    return _Fold(Spec(True, stride, begin, dilation, (0,) * len(stride), spec.groups), matrix, new)
