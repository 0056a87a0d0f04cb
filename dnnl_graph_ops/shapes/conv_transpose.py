"""Geometry, validation and shape inference of the ConvTranspose family.

Every member of the family relates the same five things: src, weights, dst, the
spatial attributes and the groups. They are resolved once into a `Geometry`;
what the four operators take and return are readings of it.

Source: oneDNN Graph API pages ConvTranspose, ConvTransposeBackwardData,
ConvTransposeBackwardWeights; OpenVINO-style ConvTransposeBackpropFilters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from ..schema.arguments import INT32_MAX, int64, one_of
from .common import check_span
from .registry import Meta, check_sizes, rule

Dim = int | None
Dims = tuple[Dim, ...]

DATA_FORMATS = ("NXC", "NCX")
WEIGHTS_FORMATS = ("XOI", "IOX", "OIX", "XIO")
# iterable, but not values in an order
_NO_SEQUENCE = (str, bytes, Mapping, set, frozenset)
AUTO_PADS = ("none", "valid", "same_upper", "same_lower")


@dataclass(frozen=True, slots=True)
class Attributes:
    """The family's attributes, checked and expanded to one int per spatial axis."""

    strides: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    dilations: tuple[int, ...]
    output_padding: tuple[int, ...]
    auto_pad: str
    groups: int
    data_format: str
    weights_format: str


@dataclass(frozen=True, slots=True)
class Geometry:
    """One ConvTranspose problem with auto_pad resolved; sizes in elements, None where unknown.

    dst = strides * (src - 1) + dilations * (kernel - 1) + 1 - pads_begin - pads_end + output_padding
    """

    batch: Dim
    groups: int
    in_channels: Dim
    out_channels: Dim
    src: Dims
    kernel: Dims
    dst: Dims
    strides: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    dilations: tuple[int, ...]
    output_padding: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.strides)


@dataclass(frozen=True, slots=True)
class WeightsShape:
    """What a weights shape says: totals of the channels, the kernel, and which of two grouped shapes it is."""

    in_channels: Dim
    out_channels: Dim
    kernel: Dims
    documented: bool


def integer(value: object, name: str, where: str) -> int:
    """`value` as a Python int; TypeError for anything that is not an integer (bool included)."""
    return int64(value, f"{where}: '{name}'")


def integers(value: object, name: str, where: str) -> tuple[int, ...]:
    """A sequence or 1-D integer array as a tuple of ints."""
    if isinstance(value, _NO_SEQUENCE) or not hasattr(value, "__iter__"):
        raise TypeError(
            f"{where}: '{name}' must be a sequence of ints or a 1-D integer array, got {type(value).__name__}"
        )
    if getattr(value, "ndim", 1) != 1:
        raise ShapeError(f"{where}: '{name}' must have one axis, got an array of rank {value.ndim}")  # type: ignore[attr-defined]
    return tuple(integer(item, name, where) for item in value)


def per_axis(value: object, name: str, rank: int, minimum: int, where: str) -> tuple[int, ...]:
    """An int for all axes, or one int per spatial axis, each from `minimum` to 2^31 - 1."""
    many = hasattr(value, "__iter__") and not isinstance(value, _NO_SEQUENCE) and getattr(value, "ndim", 1) > 0
    values = integers(value, name, where) if many else (integer(value, name, where),) * rank
    if len(values) != rank:
        raise ShapeError(
            f"{where}: '{name}' has {len(values)} values {values}, but there are {rank} spatial axes; "
            f"pass one int, or one int per spatial axis"
        )
    for axis, item in enumerate(values):
        if item < minimum:
            raise InvalidArgumentError(
                f"{where}: '{name}' must be at least {minimum}, got {item} on spatial axis {axis}"
            )
        if item > INT32_MAX:
            raise InvalidArgumentError(
                f"{where}: '{name}' must be at most {INT32_MAX}, got {item} on spatial axis {axis}"
            )
    return values


def choice(value: object, name: str, allowed: Sequence[str], where: str) -> str:
    """One of `allowed`, in any case."""
    return one_of(value, f"{where}: '{name}'", allowed)


def attributes(rank: int, where: str, values: Mapping[str, Any]) -> Attributes:
    """Check the attributes of a problem with `rank` spatial axes; missing ones take the documented default."""
    if not 1 <= rank <= 3:
        raise ShapeError(f"{where}: needs 1 to 3 spatial axes (arrays of rank 3 to 5), got rank {rank + 2}")
    known = {field.name for field in fields(Attributes)}
    for name in values:
        if name not in known:
            raise InvalidArgumentError(f"{where}: unknown attribute {name!r}; known are {', '.join(sorted(known))}")
    get = values.get
    return Attributes(
        strides=per_axis(get("strides", 1), "strides", rank, 1, where),
        pads_begin=per_axis(get("pads_begin", 0), "pads_begin", rank, 0, where),
        pads_end=per_axis(get("pads_end", 0), "pads_end", rank, 0, where),
        dilations=per_axis(get("dilations", 1), "dilations", rank, 1, where),
        output_padding=per_axis(get("output_padding", 0), "output_padding", rank, 0, where),
        auto_pad=choice(get("auto_pad", "none"), "auto_pad", AUTO_PADS, where),
        groups=_at_least_one(integer(get("groups", 1), "groups", where), "groups", where),
        data_format=choice(get("data_format", "NXC"), "data_format", DATA_FORMATS, where),
        weights_format=choice(get("weights_format", "XOI"), "weights_format", WEIGHTS_FORMATS, where),
    )


def _at_least_one(value: int, name: str, where: str) -> int:
    if value < 1:
        raise InvalidArgumentError(f"{where}: '{name}' must be at least 1, got {value}")
    return value


def split_data(shape: Sequence[Dim], data_format: str) -> tuple[Dim, Dim, Dims]:
    """(batch, channels, spatial) of an activation shape."""
    shape = tuple(shape)
    if data_format == "NXC":
        return shape[0], shape[-1], shape[1:-1]
    return shape[0], shape[1], shape[2:]


def join_data(batch: Dim, channels: Dim, spatial: Dims, data_format: str) -> Dims:
    return (batch, *spatial, channels) if data_format == "NXC" else (batch, channels, *spatial)


def split_weights(shape: Sequence[Dim], weights_format: str) -> tuple[Dim, Dim, Dims]:
    """(dim called I, dim called O, kernel) of a weights shape."""
    shape = tuple(shape)
    first, second = (shape[0], shape[1]) if weights_format.endswith("X") else (shape[-2], shape[-1])
    kernel = shape[2:] if weights_format.endswith("X") else shape[:-2]
    letters = weights_format.replace("X", "")
    return (first, second, kernel) if letters == "IO" else (second, first, kernel)


def join_weights(i: Dim, o: Dim, kernel: Dims, weights_format: str) -> Dims:
    channels = (i, o) if weights_format.replace("X", "") == "IO" else (o, i)
    return (*channels, *kernel) if weights_format.endswith("X") else (*kernel, *channels)


def read_weights(
    shape: Sequence[Dim],
    attrs: Attributes,
    where: str,
    *,
    in_channels: Dim = None,
    out_channels: Dim = None,
    name: str = "weights",
) -> WeightsShape:
    """Read a weights shape in the library's grouped form or the documented one; the channels tell which."""
    fmt, groups = attrs.weights_format, attrs.groups
    shape = tuple(shape)
    if len(shape) != len(attrs.strides) + 2:
        raise ShapeError(
            f"{where}: '{name}' has rank {len(shape)} {shape}, but the data has {len(attrs.strides)} spatial axes; "
            f"{fmt} weights need rank {len(attrs.strides) + 2}"
        )
    i, o, kernel = split_weights(shape, fmt)
    for axis, k in enumerate(kernel):
        if k is not None and k < 1:
            raise ShapeError(f"{where}: kernel size of '{name}' must be at least 1, got {k} on spatial axis {axis}")
    for total, what in ((in_channels, "in"), (out_channels, "out")):
        if total is not None and total % groups:
            raise ShapeError(f"{where}: {what}put channels {total} are not a multiple of groups={groups}")
    # (IC, OC/g) is the library's grouped shape, (IC/g, OC) the one its pages print
    library = _agrees(i, in_channels) and _agrees(_times(o, groups), out_channels)
    documented = _agrees(_times(i, groups), in_channels) and _agrees(o, out_channels)
    if library and (i is None or i % groups == 0):
        return WeightsShape(i, _times(o, groups), kernel, False)
    if documented and groups > 1 and (o is None or o % groups == 0):
        return WeightsShape(_times(i, groups), o, kernel, True)
    raise ShapeError(_weights_mismatch(shape, fmt, groups, i, o, in_channels, out_channels, where, name))


def _weights_mismatch(
    shape: Dims, fmt: str, groups: int, i: Dim, o: Dim, ic: Dim, oc: Dim, where: str, name: str
) -> str:
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
    fitting = [other for other in WEIGHTS_FORMATS if other != fmt and _fits(shape, other, groups, ic, oc)]
    if fitting and ic is not None:
        best, whose = ("IOX", ", PyTorch's order") if "IOX" in fitting else (fitting[0], "")
        hint = f"as {' or '.join(fitting)} they do: give weights_format={best!r}{whose}; {hint}"
    return f"{where}: channels of '{name}' {shape} read as {fmt} do not match: {'; '.join(parts) or 'groups'}; {hint}"


def _fits(shape: Dims, fmt: str, groups: int, ic: Dim, oc: Dim) -> bool:
    i, o, _ = split_weights(shape, fmt)
    return _agrees(i, ic) and _agrees(_times(o, groups), oc)


def _agrees(a: Dim, b: Dim) -> bool:
    return a is None or b is None or a == b


def _times(a: Dim, factor: int) -> Dim:
    return None if a is None else a * factor


def _pads(attrs: Attributes, kernel: Dims) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Explicit pads; SAME_* pads so that dst = strides * src wherever the dilated kernel covers the stride."""
    if attrs.auto_pad == "none":
        return attrs.pads_begin, attrs.pads_end
    if attrs.auto_pad == "valid":
        zeros = (0,) * len(attrs.strides)
        return zeros, zeros
    begin, end = [], []
    for k, s, d in zip(kernel, attrs.strides, attrs.dilations, strict=True):
        # an unknown kernel leaves dst unknown too; the pads are then never read
        total = 0 if k is None else max(0, (k - 1) * d + 1 - s)
        half, rest = total // 2, total - total // 2
        begin.append(half if attrs.auto_pad == "same_upper" else rest)
        end.append(rest if attrs.auto_pad == "same_upper" else half)
    return tuple(begin), tuple(end)


def _data(shape: Sequence[Dim], name: str, rank: int | None, data_format: str, where: str) -> tuple[Dim, Dim, Dims]:
    if len(shape) < 3 or len(shape) > 5:
        raise ShapeError(
            f"{where}: '{name}' must have rank 3 to 5 ({data_format}), got rank {len(shape)} {tuple(shape)}"
        )
    if rank is not None and len(shape) != rank + 2:
        raise ShapeError(f"{where}: '{name}' has rank {len(shape)} {tuple(shape)}, expected rank {rank + 2}")
    check_sizes(tuple(shape), where, f"'{name}'")
    return split_data(shape, data_format)


def _forward_size(i: Dim, k: Dim, s: int, d: int, pb: int, pe: int, op: int) -> Dim:
    return None if i is None or k is None else s * (i - 1) + d * (k - 1) + 1 - pb - pe + op


def forward(
    src: Sequence[Dim],
    weights: Sequence[Dim],
    attrs: Attributes,
    where: str,
    *,
    bias: Sequence[Dim] | None = None,
) -> tuple[Geometry, WeightsShape]:
    """Resolve a forward problem from the shapes of src, weights and bias."""
    batch, channels, spatial = _data(src, "src", len(attrs.strides), attrs.data_format, where)
    w = read_weights(weights, attrs, where, in_channels=channels)
    check_sizes(tuple(weights), where, "'weights'")
    begin, end = _pads(attrs, w.kernel)
    dst = tuple(map(_forward_size, spatial, w.kernel, attrs.strides, attrs.dilations, begin, end, attrs.output_padding))
    for axis, size in enumerate(dst):
        if size is not None and size < 0:
            raise ShapeError(
                f"{where}: dst would have {size} elements on spatial axis {axis} (src {spatial[axis]}, kernel "
                f"{w.kernel[axis]}, stride {attrs.strides[axis]}, pads {begin[axis]} and {end[axis]}); "
                f"lower the pads or raise output_padding"
            )
    channels = channels if channels is not None else w.in_channels
    geometry = _geometry(attrs, batch, channels, w, spatial, dst, begin, end, where=where)
    check_sizes((batch, w.out_channels, *dst), where, "dst")
    if bias is not None:
        check_bias(bias, w.out_channels, where)
    return geometry, w


def check_bias(bias: Sequence[Dim], channels: Dim, where: str) -> None:
    if len(bias) != 1:
        raise ShapeError(f"{where}: 'bias' must have rank 1 (one value per output channel), got shape {tuple(bias)}")
    if not _agrees(bias[0], channels):
        raise ShapeError(f"{where}: 'bias' has {bias[0]} values, but dst has {channels} channels")


def _geometry(
    attrs: Attributes,
    batch: Dim,
    in_channels: Dim,
    w: WeightsShape,
    src: Dims,
    dst: Dims,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    output_padding: tuple[int, ...] | None = None,
    *,
    where: str,
) -> Geometry:
    """The geometry, if the library's kernels can count it."""
    for size in (batch, in_channels, w.out_channels):
        if size is not None and size > INT32_MAX:
            raise ShapeError(f"{where}: {size} images or channels; at most {INT32_MAX} are possible")
    padding = attrs.output_padding if output_padding is None else output_padding
    for axis, (i, k, o) in enumerate(zip(src, w.kernel, dst, strict=True)):
        s, d = attrs.strides[axis], attrs.dilations[axis]
        plain = _forward_size(i or 1, k or 1, s, d, 0, 0, padding[axis]) or 0
        # the library adds a padding and the stride as it checks them
        check_span(where, axis, max(plain, o or 0, begin[axis] + s, end[axis] + s))
    return Geometry(
        batch=batch,
        groups=attrs.groups,
        in_channels=in_channels,
        out_channels=w.out_channels,
        src=src,
        kernel=w.kernel,
        dst=dst,
        strides=attrs.strides,
        pads_begin=begin,
        pads_end=end,
        dilations=attrs.dilations,
        output_padding=padding,
    )


def _backward_sizes(
    dst: Dims, kernel: Dims, attrs: Attributes, begin: tuple[int, ...], end: tuple[int, ...]
) -> tuple[Dims, tuple[int, ...]]:
    """src sizes and the output_padding that makes the forward formula exact.

    A dst that is larger than the formula by less than a stride counts as further output_padding, as the library
    counts it.
    """
    src: list[Dim] = []
    padding = []
    for o, k, s, d, pb, pe, op in zip(
        dst, kernel, attrs.strides, attrs.dilations, begin, end, attrs.output_padding, strict=True
    ):
        if o is None or k is None:
            src.append(None)
            padding.append(op)
            continue
        span = o + pb + pe - op - (d * (k - 1) + 1)
        src.append(span // s + 1)
        padding.append(op + span % s)
    return tuple(src), tuple(padding)


def backward_data(
    diff_dst: Sequence[Dim],
    weights: Sequence[Dim],
    attrs: Attributes,
    where: str,
    *,
    src_shape: Sequence[Dim] | None = None,
) -> tuple[Geometry, WeightsShape]:
    """Resolve a backward-data problem from diff_dst and weights; src_shape, if given, must agree."""
    batch, channels, dst = _data(diff_dst, "diff_dst", len(attrs.strides), attrs.data_format, where)
    w = read_weights(weights, attrs, where, out_channels=channels)
    check_sizes(tuple(weights), where, "'weights'")
    begin, end = _pads(attrs, w.kernel)
    src, padding = _backward_sizes(dst, w.kernel, attrs, begin, end)
    if src_shape is not None:
        given = _data(src_shape, "src_shape", len(attrs.strides), attrs.data_format, where)
        padding = _check_src(given, (batch, w.in_channels, src), dst, w, attrs, begin, end, where)
        src = given[2]
    for axis, size in enumerate(src):
        if size is not None and size < (0 if src_shape is not None else 1):
            raise ShapeError(
                f"{where}: diff_src would have {size} elements on spatial axis {axis} (diff_dst {dst[axis]}, kernel "
                f"{w.kernel[axis]}, stride {attrs.strides[axis]}, pads {begin[axis]} and {end[axis]}, output_padding "
                f"{attrs.output_padding[axis]}); diff_dst is too small for these weights"
            )
    check_sizes((batch, w.in_channels, *src), where, "diff_src")
    return _geometry(attrs, batch, w.in_channels, w, src, dst, begin, end, padding, where=where), w


def _check_src(
    given: tuple[Dim, Dim, Dims],
    derived: tuple[Dim, Dim, Dims],
    dst: Dims,
    w: WeightsShape,
    attrs: Attributes,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    where: str,
) -> tuple[int, ...]:
    """output_padding that leads from the given src to dst; ShapeError when none below a stride does."""
    if not (_agrees(given[0], derived[0]) and _agrees(given[1], derived[1])):
        raise ShapeError(
            f"{where}: src has batch {given[0]} and {given[1]} channels, but the other arguments say "
            f"batch {derived[0]} and {derived[1]} channels"
        )
    padding = []
    for axis, (i, o) in enumerate(zip(given[2], dst, strict=True)):
        s, op = attrs.strides[axis], attrs.output_padding[axis]
        size = _forward_size(i, w.kernel[axis], s, attrs.dilations[axis], begin[axis], end[axis], op)
        surplus = 0 if size is None or o is None else o - size
        if not 0 <= surplus < s:
            raise ShapeError(
                f"{where}: src has {i} elements on spatial axis {axis}, which gives {size} in dst, but diff_dst has "
                f"{o}; check strides, pads and output_padding"
            )
        padding.append(op + surplus)
    return tuple(padding)


def backward_weights(
    src: Sequence[Dim],
    diff_dst: Sequence[Dim],
    weights_shape: Sequence[Dim] | None,
    attrs: Attributes,
    where: str,
    *,
    name: str = "weights_shape",
) -> tuple[Geometry, WeightsShape]:
    """Resolve a backward-weights problem; without weights_shape it is derived from src and diff_dst."""
    rank = len(attrs.strides)
    batch, ic, spatial = _data(src, "src", rank, attrs.data_format, where)
    dst_batch, oc, dst = _data(diff_dst, "diff_dst", rank, attrs.data_format, where)
    if not _agrees(batch, dst_batch):
        raise ShapeError(f"{where}: the batch of src is {batch}, that of diff_dst {dst_batch}; they must be equal")
    if weights_shape is None:
        weights_shape = _derive_weights(ic, oc, spatial, dst, attrs, where, name)
    check_sizes(tuple(weights_shape), where, f"'{name}'")
    w = read_weights(weights_shape, attrs, where, in_channels=ic, out_channels=oc, name=name)
    begin, end = _pads(attrs, w.kernel)
    padding = _check_src((batch, ic, spatial), (dst_batch, ic, spatial), dst, w, attrs, begin, end, where)
    batch = batch if batch is not None else dst_batch
    return _geometry(attrs, batch, ic, w, spatial, dst, begin, end, padding, where=where), w


def _derive_weights(ic: Dim, oc: Dim, src: Dims, dst: Dims, attrs: Attributes, where: str, name: str) -> Dims:
    for channels, what in ((ic, "input"), (oc, "output")):
        if channels is not None and channels % attrs.groups:
            raise ShapeError(f"{where}: {what} channels {channels} are not a multiple of groups={attrs.groups}")
    if attrs.auto_pad.startswith("same"):
        raise InvalidArgumentError(
            f"{where}: '{name}' is needed: with auto_pad={attrs.auto_pad!r} dst has the same size for many kernel sizes"
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
                f"{where}: '{name}' cannot be derived: no kernel size leads from {i} to {o} elements on spatial axis "
                f"{axis} with stride {s}, dilation {d}, pads {begin[axis]} and {end[axis]}, output_padding {op}; "
                f"check these or pass {name}"
            )
        kernel.append(span // d + 1)
    per_group = None if oc is None else oc // attrs.groups
    return join_weights(ic, per_group, tuple(kernel), attrs.weights_format)


def family_attributes(attrs: Mapping[str, Any], rank: int, where: str) -> Attributes:
    """The family's own attributes out of a node's, which may hold weights_shape or src_shape besides."""
    known = {field.name for field in fields(Attributes)}
    return attributes(rank, where, {k: v for k, v in attrs.items() if k in known})


@rule("ConvTranspose")
def _infer_forward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    checked = family_attributes(attrs, len(inputs[0].shape) - 2, where)
    bias = inputs[2].shape if len(inputs) > 2 else None
    g, w = forward(inputs[0].shape, inputs[1].shape, checked, where, bias=bias)
    return [Meta(join_data(g.batch, w.out_channels, g.dst, checked.data_format), inputs[0].dtype)]


@rule("ConvTransposeBackwardData")
def _infer_backward_data(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    checked = family_attributes(attrs, len(inputs[0].shape) - 2, where)
    g, _ = backward_data(inputs[0].shape, inputs[1].shape, checked, where, src_shape=attrs.get("src_shape"))
    return [Meta(join_data(g.batch, g.in_channels, g.src, checked.data_format), inputs[0].dtype)]


@rule("ConvTransposeBackwardWeights", "ConvTransposeBackpropFilters")
def _infer_backward_weights(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    checked = family_attributes(attrs, len(inputs[0].shape) - 2, where)
    shape = attrs.get("weights_shape")
    g, w = backward_weights(inputs[0].shape, inputs[1].shape, shape, checked, where)
    if shape is None:
        per_group = None if w.out_channels is None else w.out_channels // g.groups
        shape = join_weights(w.in_channels, per_group, w.kernel, checked.weights_format)
    return [Meta(tuple(shape), inputs[0].dtype)]
