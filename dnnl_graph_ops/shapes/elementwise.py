"""Ops whose result has the shape of their inputs, alone or broadcast against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .common import (
    axis_of,
    broadcast,
    broadcast_onto,
    channel_axis,
    channels_of,
    expect,
    need_rank,
    text,
    unify,
)
from .registry import Meta, Shape, rule


@rule(
    "Abs",
    "Clamp",
    "Cos",
    "Elu",
    "Erf",
    "Exp",
    "GELU",
    "HardSigmoid",
    "HardSwish",
    "LeakyReLU",
    "Log",
    "Mish",
    "Pow",
    "ReLU",
    "Reciprocal",
    "Reorder",
    "Round",
    "Sigmoid",
    "Sin",
    "SoftPlus",
    "Sqrt",
    "Square",
    "Tanh",
    "TypeCast",
)
def unary(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    return [inputs[0]]


@rule(
    "AbsBackward",
    "ClampBackward",
    "EluBackward",
    "GELUBackward",
    "HardSigmoidBackward",
    "HardSwishBackward",
    "MishBackward",
    "ReLUBackward",
    "SigmoidBackward",
    "SoftPlusBackward",
    "SqrtBackward",
    "TanhBackward",
)
def unary_backward(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str) -> list[Meta]:
    data, diff_dst = inputs
    return [Meta(unify(where, "the first input", data.shape, "diff_dst", diff_dst.shape), data.dtype)]


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
        expect(where, "slope", slope, (src[channel_axis(len(src), attrs["data_format"])],), why)
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
