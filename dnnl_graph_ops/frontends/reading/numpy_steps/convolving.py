"""Convolutions in dtypes and numbers of axes that no graph takes, in 64 bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ShapeError
from ....words import counted
from ..node import Array, OnnxNode
from . import sizes
from .common import item, wide
from .pooling import convolved, window_size
from .table import computes


def transposed_pads(
    mode: str,
    wanted: Sequence[int],
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
) -> tuple[list[int], list[int], list[int]]:
    """Returns pads at the begin and the end and the output padding of a ConvTranspose that does not state its pads.

    ONNX's meaning: SAME_* gives out = in * stride, unless output_shape, `wanted`, states the sizes. If the sums are
    smaller than out, zeros are added: on both sides (negative pads) with SAME_*, else at the end.
    """
    begin, end, extra = list[int](), list[int](), list[int]()
    for axis, stride in enumerate(strides):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        if wanted:
            total = stride * (sizes[axis] - 1) + output_padding[axis] + reach - wanted[axis]
        else:
            total = output_padding[axis] + reach - stride
        lack = max(-total, 0) if mode in ("NOTSET", "VALID") else 0
        extra.append(output_padding[axis] + lack)
        total += lack
        # an odd pad, or zero, is at the end for SAME_UPPER
        half = abs(total) // 2 * (1 if total > 0 else -1)
        begin.append(half if mode == "SAME_UPPER" else total - half)
        end.append(total - begin[-1])
    return begin, end, extra


def _biased(node: OnnxNode, sums: Array, bias: Array | None) -> Array:
    if bias is None:
        return sums
    if bias.shape != sums.shape[1:2]:
        raise ShapeError(f"{node.where}: a bias of shape {bias.shape} for {counted(sums.shape[1], 'channel')}")
    return np.asarray(sums + wide(bias).reshape(-1, *(1,) * (sums.ndim - 2)))


@computes("Conv", size=window_size)
def _convolution(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    return _biased(node, convolved(node, *inputs[:2]), item(inputs, 2))


def _transposed_size(node: OnnxNode, inputs: Sequence[Any]) -> int:
    x, w = inputs[:2]
    strides = node.attrs.get("strides") or [1] * (x.ndim - 2)
    space = [(size + 1) * stride for size, stride in zip(x.shape[2:], strides, strict=False)]
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], node.attrs.get("dilations") or [1] * (x.ndim - 2), strict=False)]
    groups = int(node.attrs.get("group", 1))
    result = math.prod(a + b for a, b in zip(space, reach, strict=False)) * w.shape[1] * groups
    return int(sizes.WIDE * x.shape[0] * (result + math.prod(x.shape[2:]) * math.prod(w.shape[1:]) * groups))


@computes("ConvTranspose", size=_transposed_size)
def _transposed(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """ConvTranspose: adds the products of each tap to the elements that the tap reaches."""
    x, w = map(wide, inputs[:2])
    rank, groups, attrs = x.ndim - 2, int(node.attrs.get("group", 1)), node.attrs
    kernel, space = w.shape[2:], x.shape[2:]
    strides, dilations = (list(attrs.get(name) or [1] * rank) for name in ("strides", "dilations"))
    more = list(attrs.get("output_padding") or [0] * rank)
    wanted = list(attrs.get("output_shape") or ())[-rank:]
    mode = str(attrs.get("auto_pad", "NOTSET"))
    if groups < 1 or w.ndim != x.ndim or x.shape[1] != w.shape[0] or w.shape[0] % groups:
        raise ShapeError(f"{node.where}: weights of shape {w.shape} in {counted(groups, 'group')} for {x.shape}")
    if {len(strides), len(dilations), len(more), len(wanted or more)} != {rank}:
        raise ShapeError(
            f"{node.where}: attributes of {counted(len(strides), 'spatial axis')} for data of shape {x.shape}"
        )
    if not wanted and mode in ("NOTSET", "VALID"):
        pads = list(attrs.get("pads") or ()) if mode == "NOTSET" else []
        begin, end = (pads[:rank], pads[rank:]) if pads else ([0] * rank, [0] * rank)
    else:
        begin, end, more = transposed_pads(mode, wanted, space, kernel, strides, dilations, more)
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    full = [s * (n - 1) + r for s, n, r in zip(strides, space, reaches, strict=True)]
    sums = np.zeros((x.shape[0], groups, w.shape[1], *full))
    parts = x.reshape(x.shape[0], groups, -1, *space)
    weights = w.reshape(groups, -1, *w.shape[1:])
    for tap in np.ndindex(*kernel):
        steps = zip(tap, dilations, space, strides, strict=True)
        to: tuple[Any, ...] = (..., *(slice(i * d, i * d + s * (n - 1) + 1, s) for i, d, n, s in steps))
        taps: tuple[Any, ...] = (..., *tap)
        sums[to] += np.einsum("ngi...,gio->ngo...", parts, weights[taps])
    sums = sums.reshape(x.shape[0], groups * w.shape[1], *full)
    # pads cut off, output padding and negative pads add zeros
    ends = [a - b for a, b in zip(more, end, strict=True)]
    sides = [(max(-a, 0), max(b, 0)) for a, b in zip(begin, ends, strict=True)]
    ranges = zip(begin, ends, full, strict=True)
    cut: tuple[Any, ...] = (..., *(slice(max(a, 0), size + min(b, 0)) for a, b, size in ranges))
    sums = np.pad(sums[cut], [(0, 0), (0, 0), *sides])
    return _biased(node, sums, item(inputs, 2))
