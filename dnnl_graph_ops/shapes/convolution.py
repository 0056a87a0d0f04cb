"""Geometry, validation and shape inference of the Convolution ops.

Weights are OIX (OC, IC/groups, k...), XIO (k..., IC/groups, OC), IOX (IC/groups, OC, k...) or
XOI (k..., OC, IC/groups).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from ..symbolic import greatest
from ..words import counted
from .attributes import Attributes, Dim, Dims, Geometry, Resolved, WeightsShape
from .common import (
    agree,
    channels_of,
    check_counts,
    check_span,
    data_shape,
    expect,
    join_weights,
    need_rank,
    spatial_of,
    split_weights,
    text,
    unify,
)
from .registry import resolver
from .windows import Window, positions_of, resolve

Windows = list[Window | None]


def _parse(attrs: Mapping[str, Any], rank: int, where: str) -> Attributes:
    """Returns the record of attributes that the op table has checked."""
    return Attributes(**{name: value for name, value in attrs.items() if value is not None})


def _read_weights(where: str, name: str, shape: Dims, data: Dims, attrs: Attributes) -> WeightsShape:
    """Reads a weights shape; raises if rank, kernel or groups do not fit."""
    expected = len(data)
    if len(shape) != expected:
        raise ShapeError(
            f"{where}: {name} has {counted(len(shape), 'axis')} {text(shape)}, the data has {expected} {text(data)}; "
            f"they must be equal ({attrs.weights_format}, {attrs.data_format})"
        )
    per_group, out_channels, kernel = split_weights(shape, attrs.weights_format)
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


def _data_rank(where: str, name: str, shape: Dims, attrs: Attributes) -> None:
    need_rank(where, name, shape, 3, 5, f"{attrs.data_format} with 1 to 3 spatial axes")


def _dst(
    where: str, src: Dims, weights: Dims, attrs: Attributes, name: str = "weights"
) -> tuple[Dims, WeightsShape, Windows]:
    """Returns the shape of dst, the weights as read, and the windows on src."""
    _data_rank(where, "src", src, attrs)
    found = _read_weights(where, name, weights, src, attrs)
    channels, taken = channels_of(src, attrs.data_format), found.in_channels
    if not agree(channels, taken):
        raise ShapeError(
            f"{where}: src has {counted(channels, 'channel')}, weights of shape {text(weights)} "
            f"({attrs.weights_format}) take "
            f"{(taken or 0) // attrs.groups} per group in {counted(attrs.groups, 'group')}, {taken} together; "
            "OIX is (OC, IC/groups, k...), XIO (k..., IC/groups, OC), IOX (IC/groups, OC, k...), "
            "XOI (k..., OC, IC/groups)"
        )
    windows = _windows(where, attrs, src, found)
    spatial = positions_of(where, windows, "src")
    return data_shape(src[0], found.out_channels, spatial, attrs.data_format), found, windows


def _windows(where: str, attrs: Attributes, src: Dims, weights: WeightsShape) -> Windows:
    return resolve(where, attrs, spatial_of(src, attrs.data_format), weights.kernel)


def _geometry(where: str, attrs: Attributes, weights: WeightsShape, src: Dims, dst: Dims, windows: Windows) -> Geometry:
    """Returns the equivalent transposed convolution from dst to src; output_padding is the floor's remainder."""
    layout = attrs.data_format
    sizes, found = spatial_of(src, layout), spatial_of(dst, layout)
    begins, ends, padding = [], [], []
    for axis, (window, count) in enumerate(zip(windows, found, strict=True)):
        begin, end, left = attrs.pads_begin[axis], attrs.pads_end[axis], 0
        if window is not None and count is not None:
            begin, end, left = window.begin, window.end, window.room - window.stride * (count - 1)
        begins.append(begin)
        ends.append(end + greatest(-left, 0))
        padding.append(greatest(left, 0))
    batch = dst[0] if src[0] is None else src[0]
    check_counts(where, batch, weights.in_channels, weights.out_channels)
    return Geometry(
        batch=batch,
        groups=attrs.groups,
        in_channels=weights.out_channels,
        out_channels=weights.in_channels,
        src=found,
        kernel=weights.kernel,
        dst=sizes,
        strides=attrs.strides,
        pads_begin=tuple(begins),
        pads_end=tuple(ends),
        dilations=attrs.dilations,
        output_padding=tuple(padding),
    )


@resolver("Convolution", parse=_parse)
def _forward(shapes: Sequence[Dims], attrs: Attributes, where: str) -> Resolved:
    src, weights, *bias = shapes
    dst, found, windows = _dst(where, src, weights, attrs)
    if bias:
        expect(where, "bias", bias[0], (found.out_channels,), f"there are {found.out_channels} output channels")
    return Resolved(tuple(shapes), found, dst, _geometry(where, attrs, found, src, dst, windows))


def _derived_src(where: str, diff_dst: Dims, kernel: Dims, attrs: Attributes) -> Dims:
    """Returns the smallest spatial sizes of src that give diff_dst, plus output_padding."""
    spatial = spatial_of(diff_dst, attrs.data_format)
    extra = attrs.output_padding or (0,) * len(spatial)
    sizes: list[Dim] = []
    for axis, (size, taps) in enumerate(zip(spatial, kernel, strict=True)):
        if size is None or taps is None:
            sizes.append(None)
            continue
        stride, reach = attrs.strides[axis], (taps - 1) * attrs.dilations[axis] + 1
        pads = attrs.pads_begin[axis] + attrs.pads_end[axis]
        if attrs.auto_pad != "None":
            pads = 0 if attrs.auto_pad == "VALID" else max(reach - stride, 0)
        check_span(where, axis, (size - 1) * stride + reach + extra[axis])
        size = (size - 1) * stride + reach - pads + extra[axis]
        if size < 0:
            raise ShapeError(
                f"{where}: diff_src would have the size {size} on spatial axis {axis}; pads of {pads} take away more "
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
            f"{where}: diff_dst has {counted(channels, 'channel')}, weights of shape {text(weights)} "
            f"({attrs.weights_format}) "
            f"have {found.out_channels} output channels; they must be equal"
        )
    if sizes:
        expect(where, "dst_shape_input", sizes[0], (rank,), f"diff_src has {counted(rank, 'axis')}")
    shape = attrs.dst_shape
    if shape is None:
        spatial = (None,) * (rank - 2) if sizes else _derived_src(where, diff_dst, found.kernel, attrs)
        shape = data_shape(diff_dst[0], found.in_channels, spatial, layout)
        windows = _windows(where, attrs, shape, found)
    else:
        need_rank(where, "the shape of src", shape, rank, rank)
        forward, _, windows = _dst(where, shape, weights, attrs)
        unify(where, f"a convolution of src {text(shape)}", forward, "diff_dst", diff_dst)
        if any(attrs.output_padding):
            derived = _derived_src(where, diff_dst, found.kernel, attrs)
            unify(where, f"src with output_padding = {attrs.output_padding}", derived, "src", spatial_of(shape, layout))
    return Resolved(tuple(shapes), found, shape, _geometry(where, attrs, found, shape, diff_dst, windows))


@resolver("ConvolutionBackwardWeights", parse=_parse)
def _backward_weights(shapes: Sequence[Dims], attrs: Attributes, where: str) -> Resolved:
    src, diff_dst, *sizes = shapes
    _data_rank(where, "src", src, attrs)
    rank, layout = len(src), attrs.data_format
    need_rank(where, "diff_dst", diff_dst, rank, rank)
    shape = attrs.weights_shape
    if sizes:
        expect(where, "weights_shape_input", sizes[0], (rank,), f"weights have {counted(rank, 'axis')}")
    if shape is None:
        channels = channels_of(src, layout)
        per_group = None if channels is None else channels // max(attrs.groups, 1)
        kernel = (None,) * (rank - 2) if sizes else _derived_kernel(where, src, diff_dst, attrs)
        shape = join_weights(per_group, channels_of(diff_dst, layout), kernel, attrs.weights_format)
    forward, found, windows = _dst(where, src, shape, attrs, "weights_shape")
    unify(where, f"a convolution with weights {text(shape)}", forward, "diff_dst", diff_dst)
    return Resolved(tuple(shapes), found, shape, _geometry(where, attrs, found, src, diff_dst, windows))


def _derived_kernel(where: str, src: Dims, diff_dst: Dims, attrs: Attributes) -> Dims:
    """Returns the kernel size, if exactly one gives diff_dst from src."""
    kernel: list[Dim] = []
    pairs = zip(spatial_of(src, attrs.data_format), spatial_of(diff_dst, attrs.data_format), strict=True)
    for axis, (size, count) in enumerate(pairs):
        if size is None or count is None:
            kernel.append(None)
            continue
        pads = 0 if attrs.auto_pad == "VALID" else attrs.pads_begin[axis] + attrs.pads_end[axis]
        stride, dilation = attrs.strides[axis], attrs.dilations[axis]
        # the largest dilations * (kernel - 1); every value less than a stride below gives the same diff_dst
        most = size + pads - 1 - stride * (count - 1)
        found = range(max(-(-(most - stride + 1) // dilation), 0), most // dilation + 1)
        if attrs.auto_pad.startswith("SAME") or len(found) != 1:
            raise InvalidArgumentError(
                f"{where}: weights_shape is needed; src {text(src)} and diff_dst {text(diff_dst)} do not "
                "determine the kernel, give it as (OC, IC/groups, k...) for OIX or (k..., IC/groups, OC) for XIO"
            )
        kernel.append(found[0] + 1)
    return tuple(kernel)
