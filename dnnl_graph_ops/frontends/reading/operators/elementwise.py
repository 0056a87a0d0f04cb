"""Builds activations and arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .... import dtypes
from ....errors import ShapeError, UnsupportedError
from ....graph import Value
from ....shapes import Meta
from ....shapes.common import broadcast
from ..faults import NeedsSizes
from ..node import Operand
from ..step import Result, Step
from ..table import ANY, first, integer, number, rule, text
from ..types import NUMPY, type_name
from .gelu import gelu_source

_F32_MAX = float(np.finfo(np.float32).max)

# operators with the same function and attribute names
_SAME: dict[str, tuple[str, dict[str, Any]]] = {
    **{kind: (kind, {}) for kind in ("Abs", "Cos", "Erf", "Exp", "HardSwish", "Log", "Mish")},
    **{kind: (kind, {}) for kind in ("Reciprocal", "Round", "Sigmoid", "Sin", "Sqrt", "Tanh")},
    "Elu": ("Elu", {"alpha": number(1.0)}),
    "HardSigmoid": ("HardSigmoid", {"alpha": number(0.2), "beta": number(0.5)}),
    "LeakyRelu": ("LeakyReLU", {"alpha": number(0.01)}),
    "Relu": ("ReLU", {}),
    "Softplus": ("SoftPlus", {}),
}
_FIXED: dict[str, dict[str, Any]] = {"SoftPlus": {"beta": 1.0}}


def _same(step: Step) -> Value:
    kind, attrs = _SAME[step.node.op_type]
    given: dict[str, Any] = {name: float(step.attr(name)) for name in attrs}
    return step.op(kind, step.value(0), **given, **_FIXED.get(kind, {}))


for _op_type, (_, _attrs) in _SAME.items():
    rule(_op_type, **_attrs)(_same)


@rule("Selu", alpha=number(1.67326319217681884765625), gamma=number(1.05070102214813232421875))
def selu(step: Step) -> Value:
    inner = step.op("Elu", step.value(0), alpha=float(step.attr("alpha")))
    return step.op("Multiply", inner, step.full(step.attr("gamma"), inner))


@rule("Celu", alpha=number(1.0))
def celu(step: Step) -> Value:
    src, alpha = step.value(0), float(step.attr("alpha"))
    if not alpha > 0:
        raise UnsupportedError(f"{step.where}: alpha={alpha}, only above 0")
    if alpha == 1.0:
        return step.op("Elu", src, alpha=1.0)
    inner = step.op("Elu", step.op("Divide", src, step.full(alpha, src)), alpha=1.0)
    return step.op("Multiply", inner, step.full(alpha, inner))


@rule("Gelu", approximate=text("none", "none", "tanh"))
def gelu(step: Step) -> Value:
    mode = "gelu_erf" if step.attr("approximate") == "none" else "gelu_tanh"
    return step.op("GELU", step.value(0), mode=mode)


@rule("Softsign")
def softsign(step: Step) -> Value:
    src = step.value(0)
    size = step.op("Abs", src)
    return step.op("Divide", src, step.op("Add", size, step.full(1.0, size)))


@rule("Clip", inputs=(1, 3), min=number(None), max=number(None))
def clip(step: Step) -> Value:
    limits = []
    for i, (name, without) in enumerate((("min", -_F32_MAX), ("max", _F32_MAX)), 1):
        given = step.scalar(i, name) if step.has(i) else step.attr(name)
        limits.append(without if given is None else min(max(float(given), -_F32_MAX), _F32_MAX))
    # ONNX: min(max, max(x, min)), which is max if min > max
    return step.op("Clamp", step.value(0), min=min(limits), max=limits[1])


@rule("PRelu", inputs=2)
def prelu(step: Step) -> Value:
    src, slope = step.value(0), step.operand(1)
    if not isinstance(slope, Value):
        if slope.size == 1:
            return step.op("LeakyReLU", src, alpha=float(slope.reshape(())))
        if step.node.opset < 7 and slope.ndim == 1:
            # one per channel
            slope = slope.reshape(-1, *(1,) * (src.ndim - 2))
        per_channel = slope.ndim == src.ndim - 1 and slope.shape[1:] == (1,) * (slope.ndim - 1)
        if per_channel and 3 <= src.ndim <= 5:
            return step.op("PReLU", src, slope.reshape(-1), data_format="NCX", per_channel_broadcast=True)
    zero = step.full(0.0, src)
    below = step.op("Multiply", step.op("Minimum", src, zero), _aligned(slope, src))
    return step.op("Add", step.op("ReLU", src), below)


BINARY = {"Add": "Add", "Div": "Divide", "Max": "Maximum", "Min": "Minimum", "Mul": "Multiply", "Sub": "Subtract"}


def _aligned(operand: Operand, other: Operand) -> Operand:
    """Returns a known 0-d array with as many axes as the other operand."""
    if isinstance(operand, Value) or operand.ndim or not other.shape:
        return operand
    return operand.reshape((1,) * len(other.shape))


def _pair(step: Step, kind: str, a: Operand, b: Operand) -> Value:
    return step.op(kind, _shared(step, a, b), _shared(step, b, a))


def _shared(step: Step, operand: Operand, other: Operand) -> Operand:
    """Returns a constant that is stored once for all nodes that read it."""
    found = _aligned(operand, other)
    if found is operand and not isinstance(found, Value):
        index = next((i for i in range(step.count) if step.operand(i) is operand), None)
        return found if index is None else step.value(index)
    return found


def _joined(step: Step) -> Meta:
    shape = step.meta(0).shape
    for i in range(1, step.count):
        shape = broadcast(step.where, "one operand", shape, "another", step.meta(i).shape)
    return Meta(shape, step.meta(step.count - 1).dtype)


@rule("Add", "Sub", "Mul", "Div", inputs=2, late=_joined)
def binary(step: Step) -> Value:
    made = _pair(step, BINARY[step.node.op_type], step.operand(0), step.operand(1))
    source = gelu_source(step.operand(0), step.operand(1)) if step.node.op_type == "Mul" else None
    if source is not None and source.shape == made.shape:
        # the operands have no readers now
        return step.op("GELU", source, mode="gelu_erf")
    return made


@rule("GreaterOrEqual", "LessOrEqual", inputs=2)
def at_least(step: Step) -> Value:
    pair = step.operand(0), step.operand(1)
    return _pair(step, "GreaterEqual", *(pair if step.node.op_type == "GreaterOrEqual" else pair[::-1]))


@rule("Greater", "Less", inputs=2)
def beyond(step: Step) -> Value:
    """Builds Greater and Less of a known number: >= its next larger value, or <= its next smaller one."""
    src, limit = step.operand(0), step.operand(1)
    upwards = step.node.op_type == "Greater"
    if isinstance(limit, Value) and limit.constant is None:
        src, limit, upwards = limit, src, not upwards
    if isinstance(limit, Value):
        limit = step.array(0 if limit is step.operand(0) else 1, "one side")
    if not isinstance(src, Value) or limit.dtype.kind not in "fV" or not np.isfinite(limit.astype(np.float32)).all():
        raise UnsupportedError(f"{step.where}: of {src.dtype} and {limit.dtype}; of a value and finite constants only")
    step.spend(limit)
    following = np.nextafter(limit, np.asarray(np.inf if upwards else -np.inf, limit.dtype))
    pair = (src, _aligned(following, src)) if upwards else (_aligned(following, src), src)
    return step.op("GreaterEqual", *pair)


@rule("Max", "Min", "Sum", "Mean", inputs=(1, ANY), late=_joined)
def variadic(step: Step) -> Operand:
    kind = BINARY.get(step.node.op_type, "Add")
    result = step.operand(0)
    for i in range(1, step.count):
        result = _pair(step, kind, result, step.operand(i))
    if step.node.op_type == "Mean" and step.count > 1 and isinstance(result, Value):
        result = step.op("Multiply", result, step.full(1 / step.count, result))
    return result


@rule("Neg")
def negative(step: Step) -> Value:
    src = step.value(0)
    return step.op("Multiply", src, step.full(-1.0, src))


def _raised(step: Step) -> Meta:
    src, rank = step.meta(0), len(step.meta(1).shape)
    return Meta(((1,) * (rank - len(src.shape)) + src.shape), src.dtype)


@rule("Pow", inputs=2, late=_raised)
def power(step: Step) -> Operand:
    """Pow by one number, whose tensor may have more axes than the base."""
    exponent = step.scalar(1, "the exponent")
    src = step.reshape(step.value(0), _raised(step).shape)
    if exponent == 1.0:
        return src
    kind = {2.0: "Square", 0.5: "Sqrt", -1.0: "Reciprocal"}.get(exponent)
    return step.op("Pow", src, beta=exponent) if kind is None else step.op(kind, src)


@rule("Where", inputs=3, late=_joined)
def where(step: Step) -> Value:
    cond, *sources = (step.value(i) for i in range(3))
    if None in cond.shape or (None in (*sources[0].shape, *sources[1].shape) and cond.shape.count(1) < cond.ndim):
        raise NeedsSizes(f"{step.where}: a condition of {cond.shape}, which may be larger than both sources")
    try:
        return step.op("Select", cond, *sources)
    except ShapeError as error:
        # the sources broadcast to the condition
        raise UnsupportedError(f"{step.where}: {error}") from None


@rule("Cast", to=integer(None), saturate=integer(1))
def cast(step: Step) -> Operand:
    src, code = step.value(0), step.attr("to")
    target = dtypes.canonical(np.dtype(NUMPY[code])) if code in NUMPY and NUMPY[code] in _CASTABLE else None
    if target is None:
        raise UnsupportedError(f"{step.where}: from {src.dtype} to {type_name(code)}")
    if src.dtype == target:
        return src
    if {src.dtype, target} == {"f16", "bf16"}:
        src = step.op("TypeCast", src, dtype="f32")
    return step.op("TypeCast", src, dtype=target)


_CASTABLE = {NUMPY[1], NUMPY[10], NUMPY[16]}


@rule("Identity")
def identity(step: Step) -> Operand:
    return step.operand(0)


@rule("Dropout", inputs=(1, 3), ratio=number(0.5), seed=integer(None), is_test=integer(1, 1))
def dropout(step: Step) -> Result:
    if step.has(2) and bool(np.any(step.array(2, "training_mode"))):
        raise UnsupportedError(f"{step.where}: training_mode; export the model for inference")
    return step.operand(0)


@rule("Softmax", "LogSoftmax", late=first, axis=integer(None))
def softmax(step: Step) -> Value:
    src = step.value(0)
    if not src.ndim:
        raise ShapeError(f"{step.where}: a tensor without axes")
    kind = "SoftMax" if step.node.op_type == "Softmax" else "LogSoftmax"
    flat = step.node.opset < 13
    given = step.attr("axis")
    axis = step.axis((1 if flat else -1) if given is None else given, src.ndim)
    if not flat or axis == src.ndim - 1:
        return step.op(kind, src, axis=axis)
    # before opset 13 over all axes from this one on
    sizes = step.sizes(src.shape, "a tensor")
    dims = [math.prod(sizes[:axis]), math.prod(sizes[axis:])]
    return step.reshape(step.op(kind, step.reshape(src, dims), axis=1), src.shape)
