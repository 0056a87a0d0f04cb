"""Shape rules of element-wise ops: the result has the inputs' shape, broadcast where there are several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from ..schema import kinds
from .common import Dim, agree, axis_of, broadcast, broadcast_onto, channels_of, expect, need_rank, text, unify
from .registry import Meta, Shape, rule


@rule(*kinds("same_shape"))
def same_shape(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    """Infers a unary op, or its gradient from src or dst and diff_dst."""
    data, *diff_dst = inputs
    for diff in diff_dst:
        data = Meta(unify(where, "the first input", data.shape, "diff_dst", diff.shape), data.dtype)
    return [data]


@rule("End", "Wildcard")
def sink(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    return []


def _joined(where: str, a: Shape, b: Shape, attrs: Mapping[str, Any]) -> Shape:
    if attrs.get("auto_broadcast") == "none":
        return unify(f"{where} (auto_broadcast none)", "src_0", a, "src_1", b)
    return broadcast(where, "src_0", a, "src_1", b)


@rule("Add", "Divide", "GreaterEqual", "Maximum", "Minimum", "Multiply", "SquaredDifference", "Subtract")
def binary(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    a, b = inputs
    return [Meta(_joined(where, a.shape, b.shape, attrs), a.dtype)]


@rule("Select")
def select(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    cond, a, b = inputs
    shape = _joined(where, a.shape, b.shape, attrs)
    if attrs.get("auto_broadcast") == "none":
        shape = unify(f"{where} (auto_broadcast none)", "the sources", shape, "cond", cond.shape)
    else:
        broadcast_onto(where, "cond", cond.shape, "the sources", shape)
    return [Meta(shape, a.dtype)]


@rule("BiasAdd")
def bias_add(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, bias = inputs
    need_rank(where, "src", src.shape, 2, 12, attrs["data_format"])
    channels = channels_of(src.shape, attrs["data_format"])
    expect(where, "bias", bias.shape, (channels,), f"src of shape {text(src.shape)} has {channels} channels")
    return [src]


@rule("BiasAddBackward")
def bias_add_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    diff_dst = inputs[0]
    need_rank(where, "diff_dst", diff_dst.shape, 2, 12, attrs["data_format"])
    return [Meta((channels_of(diff_dst.shape, attrs["data_format"]),), diff_dst.dtype)]


def _check_slope(src: Shape, slope: Shape, attrs: Mapping[str, Any], where: str) -> None:
    if len(slope) == 1 and len(src) > 1 and attrs.get("per_channel_broadcast", True):
        channels = channels_of(src, attrs["data_format"])
        why = f"src of shape {text(src)} has {channels} channels in {attrs['data_format']}"
        expect(where, "slope", slope, (channels,), why)
    else:
        broadcast_onto(where, "slope", slope, "src", src)


@rule("PReLU")
def prelu(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, slope = inputs
    _check_slope(src.shape, slope.shape, attrs, where)
    return [src]


@rule("PReLUBackward")
def prelu_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src, slope, diff_dst = inputs
    _check_slope(src.shape, slope.shape, attrs, where)
    return [Meta(unify(where, "src", src.shape, "diff_dst", diff_dst.shape), src.dtype), slope]


@rule("Dropout")
def dropout(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    src = inputs[0]
    for meta, name in zip(inputs[1:], ("seed", "offset", "probability"), strict=True):
        if meta.shape not in ((), (1,), (None,)):
            expect(where, name, meta.shape, (), "it is one number")
    return [src, Meta(src.shape, "u8")]


@rule("GenIndex")
def gen_index(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    axis_of(where, "axis", attrs["axis"], len(inputs[0].shape))
    return [Meta(inputs[0].shape, "s32")]


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
            f"{where}: group_shape = {tuple(group)} must have one positive size for each axis of src {text(src)}, "
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
