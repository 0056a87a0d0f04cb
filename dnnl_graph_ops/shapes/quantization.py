"""Quantization: numbers of scales and zero points against the shape that they scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from .common import Dim, agree, axis_of, expect, text
from .registry import Meta, Shape, rule


def _check_count(where: str, what: str, count: Dim, shape: Shape, attrs: Mapping[str, Any]) -> None:
    if attrs["qtype"] == "per_tensor":
        if not agree(count, 1):
            raise ShapeError(f"{where}: {count} {what} for qtype per_tensor; give 1, or qtype='per_channel'")
        return
    axis = axis_of(where, "axis", attrs["axis"], len(shape))
    if not agree(count, shape[axis]):
        raise ShapeError(
            f"{where}: {count} {what}, but axis {axis} of src {text(shape)} has {shape[axis]} channels; "
            "give one for each channel, or another axis"
        )


@rule("Quantize", "Dequantize")
def quantize(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, scales, zps = inputs[0], attrs["scales"], attrs.get("zps")
    _check_count(where, "scales", len(scales), src.shape, attrs)
    if zps is not None and len(zps) != len(scales):
        raise ShapeError(f"{where}: {len(scales)} scales and {len(zps)} zps; give one zero point for each scale")
    return [src]


def _check_groups(src: Shape, inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> None:
    group = attrs.get("group_shape")
    if group is None:
        raise InvalidArgumentError(f"{where}: qtype per_group needs group_shape, one size for each axis of src")
    if len(src) < 2 or len(group) != len(src) or any(size < 1 for size in group):
        raise ShapeError(
            f"{where}: group_shape = {tuple(group)} must have one positive size for each axis of src "
            f"{text(src)}, "
            "which needs at least 2"
        )
    for dim, size in zip(src, group, strict=True):
        if dim is not None and dim % size:
            raise ShapeError(f"{where}: group_shape = {tuple(group)} does not divide src {text(src)}: {dim} by {size}")
    wanted = tuple(None if dim is None else dim // size for dim, size in zip(src, group, strict=True))
    for meta, name in zip(inputs, ("scales", "zps"), strict=False):
        why = f"src {text(src)} in groups of {tuple(group)} has {text(wanted)} groups"
        expect(where, name, meta.shape, wanted, why)


@rule("DynamicQuantize", "DynamicDequantize")
def dynamic_quantize(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src = inputs[0]
    if attrs["qtype"] == "per_group":
        _check_groups(src.shape, inputs[1:], attrs, where)
        return [src]
    for meta, name in zip(inputs[1:], ("scales", "zps"), strict=False):
        if len(meta.shape) > 1:
            raise ShapeError(f"{where}: {name} has shape {text(meta.shape)}; it must have one axis")
        count = meta.shape[0] if meta.shape else 1
        if not (name == "zps" and count == 1):
            _check_count(where, name, count, src.shape, attrs)
    return [src]
