"""Shape rules of batch, layer, group and RMS normalization, and of softmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from .common import Dim, axis_of, broadcast_onto, channels_of, expect, need_rank, text, unify
from .registry import Meta, Shape, rule


def _by_channel(
    where: str, src: Shape, operands: Sequence[Meta], names: Sequence[str], attrs: Mapping[str, Any], least: int = 2
) -> Dim:
    """Returns the number of channels of src, after a check that every other operand has shape (C,)."""
    need_rank(where, "src", src, least, 5, attrs["data_format"])
    channels = channels_of(src, attrs["data_format"])
    for meta, name in zip(operands, names, strict=False):
        expect(where, name, meta.shape, (channels,), f"src of shape {text(src)} has {channels} channels")
    return channels


@rule("BatchNormInference")
def batch_norm_inference(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    _by_channel(where, inputs[0].shape, inputs[1:], ("gamma", "beta", "mean", "variance"), attrs)
    return [inputs[0]]


@rule("BatchNormForwardTraining")
def batch_norm_forward_training(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    channels = _by_channel(where, inputs[0].shape, inputs[1:], ("mean", "variance", "gamma", "beta"), attrs)
    return [inputs[0], *[Meta((channels,), inputs[1].dtype)] * 4]


@rule("BatchNormTrainingBackward")
def batch_norm_training_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, diff_dst, mean = inputs[:3]
    shape = unify(where, "src", src.shape, "diff_dst", diff_dst.shape)
    channels = _by_channel(where, src.shape, inputs[2:], ("mean", "variance", "gamma"), attrs)
    gradients = [Meta((channels,), mean.dtype)] * 2 if len(inputs) > 4 else []
    return [Meta(shape, src.dtype), *gradients]


def _norm_axis(where: str, src: Shape, attrs: Mapping[str, Any]) -> int:
    need_rank(where, "src", src, 2, 12)
    return axis_of(where, "begin_norm_axis", attrs["begin_norm_axis"], len(src))


def _from_axis(where: str, inputs: Sequence[Meta], names: Sequence[str], wanted: Shape, src: Shape, axis: int) -> None:
    for meta, name in zip(inputs, names, strict=False):
        expect(where, name, meta.shape, wanted, f"src of shape {text(src)} is normalized from axis {axis} on")


def _check_affine(where: str, given: bool, attrs: Mapping[str, Any]) -> None:
    if attrs["use_affine"] and not given:
        raise InvalidArgumentError(
            f"{where}: use_affine is True, but there are no gamma and beta; give them or set use_affine to False"
        )


@rule("LayerNorm")
def layer_norm(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src = inputs[0]
    axis = _norm_axis(where, src.shape, attrs)
    _check_affine(where, len(inputs) > 1, attrs)
    _from_axis(where, inputs[1:], ("gamma", "beta"), src.shape[axis:], src.shape, axis)
    statistics = Meta(src.shape[:axis], inputs[1].dtype if len(inputs) > 1 else "f32")
    return [src, statistics, statistics] if attrs["keep_stats"] else [src]


@rule("LayerNormBackward")
def layer_norm_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, diff_dst = inputs[:2]
    axis = _norm_axis(where, src.shape, attrs)
    shape = unify(where, "src", src.shape, "diff_dst", diff_dst.shape)
    _check_affine(where, len(inputs) > 4, attrs)
    _from_axis(where, inputs[2:4], ("mean", "variance"), src.shape[:axis], src.shape, axis)
    _from_axis(where, inputs[4:], ("gamma", "beta"), src.shape[axis:], src.shape, axis)
    gradients = [inputs[4], inputs[4]] if attrs["use_affine"] else []
    return [Meta(shape, src.dtype), *gradients]


@rule("GroupNorm")
def group_norm(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, groups = inputs[0], attrs["groups"]
    channels = _by_channel(where, src.shape, inputs[1:], ("gamma", "beta"), attrs, 3)
    if groups < 1 or (channels is not None and channels % groups):
        raise ShapeError(
            f"{where}: {channels} channels of src {text(src.shape)} cannot be split into groups = {groups}; "
            "groups must divide the channels"
        )
    _check_affine(where, len(inputs) > 1, attrs)
    statistics = Meta((src.shape[0], groups), inputs[1].dtype if len(inputs) > 1 else "f32")
    return [src, statistics, statistics] if attrs["keep_stats"] else [src]


@rule("RMSNorm")
def rms_norm(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src = inputs[0]
    _norm_axis(where, src.shape, attrs)
    if len(inputs) > 1:
        broadcast_onto(where, "gamma", inputs[1].shape, "src", src.shape)
    return [src]


@rule("SoftMax")
def softmax(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src = inputs[0]
    axis = axis_of(where, "axis", attrs["axis"], len(src.shape))
    return [src, Meta((*src.shape[:axis], 1, *src.shape[axis + 1 :]), "f32")]


@rule("LogSoftmax")
def log_softmax(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    axis_of(where, "axis", attrs["axis"], len(inputs[0].shape))
    return [inputs[0]]


@rule("SoftMaxBackward", "LogSoftmaxBackward")
def softmax_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    diff_dst, dst = inputs
    axis_of(where, "axis", attrs["axis"], len(diff_dst.shape))
    return [Meta(unify(where, "diff_dst", diff_dst.shape, "dst", dst.shape), diff_dst.dtype)]
