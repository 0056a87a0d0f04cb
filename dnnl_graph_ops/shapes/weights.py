"""Shapes of a ConvTranspose's weights: four orders of the axes, two grouped shapes."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ShapeError
from .attributes import Attributes, Dim, Dims, WeightsShape
from .common import agree


def channel_axes(weights_format: str, ndim: int) -> tuple[int, int]:
    """The axes called I and O of weights."""
    first = 0 if weights_format.endswith("X") else ndim - 2
    return (first, first + 1) if "IO" in weights_format else (first + 1, first)


def split_weights(shape: Dims, weights_format: str) -> tuple[Dim, Dim, Dims]:
    """(dim called I, dim called O, kernel) of a weights shape."""
    i, o = channel_axes(weights_format, len(shape))
    return shape[i], shape[o], shape[2:] if weights_format.endswith("X") else shape[:-2]


def join_weights(i: Dim, o: Dim, kernel: Dims, weights_format: str) -> Dims:
    channels = (i, o) if "IO" in weights_format else (o, i)
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
    library = agree(i, in_channels) and agree(_times(o, groups), out_channels)
    documented = agree(_times(i, groups), in_channels) and agree(o, out_channels)
    if library and (i is None or i % groups == 0):
        return WeightsShape(i, _times(o, groups), kernel)
    if documented and groups > 1 and (o is None or o % groups == 0):
        return WeightsShape(_times(i, groups), o, kernel, documented=True)
    raise ShapeError(_weights_mismatch(shape, attrs, in_channels, out_channels, where, name))


def _weights_mismatch(shape: Dims, attrs: Attributes, ic: Dim, oc: Dim, where: str, name: str) -> str:
    fmt, groups = attrs.weights_format, attrs.groups
    i, o, _ = split_weights(shape, fmt)
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
    return f"{where}: channels of '{name}' {shape} read as {fmt} do not match: {'; '.join(parts) or 'groups'}; {hint}"


def _times(a: Dim, factor: int) -> Dim:
    return None if a is None else a * factor
