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
    scales, source = arguments.get("scale_factor"), arguments["input"]
    scales = scales if isinstance(scales, list | tuple) else (scales,) * axes
    plain = all(arguments[name] == default for name, default in _PLAIN.items())
    whole = all(isinstance(scale, int | float) and scale >= 1 and scale % 1 == 0 for scale in scales)
    if not plain or not whole or len(scales) != axes or max(scales) == 1 or len(value.users) > 1:
        return None
    example = source.meta.get("example_value") if isinstance(source, fx.Node) else None
    if not isinstance(example, Tensor) or example.ndim != axes + 2:
        return None
    return source, tuple(map(int, scales))


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, scales: Ints) -> Tensor:
    """Returns the convolution of x with its elements repeated, as one layer where this has fewer products."""
    if not is_folded(spec, scales, x.shape, weight.shape):
        larger = functional.interpolate(x, scale_factor=[float(scale) for scale in scales])
        return ops.call("", spec, larger, weight, bias)
    fold = _fold(spec, scales, tuple(weight.shape[2:]))
    assert fold is not None
    outputs, inputs, groups = weight.shape[0], weight.shape[1], spec.groups
    summed = weight.flatten(2) @ fold.matrix.to(weight)
    # (O, I / groups, ...) of a convolution is (I, O / groups, ...) of a transposed one
    apart = summed.reshape(groups, outputs // groups, inputs, *fold.kernel).transpose(1, 2)
    return ops.call("", fold.spec, x, apart.reshape(groups * inputs, outputs // groups, *fold.kernel), bias)


def is_folded(spec: Spec, scales: Ints, x: Sequence[int], weight: Sequence[int]) -> bool:
    """Whether a convolution of repeated elements, of operands of these shapes, runs as one transposed convolution.

    It does where the products that this saves are more than those of the sums of taps and their gradient.
    """
    kernel = tuple(weight[2:])
    if not len(x) == len(weight) == len(scales) + 2 or x[1] != weight[1] * spec.groups:
        return False
    edges = zip(x[2:], scales, kernel, spec.padding, spec.dilation, strict=True)
    if 0 in x or any(n * scale + 2 * pad <= (k - 1) * d for n, scale, k, pad, d in edges):
        return False
    fold = _fold(spec, scales, kernel)
    if fold is None:
        return False
    old, new = prod(kernel), prod(fold.kernel)
    saved = x[0] * prod(x[2:]) * (old * prod(scales) - new)
    return weight[0] * weight[1] * (saved - 2 * old * new - _PACKED * new) > _LEAST_PRODUCTS


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
