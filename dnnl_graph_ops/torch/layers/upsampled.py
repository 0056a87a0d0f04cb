"""Fuses nearest upsampling and the convolution after it into one transposed convolution, in training.

Kernel elements are summed by a product with a matrix, so that PyTorch records the gradient of the layer's weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import add, sub
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...passes.folding import taps
from . import ops
from .conv_params import ConvParams, Ints

# in products: packing a kernel element of the weights and of their gradient, adding two results, and the least number
# of saved products that outweighs the overhead of calls
_PACKED, _ADDED, _LEAST_PRODUCTS = 100, 100, 5_000_000
# PyTorch computes the index of the repeated element in f32, which is wrong from this scale on
_INEXACT = 41


class Layer(NamedTuple):
    """A convolution of a source with elements repeated `scales` times along each axis, then padded.

    `edges`: elements that repeat those at both ends of an axis. `zeros`: zeros around them.
    """

    spec: ConvParams
    scales: Ints
    edges: Ints
    zeros: Ints

    @classmethod
    def plain(cls, spec: ConvParams) -> Layer:
        """The convolution without repetition and padding of the source."""
        return cls(spec, *((n,) * len(spec.stride) for n in (1, 0, 0)))

    @property
    def padded(self) -> ConvParams:
        """The convolution with the zeros in its padding."""
        return self.spec._replace(padding=tuple(map(add, self.spec.padding, self.zeros)))


def whole_scales(factor: Any, axes: int) -> Ints:
    """Returns the integer scales of an upsampling by a factor, or a factor for each axis; () if not integers."""
    factors = factor if isinstance(factor, list | tuple) else (factor,) * axes
    whole = all(isinstance(number, int | float) and 1 <= number < _INEXACT and number % 1 == 0 for number in factors)
    return tuple(map(int, factors)) if whole and len(factors) == axes and max(factors) > 1 else ()


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, layer: Layer) -> Tensor:
    """Returns the layer's convolution of the upsampled and padded x, computed from x if that takes fewer products."""
    fold = fold_of(layer, x.shape, weight.shape)
    if fold is None:
        return ops.call("", layer.padded, _enlarged(x, layer), weight, bias)
    outputs, inputs, groups = weight.shape[0], weight.shape[1], layer.spec.groups
    summed = weight.flatten(2) @ fold.matrix.to(weight)
    # (O, I / groups, ...) of a convolution is (I, O / groups, ...) of a transposed one
    apart = summed.reshape(groups, outputs // groups, inputs, *fold.kernel).transpose(1, 2)
    apart = apart.reshape(groups * inputs, outputs // groups, *fold.kernel)
    return ops.call("", fold.spec, _around(x, fold.edges, "replicate"), apart, bias)


def joined(sources: Sequence[Tensor], weight: Tensor, bias: Tensor | None, parts: Sequence[Layer]) -> Tensor:
    """Returns the convolution of the concatenated channels of several layers' upsampled sources.

    Sums the layers that are computed from their source and the convolution of the others.
    """
    if len(parts) == 1:
        return convolution(sources[0], weight, bias, parts[0])
    # sums of bf16 or f16 results would round once more
    wide = weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    shapes = [(weight.shape[0], x.shape[1], *weight.shape[2:]) for x in sources]
    each = list(zip(sources, parts, shapes, strict=True))
    folds = [wide and fold_of(part, x.shape, shape, added=True) is not None for x, part, shape in each]
    terms: list[tuple[Layer, list[int]]] = [(part, [i]) for i, part in enumerate(parts) if folds[i]]
    if rest := [i for i, fold in enumerate(folds) if not fold]:
        alike = len({parts[i].zeros for i in rest}) == 1
        terms.append((Layer.plain(parts[rest[0]].padded if alike else parts[rest[0]].spec), rest))
    weights = weight.split([x.shape[1] for x in sources], 1) if len(terms) > 1 else ()
    result: Tensor | None = None
    for layer, group in terms:
        if group is rest:
            read = [_enlarged(sources[i], parts[i]) for i in rest]
            x = _cat(
                read if alike else [_around(x, parts[i].zeros, "constant") for x, i in zip(read, rest, strict=True)]
            )
        else:
            x = sources[group[0]]
        term = convolution(x, _cat([weights[i] for i in group]) if len(terms) > 1 else weight, bias, layer)
        result, bias = term if result is None else result.add_(term), None
    assert result is not None
    return result


def _cat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat(tuple(tensors), 1) if len(tensors) > 1 else tensors[0]


def _enlarged(x: Tensor, layer: Layer) -> Tensor:
    """Returns the upsampled source of a layer, without zeros around it."""
    if max(layer.scales) > 1:
        x = functional.interpolate(x, scale_factor=[float(scale) for scale in layer.scales])
    return _around(x, layer.edges, "replicate")


def _around(x: Tensor, amounts: Ints, mode: str) -> Tensor:
    return functional.pad(x, [n for n in reversed(amounts) for _ in range(2)], mode) if any(amounts) else x


def fold_of(layer: Layer, x: Sequence[int], weight: Sequence[int], *, added: bool = False) -> _Fold | None:
    """Returns the transposed convolution that replaces a convolution of repeated elements; None if none does.

    It replaces the convolution if it saves more products than summing the kernel elements and their gradient takes
    and, if `added`, than adding its result to another one takes.
    """
    spec, scales, edges, _ = layer
    kernel = tuple(weight[2:])
    if max(scales) == 1 or not len(x) == len(weight) == len(scales) + 2 or x[1] != weight[1] * spec.groups:
        return None
    axes = zip(x[2:], scales, edges, layer.padded.padding, kernel, spec.dilation, strict=True)
    if 0 in x or any(n * scale + 2 * (edge + pad) <= (k - 1) * d for n, scale, edge, pad, k, d in axes):
        return None
    fold = _fold(layer.padded, scales, edges, kernel)
    if fold is None:
        return None
    old, new, results = prod(kernel), prod(fold.kernel), prod(x[2:]) * prod(scales)
    saved = x[0] * (old * results - new * prod(x[2:]))
    products = weight[0] * weight[1] * (saved - 2 * old * new - _PACKED * new)
    return fold if products - added * _ADDED * weight[0] * x[0] * results > _LEAST_PRODUCTS else None


class _Fold(NamedTuple):
    """A transposed convolution of a source, the matrix (old, new kernel elements) of its weights, and its kernel size.

    `edges`: elements that repeat those at both ends of the source first.
    """

    spec: ConvParams
    edges: Ints
    matrix: Tensor
    kernel: Ints


@lru_cache(256)
def _fold(spec: ConvParams, scales: Ints, edges: Ints, kernel: Ints) -> _Fold | None:
    """Returns the transposed convolution of the source; None if none takes fewer products."""
    extended = tuple(-(-edge // scale) for edge, scale in zip(edges, scales, strict=True))
    # upsampled elements of the extended source that are not read
    beyond = [n * scale - edge for n, scale, edge in zip(extended, scales, edges, strict=True)]
    if any(map(min, beyond, spec.padding)):
        return None
    columns = zip(scales, kernel, spec.stride, spec.dilation, map(sub, spec.padding, beyond), strict=True)
    axes = [taps.Axis(scale, k, s, d, pad, pad, 1) for scale, k, s, d, pad in columns]
    folded = taps.folded(axes, taps.transposed)
    if folded is None or any(window.begin != window.end for window in folded):
        return None
    new = tuple(len(window.matrix) for window in folded)
    if prod(new) >= prod(kernel) * prod(scales):
        return None
    stride, begin, dilation = zip(*((w.stride, w.begin, w.dilation) for w in folded), strict=True)
    matrix = torch.from_numpy(taps.whole([window.matrix for window in folded]).T.astype(np.float32))
    return _Fold(ConvParams(stride, begin, dilation, True, (0,) * len(stride), spec.groups), extended, matrix, new)
