"""Normalization with a scale, a dtype or results that the graph's ops lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ShapeError
from ....words import counted
from ..node import Array, OnnxNode
from .common import axis_of, item, wide
from .table import computes


def _epsilon(node: OnnxNode) -> float:
    return float(node.attrs.get("epsilon", 1e-5))


def _moments(data: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array]:
    """Returns the mean and 1 / standard deviation, with reduced axes kept."""
    mean = data.mean(axes, keepdims=True)
    return mean, 1 / np.sqrt(np.square(data - mean).mean(axes, keepdims=True) + epsilon)


@computes("LayerNormalization")
def _by_layer(node: OnnxNode, inputs: Sequence[Any]) -> tuple[Array, ...]:
    data, scale, shift = wide(inputs[0]), wide(inputs[1]), item(inputs, 2)
    axes = tuple(range(axis_of(node, data.ndim, -1), data.ndim))
    mean, inverse = _moments(data, axes, _epsilon(node))
    found = (data - mean) * inverse * scale
    return (found if shift is None else found + wide(shift), mean, inverse)[: len(node.outputs)]


@computes("RMSNormalization")
def _by_square(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, scale = map(wide, inputs)
    axes = tuple(range(axis_of(node, data.ndim, -1), data.ndim))
    return np.asarray(data / np.sqrt(np.square(data).mean(axes, keepdims=True) + _epsilon(node)) * scale)


def _per_channel(array: Array, rank: int) -> Array:
    return wide(array).reshape(-1, *(1,) * (rank - 2))


@computes("GroupNormalization", "InstanceNormalization")
def _grouped(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, scale, shift = map(wide, inputs)
    channels = data.shape[1]
    groups = int(node.attrs.get("num_groups", channels))
    if groups < 1 or channels % groups:
        raise ShapeError(f"{node.where}: {counted(channels, 'channel')} in {counted(groups, 'group')}")
    # until opset 20 scale and shift were per group
    if node.op_type == "GroupNormalization" and node.opset < 21:
        scale, shift = (np.repeat(each, channels // groups) for each in (scale, shift))
    parts = data.reshape(data.shape[0], groups, -1)
    mean, inverse = _moments(parts, (2,), _epsilon(node))
    found = ((parts - mean) * inverse).reshape(data.shape)
    found = found * _per_channel(scale, data.ndim) + _per_channel(shift, data.ndim)
    # onnx does not always infer the results' types
    return np.asarray(found).astype(inputs[0].dtype)


@computes("BatchNormalization")
def _by_batch(node: OnnxNode, inputs: Sequence[Any]) -> tuple[Array, ...]:
    """Batch normalization in training: by the batch's statistics, which update the running ones."""
    data = wide(inputs[0])
    scale, shift, mean, variance = (_per_channel(one, data.ndim) for one in inputs[1:])
    running = mean, variance
    if node.attrs.get("training_mode", 0):
        axes = (0, *range(2, data.ndim))
        momentum = node.attrs.get("momentum", 0.9)
        mean = data.mean(axes, keepdims=True)[0]
        variance = np.square(data - mean).mean(axes, keepdims=True)[0]
        pairs = zip(running, (mean, variance), strict=True)
        running = tuple(old * momentum + new * (1 - momentum) for old, new in pairs)
    found = (data - mean) / np.sqrt(variance + _epsilon(node)) * scale + shift
    return (found, *(one.reshape(-1) for one in running))[: len(node.outputs)]


@computes("LRN")
def _local(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """Local response normalization: divides by the squares of neighbouring channels."""
    data, size = wide(inputs[0]), int(node.attrs["size"])
    squares, total = np.square(data), np.zeros(data.shape)
    channels = data.shape[1]
    for shift in range(-min((size - 1) // 2, channels), min(size // 2, channels) + 1):
        own, other = slice(max(-shift, 0), channels - max(shift, 0)), slice(max(shift, 0), channels + min(shift, 0))
        total[:, own] += squares[:, other]
    alpha, beta, bias = (
        node.attrs.get(name, default) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    return np.asarray(data / (bias + alpha / size * total) ** beta)
