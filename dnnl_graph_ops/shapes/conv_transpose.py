"""Geometry, validation and shape inference of the ConvTranspose ops.

Each of the four ops relates src, weights, dst, the spatial attributes and the groups. A `Geometry` holds them all,
and operands and results of each op follow from it.

Source: oneDNN Graph API pages ConvTranspose, ConvTransposeBackwardData,
ConvTransposeBackwardWeights; OpenVINO-style ConvTransposeBackpropFilters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..errors import InvalidArgumentError, ShapeError
from ..schema import KEYWORDS
from ..words import counted
from .attributes import Attributes, Dim, Dims, Geometry, Ints, Resolved, WeightsShape, attributes
from .common import agree, channels_of, check_counts, check_span, data_shape, join_weights, spatial_of, split_weights
from .registry import check_sizes, resolver

# batch, channels and spatial sizes of data; pads at the begin and the end of each axis
_Data: TypeAlias = tuple[Dim, Dim, Dims]
_Pads: TypeAlias = tuple[Ints, Ints]


def _pads(attrs: Attributes, kernel: Dims) -> _Pads:
    """Returns explicit pads; SAME_* pads so that dst = strides * src where the dilated kernel covers the stride."""
    if attrs.auto_pad == "None":
        return attrs.pads_begin, attrs.pads_end
    if attrs.auto_pad == "VALID":
        zeros = (0,) * len(attrs.strides)
        return zeros, zeros
    begin, end = [], []
    for k, s, d in zip(kernel, attrs.strides, attrs.dilations, strict=True):
        # an unknown kernel size makes dst unknown, and the pads are never read
        total = 0 if k is None else max(0, (k - 1) * d + 1 - s)
        half, rest = total // 2, total - total // 2
        begin.append(half if attrs.auto_pad == "SAME_UPPER" else rest)
        end.append(rest if attrs.auto_pad == "SAME_UPPER" else half)
    return tuple(begin), tuple(end)


def _read_weights(shape: Dims, attrs: Attributes, where: str, ic: Dim, oc: Dim, name: str = "weights") -> WeightsShape:
    """Reads a weights shape in oneDNN's grouped format or in its documented one, told apart by the data's channels."""
    fmt, groups = attrs.weights_format, attrs.groups
    if len(shape) != len(attrs.strides) + 2:
        raise ShapeError(
            f"{where}: '{name}' has rank {len(shape)} {shape}, but the data has "
            f"{counted(len(attrs.strides), 'spatial axis')}; "
            f"{fmt} weights need rank {len(attrs.strides) + 2}"
        )
    i, o, kernel = split_weights(shape, fmt)
    for axis, k in enumerate(kernel):
        if k is not None and k < 1:
            raise ShapeError(f"{where}: kernel size of '{name}' must be at least 1, got {k} on spatial axis {axis}")
    for total, what in ((ic, "in"), (oc, "out")):
        if total is not None and total % groups:
            raise ShapeError(f"{where}: {what}put channels {total} are not a multiple of groups={groups}")
    # oneDNN takes the grouped shape (IC, OC/g); its pages print (IC/g, OC)
    library = agree(i, ic) and agree(_times(o, groups), oc)
    documented = agree(_times(i, groups), ic) and agree(o, oc)
    if library and (i is None or i % groups == 0):
        return WeightsShape(i, _times(o, groups), kernel)
    if documented and groups > 1 and (o is None or o % groups == 0):
        return WeightsShape(_times(i, groups), o, kernel, documented=True)
    parts = []
    if ic is not None:
        parts.append(f"{ic} input channels in the data against I={i}")
    if oc is not None:
        parts.append(f"{oc} output channels in the data against O={o}" + (f" x groups={groups}" if groups > 1 else ""))
    hint = (
        f"IOX is (IC, OC/groups, k...), XOI (k..., OC/groups, IC); groups={groups}"
        if groups > 1
        else "IOX is (IC, OC, k...), XOI (k..., OC, IC), OIX (OC, IC, k...), XIO (k..., IC, OC)"
    )
    raise ShapeError(
        f"{where}: channels of '{name}' {shape} read as {fmt} do not match: {'; '.join(parts) or 'groups'}; {hint}"
    )


def _times(a: Dim, factor: int) -> Dim:
    return None if a is None else a * factor


def _data(shape: Sequence[Dim], name: str, rank: int | None, data_format: str, where: str) -> _Data:
    if len(shape) < 3 or len(shape) > 5:
        raise ShapeError(
            f"{where}: '{name}' must have rank 3 to 5 ({data_format}), got rank {len(shape)} {tuple(shape)}"
        )
    if rank is not None and len(shape) != rank + 2:
        raise ShapeError(f"{where}: '{name}' has rank {len(shape)} {tuple(shape)}, expected rank {rank + 2}")
    check_sizes(tuple(shape), where, f"'{name}'")
    return shape[0], channels_of(tuple(shape), data_format), spatial_of(tuple(shape), data_format)


def _forward_size(i: Dim, k: Dim, s: int, d: int, pb: int, pe: int, op: int) -> Dim:
    return None if i is None or k is None else s * (i - 1) + d * (k - 1) + 1 - pb - pe + op


def _parse(attrs: Mapping[str, Any], rank: int, where: str) -> Attributes:
    own = {name: value for name, value in attrs.items() if name in KEYWORDS["conv_transpose"]}
    given = {name: attrs.get(name) for name in ("src_shape", "weights_shape")}
    shapes: dict[str, Any] = {name: tuple(shape) for name, shape in given.items() if shape is not None}
    return replace(attributes(rank, where, own), **shapes)


@resolver("ConvTranspose", parse=_parse)
def _forward(shapes: Sequence[Dims], attrs: Attributes, where: str) -> Resolved:
    src, weights, *bias = shapes
    batch, channels, spatial = _data(src, "src", len(attrs.strides), attrs.data_format, where)
    w = _read_weights(weights, attrs, where, channels, None)
    check_sizes(weights, where, "'weights'")
    begin, end = _pads(attrs, w.kernel)
    dst = tuple(map(_forward_size, spatial, w.kernel, attrs.strides, attrs.dilations, begin, end, attrs.output_padding))
    for axis, size in enumerate(dst):
        if size is not None and size < 0:
            raise ShapeError(
                f"{where}: dst would have {counted(size, 'element')} on spatial axis {axis} (src {spatial[axis]}, "
                "kernel "
                f"{w.kernel[axis]}, stride {attrs.strides[axis]}, pads {begin[axis]} and {end[axis]}); "
                f"lower the pads or raise output_padding"
            )
    data = batch, channels if channels is not None else w.in_channels, spatial
    geometry = _geometry(where, attrs, data, w, dst, (begin, end), attrs.output_padding)
    check_sizes((batch, w.out_channels, *dst), where, "dst")
    if bias and len(bias[0]) != 1:
        raise ShapeError(f"{where}: 'bias' must have rank 1 (one value per output channel), got shape {tuple(bias[0])}")
    if bias and not agree(bias[0][0], w.out_channels):
        given, needed = bias[0][0], w.out_channels
        remedy = f"give it the shape ({needed},)"
        raise ShapeError(
            f"{where}: 'bias' has {counted(given, 'value')}, but dst has {counted(needed, 'channel')}; {remedy}"
        )
    return Resolved(tuple(shapes), w, data_shape(batch, w.out_channels, dst, attrs.data_format), geometry)


def _geometry(
    where: str, attrs: Attributes, src: _Data, w: WeightsShape, dst: Dims, pads: _Pads, padding: Ints
) -> Geometry:
    """Returns the geometry; raises if oneDNN's kernels cannot count its sizes."""
    (batch, channels, spatial), (begin, end) = src, pads
    check_counts(where, batch, channels, w.out_channels)
    for axis, (i, k, o) in enumerate(zip(spatial, w.kernel, dst, strict=True)):
        s, d = attrs.strides[axis], attrs.dilations[axis]
        plain = _forward_size(i or 1, k or 1, s, d, 0, 0, padding[axis]) or 0
        # oneDNN's checks add a padding and the stride
        check_span(where, axis, max(plain, o or 0, begin[axis] + s, end[axis] + s))
    return Geometry(
        batch=batch,
        groups=attrs.groups,
        in_channels=channels,
        out_channels=w.out_channels,
        src=spatial,
        kernel=w.kernel,
        dst=dst,
        strides=attrs.strides,
        pads_begin=begin,
        pads_end=end,
        dilations=attrs.dilations,
        output_padding=padding,
    )


def _backward_sizes(dst: Dims, kernel: Dims, attrs: Attributes, pads: _Pads) -> tuple[Dims, Ints]:
    """Returns src's sizes and the output_padding with which the forward formula is exact.

    A dst that exceeds the formula by less than a stride has more output_padding, as oneDNN counts.
    """
    src: list[Dim] = []
    padding = []
    for o, k, s, d, pb, pe, op in zip(
        dst, kernel, attrs.strides, attrs.dilations, *pads, attrs.output_padding, strict=True
    ):
        span = None if o is None or k is None else o + pb + pe - op - (d * (k - 1) + 1)
        src.append(None if span is None else span // s + 1)
        padding.append(op if span is None else op + span % s)
    return tuple(src), tuple(padding)


@resolver("ConvTransposeBackwardData", parse=_parse)
def _backward_data(shapes: Sequence[Dims], attrs: Attributes, where: str) -> Resolved:
    """Infers diff_src; src_shape, if given, must agree with diff_dst and weights."""
    diff_dst, weights = shapes
    src_shape = attrs.src_shape
    batch, channels, dst = _data(diff_dst, "diff_dst", len(attrs.strides), attrs.data_format, where)
    w = _read_weights(weights, attrs, where, None, channels)
    check_sizes(weights, where, "'weights'")
    begin, end = pads = _pads(attrs, w.kernel)
    src, padding = _backward_sizes(dst, w.kernel, attrs, pads)
    if src_shape is not None:
        given = _data(src_shape, "src_shape", len(attrs.strides), attrs.data_format, where)
        padding = _check_src(given, (batch, w.in_channels, src), dst, w, attrs, pads, where)
        src = given[2]
    for axis, size in enumerate(src):
        if size is not None and size < (0 if src_shape is not None else 1):
            raise ShapeError(
                f"{where}: diff_src would have {counted(size, 'element')} on spatial axis {axis} (diff_dst "
                f"{dst[axis]}, kernel "
                f"{w.kernel[axis]}, stride {attrs.strides[axis]}, pads {begin[axis]} and {end[axis]}, output_padding "
                f"{attrs.output_padding[axis]}); diff_dst is too small for these weights"
            )
    check_sizes((batch, w.in_channels, *src), where, "diff_src")
    geometry = _geometry(where, attrs, (batch, w.in_channels, src), w, dst, pads, padding)
    return Resolved(tuple(shapes), w, data_shape(batch, w.in_channels, src, attrs.data_format), geometry)


def _check_src(
    given: _Data, derived: _Data, dst: Dims, w: WeightsShape, attrs: Attributes, pads: _Pads, where: str
) -> Ints:
    """Returns the output_padding that gives dst from src; raises ShapeError if none below a stride does."""
    if not (agree(given[0], derived[0]) and agree(given[1], derived[1])):
        raise ShapeError(
            f"{where}: src has batch {given[0]} and {counted(given[1], 'channel')}, but the other arguments say "
            f"batch {derived[0]} and {counted(derived[1], 'channel')}"
        )
    padding = []
    for axis, (i, o) in enumerate(zip(given[2], dst, strict=True)):
        s, op = attrs.strides[axis], attrs.output_padding[axis]
        size = _forward_size(i, w.kernel[axis], s, attrs.dilations[axis], pads[0][axis], pads[1][axis], op)
        surplus = 0 if size is None or o is None else o - size
        if not 0 <= surplus < s:
            raise ShapeError(
                f"{where}: src has {counted(i, 'element')} on spatial axis {axis}, which gives {size} in dst, but "
                "diff_dst has "
                f"{o}; check strides, pads and output_padding"
            )
        padding.append(op + surplus)
    return tuple(padding)


@resolver("ConvTransposeBackwardWeights", "ConvTransposeBackpropFilters", parse=_parse)
def _backward_weights(shapes: Sequence[Dims], attrs: Attributes, where: str) -> Resolved:
    """Infers diff_weights; without weights_shape from src and diff_dst, in oneDNN's grouped shape."""
    src, diff_dst = shapes[:2]
    rank = len(attrs.strides)
    batch, ic, spatial = _data(src, "src", rank, attrs.data_format, where)
    dst_batch, oc, dst = _data(diff_dst, "diff_dst", rank, attrs.data_format, where)
    if not agree(batch, dst_batch):
        raise ShapeError(f"{where}: the batch of src is {batch}, that of diff_dst {dst_batch}; they must be equal")
    shape = attrs.weights_shape
    if shape is None:
        shape = _derive_weights(ic, oc, spatial, dst, attrs, where)
    check_sizes(shape, where, "'weights_shape'")
    w = _read_weights(shape, attrs, where, ic, oc, "weights_shape")
    pads = _pads(attrs, w.kernel)
    padding = _check_src((batch, ic, spatial), (dst_batch, ic, spatial), dst, w, attrs, pads, where)
    data = batch if batch is not None else dst_batch, ic, spatial
    geometry = _geometry(where, attrs, data, w, dst, pads, padding)
    return Resolved(tuple(shapes), w, shape, geometry)


def _derive_weights(ic: Dim, oc: Dim, src: Dims, dst: Dims, attrs: Attributes, where: str) -> Dims:
    for channels, what in ((ic, "input"), (oc, "output")):
        if channels is not None and channels % attrs.groups:
            raise ShapeError(f"{where}: {what} channels {channels} are not a multiple of groups={attrs.groups}")
    if attrs.auto_pad.startswith("SAME"):
        raise InvalidArgumentError(
            f"{where}: 'weights_shape' is needed: with auto_pad={attrs.auto_pad!r} dst has the same size for many "
            f"kernel sizes"
        )
    begin, end = _pads(attrs, (None,) * len(attrs.strides))
    kernel: list[Dim] = []
    for axis, (i, o) in enumerate(zip(src, dst, strict=True)):
        if i is None or o is None:
            kernel.append(None)
            continue
        s, d, op = attrs.strides[axis], attrs.dilations[axis], attrs.output_padding[axis]
        span = o - s * (i - 1) - 1 + begin[axis] + end[axis] - op
        if span < 0 or span % d:
            raise ShapeError(
                f"{where}: 'weights_shape' cannot be derived: no kernel size leads from {i} to {o} elements on spatial "
                f"axis {axis} with stride {s}, dilation {d}, pads {begin[axis]} and {end[axis]}, output_padding {op}; "
                f"check these or pass weights_shape"
            )
        kernel.append(span // d + 1)
    per_group = None if oc is None else oc // attrs.groups
    return join_weights(ic, per_group, tuple(kernel), attrs.weights_format)
