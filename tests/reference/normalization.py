"""Batch, layer, group and RMS normalisation, softmax, and their gradients."""

import numpy as np

from .elementwise import along_channel


def _channel_axes(src: np.ndarray, data_format: str) -> tuple[int, ...]:
    channel = src.ndim - 1 if data_format.upper() == "NXC" else 1
    return tuple(a for a in range(src.ndim) if a != channel)


def batch_norm_inference(src, gamma, beta, mean, variance, epsilon, data_format="NXC"):
    g, b, m, v = (along_channel(p, src.ndim, data_format) for p in (gamma, beta, mean, variance))
    return g * (src - m) / np.sqrt(v + epsilon) + b


def batch_norm_training(src, mean, variance, gamma=None, beta=None, *, epsilon, momentum=0.5, data_format="NXC"):
    """dst, running mean and variance, batch mean and (biased) variance; 0.5 is what the library takes
    when momentum is left out."""
    axes = _channel_axes(src, data_format)
    batch_mean, batch_variance = src.mean(axis=axes), src.var(axis=axes)
    ones, zeros = np.ones_like(batch_mean), np.zeros_like(batch_mean)
    dst = batch_norm_inference(
        src,
        ones if gamma is None else gamma,
        zeros if beta is None else beta,
        batch_mean,
        batch_variance,
        epsilon,
        data_format,
    )
    running_mean = momentum * mean + (1 - momentum) * batch_mean
    running_variance = momentum * variance + (1 - momentum) * batch_variance
    return dst, running_mean, running_variance, batch_mean, batch_variance


def batch_norm_backward(src, diff_dst, mean, variance, gamma=None, *, epsilon, data_format="NXC"):
    axes = _channel_axes(src, data_format)
    m, v = (along_channel(p, src.ndim, data_format) for p in (mean, variance))
    scale = 1 / np.sqrt(v + epsilon)
    normal = (src - m) * scale
    diff_gamma, diff_beta = (diff_dst * normal).sum(axis=axes), diff_dst.sum(axis=axes)
    count = src.size / mean.size
    centred = diff_dst - (
        along_channel(diff_beta, src.ndim, data_format) + normal * along_channel(diff_gamma, src.ndim, data_format)
    ) / (count or 1)
    weight = 1.0 if gamma is None else along_channel(gamma, src.ndim, data_format)
    return centred * weight * scale, diff_gamma, diff_beta


def _norm_axes(src: np.ndarray, begin_norm_axis: int) -> tuple[int, ...]:
    return tuple(range(begin_norm_axis % src.ndim, src.ndim))


def _over_axes(parameter: np.ndarray, src: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return parameter.reshape([src.shape[a] for a in axes])


def layer_norm(src, gamma=None, beta=None, *, keep_stats=True, begin_norm_axis=-1, use_affine=True, epsilon=1e-5):
    axes = _norm_axes(src, begin_norm_axis)
    mean, variance = src.mean(axis=axes), src.var(axis=axes)
    lead = mean.shape + (1,) * len(axes)
    dst = (src - mean.reshape(lead)) / np.sqrt(variance.reshape(lead) + epsilon)
    if use_affine and gamma is not None:
        dst = dst * _over_axes(gamma, src, axes)
    if use_affine and beta is not None:
        dst = dst + _over_axes(beta, src, axes)
    return (dst, mean, variance) if keep_stats else (dst,)


def layer_norm_backward(
    src,
    diff_dst,
    mean,
    variance,
    gamma=None,
    beta=None,
    *,
    begin_norm_axis=-1,
    use_affine=True,
    epsilon=1e-5,
):
    axes = _norm_axes(src, begin_norm_axis)
    lead = src.shape[: src.ndim - len(axes)] + (1,) * len(axes)
    scale = 1 / np.sqrt(variance.reshape(lead) + epsilon)
    normal = (src - mean.reshape(lead)) * scale
    weighted = diff_dst
    if use_affine and gamma is not None:
        weighted = diff_dst * _over_axes(gamma, src, axes)
    diff_src = scale * (
        weighted - weighted.mean(axis=axes, keepdims=True) - normal * (weighted * normal).mean(axis=axes, keepdims=True)
    )
    if not use_affine:
        return (diff_src,)
    outer = tuple(range(src.ndim - len(axes)))
    return diff_src, (diff_dst * normal).sum(axis=outer), diff_dst.sum(axis=outer)


def rms_norm(src, gamma=None, *, begin_norm_axis=-1, epsilon=1e-5):
    axes = _norm_axes(src, begin_norm_axis)
    dst = src / np.sqrt(np.square(src).mean(axis=axes, keepdims=True) + epsilon)
    return dst if gamma is None else dst * _over_axes(gamma, src, axes)


def group_norm(
    src, gamma=None, beta=None, *, groups, keep_stats=True, use_affine=True, epsilon=1e-5, data_format="NXC"
):
    last = data_format.upper() == "NXC"
    x = np.moveaxis(src, -1, 1) if last else src
    split = x.reshape(x.shape[0], groups, -1)
    mean, variance = split.mean(axis=2), split.var(axis=2)
    normal = ((split - mean[..., None]) / np.sqrt(variance[..., None] + epsilon)).reshape(x.shape)
    dst = np.moveaxis(normal, 1, -1) if last else normal
    if use_affine and gamma is not None:
        dst = dst * along_channel(gamma, src.ndim, data_format)
    if use_affine and beta is not None:
        dst = dst + along_channel(beta, src.ndim, data_format)
    return (dst, mean, variance) if keep_stats else (dst,)


def softmax(src, *, axis=1, mode="none"):
    """dst and stats, the logarithm of the sum of exponentials; 0 for both where mode leaves nothing to sum."""
    top = src.max(axis=axis, keepdims=True)
    empty = np.isneginf(top) & (mode == "inf_as_zero")
    exponent = np.exp(src - np.where(empty, 0.0, top))
    total = np.where(empty, 1.0, exponent.sum(axis=axis, keepdims=True))
    return exponent / total, np.where(empty, 0.0, top) + np.log(total)


def softmax_backward(diff_dst, dst, *, axis=1):
    return dst * (diff_dst - (diff_dst * dst).sum(axis=axis, keepdims=True))


def log_softmax(src, *, axis=-1):
    shifted = src - src.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def log_softmax_backward(diff_dst, dst, *, axis=-1):
    return diff_dst - np.exp(dst) * diff_dst.sum(axis=axis, keepdims=True)
