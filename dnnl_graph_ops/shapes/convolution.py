"""Convolution and its two gradients.

Weights are OIX (OC, IC/groups, k...) or XIO (k..., IC/groups, OC).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from .attributes import Attributes, Dim, Dims, Resolved, WeightsShape
from .common import (
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
from .registry import resolver
from .windows import positions


def _parse(attrs: Mapping[str, Any], rank: int, where: str) -> Attributes:
    """From what the op table has checked already."""
    return Attributes(**attrs)


def _read_weights(where: str, name: str, shape: Dims, data: Dims, attrs: Attributes) -> WeightsShape:
    """Weights whose rank, kernel and groups make sense."""
    expected = len(data)
    if len(shape) != expected:
        raise ShapeError(
            f"{where}: {name} has {len(shape)} axes {text(shape)}, the data has {expected} {text(data)}; "
            f"they must be equal ({attrs.weights_format}, {attrs.data_format})"
        )
    first = attrs.weights_format == "OIX"
    out_channels, per_group, kernel = (shape[0], shape[1], shape[2:]) if first else (shape[-1], shape[-2], shape[:-2])
    if 0 in kernel:
        raise ShapeError(f"{where}: {name} of shape {text(shape)} has a kernel of size 0; use at least 1")
    groups = attrs.groups
    if groups < 1:
        raise InvalidArgumentError(f"{where}: groups = {groups} must be at least 1")
    if out_channels is not None and out_channels % groups:
        raise ShapeError(
            f"{where}: {out_channels} output channels of {name} {text(shape)} are no multiple of groups = {groups}"
        )
    return WeightsShape(None if per_group is None else per_group * groups, out_channels, kernel)


def _check_in_channels(where: str, channels: Dim, found: WeightsShape, weights: Dims, attrs: Attributes) -> None:
    if agree(channels, found.in_channels):
        return
    raise ShapeError(
        f"{where}: src has {channels} channels, weights of shape {text(weights)} ({attrs.weights_format}) take "
        f"{(found.in_channels or 0) // attrs.groups} per group in {attrs.groups} groups, {found.in_channels} together; "
        "change weights, groups or formats"
    )


def _data_rank(where: str, name: str, shape: Dims, attrs: Attributes) -> None:
    need_rank(where, name, shape, 3, 5, f"{attrs.data_format} with 1 to 3 spatial axes")


def _dst(where: str, src: Dims, weights: Dims, attrs: Attributes, name: str = "weights") -> tuple[Dims, WeightsShape]:
    _data_rank(where, "src", src, attrs)
    found = _read_weights(where, name, weights, src, attrs)
    _check_in_channels(where, channels_of(src, attrs.data_format), found, weights, attrs)
    spatial = positions(where, attrs, spatial_of(src, attrs.data_format), found.kernel, "src")
    return data_shape(src[0], found.out_channels, spatial, attrs.data_format), found


@resolver("Convolution", parse=_parse)
def _forward(shapes: Sequence[Dims], attrs: Attributes, where: str) -> Resolved:
    src, weights, *bias = shapes
    dst, found = _dst(where, src, weights, attrs)
    if bias:
        expect(where, "bias", bias[0], (found.out_channels,), f"there are {found.out_channels} output channels")
    return Resolved(tuple(shapes), found, dst)


def _derived_src(where: str, diff_dst: Dims, kernel: Dims, attrs: Attributes) -> Dims:
    """Spatial sizes that lead back to diff_dst: the smallest ones, plus output_padding."""
    spatial = spatial_of(diff_dst, attrs.data_format)
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
        if attrs.auto_pad != "None":
            pads = 0 if attrs.auto_pad == "VALID" else max(reach - stride, 0)
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


@resolver("ConvolutionBackwardData", parse=_parse)
def _backward_data(shapes: Sequence[Dims], attrs: Attributes, where: str) -> Resolved:
    diff_dst, weights, *sizes = shapes
    _data_rank(where, "diff_dst", diff_dst, attrs)
    rank, layout = len(diff_dst), attrs.data_format
    found = _read_weights(where, "weights", weights, diff_dst, attrs)
    channels = channels_of(diff_dst, layout)
    if not agree(channels, found.out_channels):
        raise ShapeError(
            f"{where}: diff_dst has {channels} channels, weights of shape {text(weights)} ({attrs.weights_format}) "
            f"have {found.out_channels} output channels; they must be equal"
        )
    if sizes:
        expect(where, "dst_shape_input", sizes[0], (rank,), f"diff_src has {rank} axes")
    if attrs.dst_shape is not None:
        shape = attrs.dst_shape
        need_rank(where, "dst_shape", shape, rank, rank)
        forward, _ = _dst(where, shape, weights, attrs)
        unify(where, f"a convolution of dst_shape {text(shape)}", forward, "diff_dst", diff_dst)
        return Resolved(tuple(shapes), found, shape)
    spatial = (None,) * (rank - 2) if sizes else _derived_src(where, diff_dst, found.kernel, attrs)
    return Resolved(tuple(shapes), found, data_shape(diff_dst[0], found.in_channels, spatial, layout))


@resolver("ConvolutionBackwardWeights", parse=_parse)
def _backward_weights(shapes: Sequence[Dims], attrs: Attributes, where: str) -> Resolved:
    src, diff_dst, *sizes = shapes
    _data_rank(where, "src", src, attrs)
    rank, layout = len(src), attrs.data_format
    need_rank(where, "diff_dst", diff_dst, rank, rank)
    shape = attrs.weights_shape
    if sizes:
        expect(where, "weights_shape_input", sizes[0], (rank,), f"weights have {rank} axes")
    elif shape is None:
        raise InvalidArgumentError(
            f"{where}: weights_shape is needed; src {text(src)} and diff_dst {text(diff_dst)} do not "
            "determine the kernel, give it as (OC, IC/groups, k...) for OIX or (k..., IC/groups, OC) for XIO"
        )
    if shape is None:
        channels = channels_of(src, layout)
        per_group = None if channels is None else channels // max(attrs.groups, 1)
        pair = (channels_of(diff_dst, layout), per_group)
        blank = (None,) * (rank - 2)
        shape = (*pair, *blank) if attrs.weights_format == "OIX" else (*blank, *pair[::-1])
    forward, found = _dst(where, src, shape, attrs, "weights_shape")
    unify(where, f"a convolution with weights {text(shape)}", forward, "diff_dst", diff_dst)
    return Resolved(tuple(shapes), found, shape)
