"""Convolution and its two gradients.

Weights are OIX (OC, IC/groups, k...) or XIO (k..., IC/groups, OC).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from .common import (
    Dim,
    agree,
    channels_of,
    check_span,
    data_shape,
    expect,
    need_rank,
    per_axis,
    spatial_of,
    text,
    unify,
)
from .registry import Meta, Shape, rule
from .windows import positions


def _split_weights(shape: Shape, weights_format: str) -> tuple[Dim, Dim, Shape]:
    """(OC, IC/groups, kernel)."""
    return (shape[0], shape[1], shape[2:]) if weights_format == "OIX" else (shape[-1], shape[-2], shape[:-2])


def _checked_weights(
    where: str, name: str, shape: Shape, data: Shape, attrs: Mapping[str, Any]
) -> tuple[Dim, Dim, Shape]:
    """(OC, IC/groups, kernel) of weights whose rank, kernel and groups make sense."""
    expected = len(data)
    if len(shape) != expected:
        raise ShapeError(
            f"{where}: {name} has {len(shape)} axes {text(shape)}, the data has {expected} {text(data)}; "
            f"they must be equal ({attrs['weights_format']}, {attrs['data_format']})"
        )
    out_channels, in_per_group, kernel = _split_weights(shape, attrs["weights_format"])
    if 0 in kernel:
        raise ShapeError(f"{where}: {name} of shape {text(shape)} has a kernel of size 0; use at least 1")
    groups = attrs["groups"]
    if groups < 1:
        raise InvalidArgumentError(f"{where}: groups = {groups} must be at least 1")
    if out_channels is not None and out_channels % groups:
        raise ShapeError(
            f"{where}: {out_channels} output channels of {name} {text(shape)} are no multiple of groups = {groups}"
        )
    return out_channels, in_per_group, kernel


def _check_in_channels(where: str, channels: Dim, per_group: Dim, weights: Shape, attrs: Mapping[str, Any]) -> None:
    groups = attrs["groups"]
    if channels is None or per_group is None or channels == per_group * groups:
        return
    raise ShapeError(
        f"{where}: src has {channels} channels, weights of shape {text(weights)} "
        f"({attrs['weights_format']}) take "
        f"{per_group} per group in {groups} groups, {per_group * groups} together; change weights, groups "
        "or formats"
    )


def _data_rank(where: str, name: str, shape: Shape, attrs: Mapping[str, Any]) -> None:
    need_rank(where, name, shape, 3, 5, f"{attrs['data_format']} with 1 to 3 spatial axes")


def _forward(where: str, src: Shape, weights: Shape, attrs: Mapping[str, Any], name: str = "weights") -> Shape:
    _data_rank(where, "src", src, attrs)
    out_channels, per_group, kernel = _checked_weights(where, name, weights, src, attrs)
    _check_in_channels(where, channels_of(src, attrs["data_format"]), per_group, weights, attrs)
    spatial = positions(where, attrs, spatial_of(src, attrs["data_format"]), kernel, "src")
    return data_shape(src[0], out_channels, spatial, attrs["data_format"])


@rule("Convolution")
def convolution(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, weights = inputs[:2]
    shape = _forward(where, src.shape, weights.shape, attrs)
    if len(inputs) > 2:
        channels = channels_of(shape, attrs["data_format"])
        expect(where, "bias", inputs[2].shape, (channels,), f"there are {channels} output channels")
    return [Meta(shape, src.dtype)]


def _derived_src(where: str, diff_dst: Shape, kernel: Shape, attrs: Mapping[str, Any]) -> Shape:
    """Spatial sizes that lead back to diff_dst: the smallest ones, plus output_padding."""
    spatial = spatial_of(diff_dst, attrs["data_format"])
    rank = len(spatial)
    strides = per_axis(where, attrs, "strides", rank, 1)
    dilations = per_axis(where, attrs, "dilations", rank, 1)
    begins = per_axis(where, attrs, "pads_begin", rank, 0)
    ends = per_axis(where, attrs, "pads_end", rank, 0)
    extra = per_axis(where, attrs, "output_padding", rank, 0)
    sizes: list[Dim] = []
    for axis, (size, taps) in enumerate(zip(spatial, kernel, strict=True)):
        if size is None or taps is None:
            sizes.append(None)
            continue
        stride, reach = strides[axis], (taps - 1) * dilations[axis] + 1
        pads = begins[axis] + ends[axis]
        if attrs["auto_pad"] != "None":
            pads = 0 if attrs["auto_pad"] == "VALID" else max(reach - stride, 0)
        check_span(where, axis, (size - 1) * stride + reach + extra[axis])
        size = (size - 1) * stride + reach - pads + extra[axis]
        if size < 0:
            raise ShapeError(
                f"{where}: diff_src would have the size {size} on spatial axis {axis}; pads of {pads} take "
                "away more "
                f"than diff_dst {text(spatial)} and the kernel {text(kernel)} give"
            )
        sizes.append(size)
    return tuple(sizes)


@rule("ConvolutionBackwardData")
def convolution_backward_data(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    diff_dst, weights = inputs[:2]
    _data_rank(where, "diff_dst", diff_dst.shape, attrs)
    rank, layout = len(diff_dst.shape), attrs["data_format"]
    out_channels, per_group, kernel = _checked_weights(where, "weights", weights.shape, diff_dst.shape, attrs)
    channels = channels_of(diff_dst.shape, layout)
    if not agree(channels, out_channels):
        raise ShapeError(
            f"{where}: diff_dst has {channels} channels, weights of shape {text(weights.shape)} "
            f"({attrs['weights_format']}) have {out_channels} output channels; they must be equal"
        )
    in_channels = None if per_group is None else per_group * attrs["groups"]
    given = attrs.get("dst_shape")
    if len(inputs) > 2:
        expect(where, "dst_shape_input", inputs[2].shape, (rank,), f"diff_src has {rank} axes")
        if given is None:
            return [Meta(data_shape(diff_dst.shape[0], in_channels, (None,) * (rank - 2), layout), diff_dst.dtype)]
    if given is None:
        spatial = _derived_src(where, diff_dst.shape, kernel, attrs)
        return [Meta(data_shape(diff_dst.shape[0], in_channels, spatial, layout), diff_dst.dtype)]
    shape = tuple(given)
    need_rank(where, "dst_shape", shape, rank, rank)
    forward = _forward(where, shape, weights.shape, attrs)
    unify(where, f"a convolution of dst_shape {text(shape)}", forward, "diff_dst", diff_dst.shape)
    return [Meta(shape, diff_dst.dtype)]


@rule("ConvolutionBackwardWeights")
def convolution_backward_weights(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, diff_dst = inputs[:2]
    _data_rank(where, "src", src.shape, attrs)
    rank, layout = len(src.shape), attrs["data_format"]
    need_rank(where, "diff_dst", diff_dst.shape, rank, rank)
    given = attrs.get("weights_shape")
    if len(inputs) > 2:
        expect(where, "weights_shape_input", inputs[2].shape, (rank,), f"weights have {rank} axes")
    elif given is None:
        raise InvalidArgumentError(
            f"{where}: weights_shape is needed; src {text(src.shape)} and diff_dst {text(diff_dst.shape)} "
            "do not "
            "determine the kernel, give it as (OC, IC/groups, k...) for OIX or (k..., IC/groups, OC) for XIO"
        )
    if given is None:
        channels = channels_of(src.shape, layout)
        per_group = None if channels is None else channels // max(attrs["groups"], 1)
        pair = (channels_of(diff_dst.shape, layout), per_group)
        blank = (None,) * (rank - 2)
        given = (*pair, *blank) if attrs["weights_format"] == "OIX" else (*blank, *pair[::-1])
    shape = tuple(given)
    forward = _forward(where, src.shape, shape, attrs, "weights_shape")
    unify(where, f"a convolution with weights {text(shape)}", forward, "diff_dst", diff_dst.shape)
    return [Meta(shape, src.dtype)]
