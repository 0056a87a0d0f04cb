"""Computes batch, layer, group and RMS normalisation, softmax and log-softmax, and gradients, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .common import Array, Rule, Shape, along, channel_axis, with_attrs

Attrs = Mapping[str, Any]


def _channels(attrs: Attrs, src: Array) -> tuple[int, tuple[int, ...]]:
    """Returns the channel axis of src and all other axes."""
    channel = channel_axis(src.ndim, attrs["data_format"])
    return channel, tuple(a for a in range(src.ndim) if a != channel)


def _batch_norm(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    src = inputs[0]
    channel, _ = _channels(attrs, src)
    gamma, beta, mean, variance = (along(v, src.ndim, channel) for v in inputs[1:5])
    return (gamma * (src - mean) / np.sqrt(variance + attrs["epsilon"]) + beta,)


def _batch_norm_training(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    src, mean, variance, *affine = inputs
    _, others = _channels(attrs, src)
    here, spread = src.mean(axis=others), src.var(axis=others)
    gamma = affine[0] if affine else np.ones_like(here)
    beta = affine[1] if len(affine) > 1 else np.zeros_like(here)
    dst = _batch_norm(attrs, (src, gamma, beta, here, spread), shape)[0]
    # 0.5: the library's default
    momentum = attrs.get("momentum", 0.5)
    running = [momentum * old + (1 - momentum) * new for old, new in ((mean, here), (variance, spread))]
    return dst, *running, here, spread


def _batch_norm_backward(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    """Returns the gradients of src, gamma and beta (Ioffe and Szegedy, "Batch normalization", 2015)."""
    src, diff, mean, variance, *gamma = inputs
    channel, others = _channels(attrs, src)
    scale = 1 / np.sqrt(along(variance, src.ndim, channel) + attrs["epsilon"])
    normal = (src - along(mean, src.ndim, channel)) * scale
    diff_gamma, diff_beta = (diff * normal).sum(axis=others), diff.sum(axis=others)
    count = max(src.size // max(mean.size, 1), 1)
    correction = along(diff_beta, src.ndim, channel) + normal * along(diff_gamma, src.ndim, channel)
    result = (diff - correction / count) * scale
    if gamma:
        result = result * along(gamma[0], src.ndim, channel)
    return result, diff_gamma, diff_beta


def _from_axis(attrs: Attrs, src: Array) -> tuple[int, ...]:
    return tuple(range(attrs["begin_norm_axis"] % src.ndim, src.ndim))


def _layer_norm(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    src = inputs[0]
    axes = _from_axis(attrs, src)
    mean, variance = src.mean(axis=axes, keepdims=True), src.var(axis=axes, keepdims=True)
    dst = (src - mean) / np.sqrt(variance + attrs["epsilon"])
    if attrs["use_affine"]:
        dst = dst * inputs[1] + inputs[2]
    return dst, mean.squeeze(axes), variance.squeeze(axes)


def _layer_norm_backward(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    """Returns the gradients of src, gamma and beta (Ba, Kiros and Hinton, "Layer normalization", 2016)."""
    src, diff, mean, variance, *affine = inputs
    axes = _from_axis(attrs, src)
    outer = tuple(range(src.ndim - len(axes)))
    lead = src.shape[: len(outer)] + (1,) * len(axes)
    scale = 1 / np.sqrt(variance.reshape(lead) + attrs["epsilon"])
    normal = (src - mean.reshape(lead)) * scale
    weighted = diff * affine[0] if attrs["use_affine"] else diff
    mean_of = [term.mean(axis=axes, keepdims=True) for term in (weighted, weighted * normal)]
    result = scale * (weighted - mean_of[0] - normal * mean_of[1])
    return result, (diff * normal).sum(axis=outer), diff.sum(axis=outer)


def _rms_norm(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    """Computes an RMSNorm (Zhang and Sennrich, "Root mean square layer normalization", 2019)."""
    src = inputs[0]
    mean = np.square(src).mean(axis=_from_axis(attrs, src), keepdims=True)
    dst = src / np.sqrt(mean + attrs["epsilon"])
    return (dst * inputs[1] if len(inputs) > 1 else dst,)


def _group_norm(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    """Returns dst, and the mean and variance (N, groups) (Wu and He, "Group normalization", 2018)."""
    src = inputs[0]
    channel = channel_axis(src.ndim, attrs["data_format"])
    first = np.moveaxis(src, channel, 1)
    parts = first.reshape(src.shape[0], attrs["groups"], -1)
    mean, variance = parts.mean(axis=2), parts.var(axis=2)
    normal = (parts - mean[..., None]) / np.sqrt(variance[..., None] + attrs["epsilon"])
    dst = np.moveaxis(normal.reshape(first.shape), 1, channel)
    if attrs["use_affine"]:
        gamma, beta = (along(v, src.ndim, channel) for v in inputs[1:3])
        dst = dst * gamma + beta
    return dst, mean, variance


def _softmax(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    """Returns dst and the log-sum-exp of each row; in mode inf_as_zero both are 0 for a row of -inf."""
    src, axis = inputs[0], attrs["axis"]
    top = src.max(axis=axis, keepdims=True, initial=-np.inf)
    nothing = np.isneginf(top) & (attrs.get("mode") == "inf_as_zero")
    powers = np.exp(src - np.where(nothing, 0, top))
    total = np.where(nothing, 1, powers.sum(axis=axis, keepdims=True))
    return powers / total, np.where(nothing, 0, top) + np.log(total)


def _log_softmax(attrs: Attrs, src: Array) -> Array:
    axis = attrs["axis"]
    shifted = src - src.max(axis=axis, keepdims=True, initial=-np.inf)
    logarithms: Array = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return logarithms


def _sum(attrs: Attrs, values: Array) -> Array:
    return np.asarray(values.sum(axis=attrs["axis"], keepdims=True))


RULES: dict[str, Rule] = {
    "BatchNormForwardTraining": _batch_norm_training,
    "BatchNormInference": _batch_norm,
    "BatchNormTrainingBackward": _batch_norm_backward,
    "GroupNorm": _group_norm,
    "LayerNorm": _layer_norm,
    "LayerNormBackward": _layer_norm_backward,
    "LogSoftmax": with_attrs(_log_softmax),
    "LogSoftmaxBackward": with_attrs(lambda a, diff, dst: diff - np.exp(dst) * _sum(a, diff)),
    "RMSNorm": _rms_norm,
    "SoftMax": _softmax,
    "SoftMaxBackward": with_attrs(lambda a, diff, dst: dst * (diff - _sum(a, diff * dst))),
}
