"""Activations, arithmetic, choices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import UnsupportedError
from ...graph import Value
from ..reading.node import Tensor
from .table import Call, aten

_FLOATS = ("f32", "bf16", "f16")


def _unary(call: Call, self: Any, kind: str, **_: Any) -> Any:
    return call.std(kind, call.cast(self, call.meta.dtype))


for _name, _kind in {
    "abs": "Abs", "cos": "Cos", "erf": "Erf", "exp": "Exp", "hardswish": "HardSwish", "log": "Log", "mish": "Mish",
    "neg": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round", "selu": "Selu", "sigmoid": "Sigmoid",
    "sin": "Sin", "softsign": "Softsign", "sqrt": "Sqrt", "tanh": "Tanh",
}.items():  # fmt: skip
    aten(_name, kind=_kind)(_unary)


@aten("silu")
def silu(call: Call, self: Any, **_: Any) -> Any:
    return call.std("Mul", self, call.std("Sigmoid", self))


@aten("rsqrt")
def rsqrt(call: Call, self: Any, **_: Any) -> Any:
    return call.std("Reciprocal", call.std("Sqrt", self))


@aten("square")
def square(call: Call, self: Any, **_: Any) -> Any:
    return call.std("Pow", self, 2.0)


@aten("log_sigmoid_forward", "log_sigmoid")
def log_sigmoid(call: Call, self: Any, **_: Any) -> Any:
    return call.std("Neg", call.std("Softplus", call.std("Neg", self)))


@aten("gelu")
def gelu(call: Call, self: Any, approximate: str, **_: Any) -> Any:
    return call.std("Gelu", self, approximate=approximate)


@aten("elu", "celu")
def elu(call: Call, self: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0, **_: Any) -> Any:
    if call.node.op_type.startswith("aten.celu"):
        input_scale = 1 / alpha
    inner = self if input_scale == 1 else call.std("Mul", self, call.cast(input_scale, self.dtype))
    made = call.std("Elu", inner, alpha=float(alpha))
    if input_scale != 1:
        # what lies above zero is not scaled
        lower = call.std("Min", made, call.cast(0.0, self.dtype))
        made = call.std("Add", call.std("Relu", self), lower)
    return made if scale == 1 else call.std("Mul", made, call.cast(scale, self.dtype))


@aten("leaky_relu")
def leaky_relu(call: Call, self: Any, negative_slope: float, **_: Any) -> Any:
    return call.std("LeakyRelu", self, alpha=float(negative_slope))


@aten("hardsigmoid")
def hardsigmoid(call: Call, self: Any, **_: Any) -> Any:
    return call.std("HardSigmoid", self, alpha=1 / 6, beta=0.5)


@aten("relu6", low=0.0, high=6.0)
@aten("hardtanh", low=None, high=None)
@aten("clamp", low=None, high=None)
@aten("clamp_min", low=None, high=None)
@aten("clamp_max", low=None, high=None)
def clamp(call: Call, self: Any, low: Any, high: Any, **given: Any) -> Any:
    low, high = given.get("min", given.get("min_val", low)), given.get("max", given.get("max_val", high))
    dtype = call.meta.dtype
    if low is None or high is None:
        # Clip would hold infinite numbers at the largest of the type
        kind, end = ("Max", low) if high is None else ("Min", high)
        return call.std(kind, self, call.cast(float(end), dtype))
    return call.std("Clip", self, call.cast(float(low), dtype), call.cast(float(high), dtype))


@aten("softplus")
def softplus(call: Call, self: Any, beta: float, threshold: float, **_: Any) -> Any:
    if threshold < 15:
        # beyond it the argument itself is given, which a larger threshold does not show in f32
        raise UnsupportedError(f"{call.where}: threshold={threshold}")
    if beta == 1:
        return call.std("Softplus", self)
    made = call.std("Softplus", call.std("Mul", self, call.cast(float(beta), self.dtype)))
    return call.std("Mul", made, call.cast(1 / beta, self.dtype))


@aten("prelu", "_prelu_kernel")
def prelu(call: Call, self: Any, weight: Any, **_: Any) -> Any:
    """A one-dimensional weight belongs to the channels."""
    slope, behind = call.known_array(weight), (1,) * (len(self.shape) - 2)
    if slope is None:
        return call.std("PRelu", self, call.reshaped(weight, (*weight.shape, *behind)) if weight.ndim == 1 else weight)
    return call.std("PRelu", self, slope.reshape(-1, *behind) if slope.ndim == 1 else slope)


@aten("glu")
def glu(call: Call, self: Any, dim: int, **_: Any) -> Any:
    halves = call.meta.shape[dim]
    if halves is None:
        raise UnsupportedError(f"{call.where}: of an axis of unknown size")
    left, right = call.std("Split", self, [halves, halves], count=2, axis=dim)
    return call.std("Mul", left, call.std("Sigmoid", right))


def _operand(call: Call, item: Any, dtype: str) -> Any:
    return call.cast(item, dtype)


@aten("add.Tensor", "add.Scalar", kind="Add")
@aten("sub.Tensor", "sub.Scalar", kind="Sub")
@aten("rsub.Tensor", "rsub.Scalar", kind="rsub")
@aten("mul.Tensor", "mul.Scalar", "multiply.Tensor", kind="Mul")
@aten("div.Tensor", "div.Scalar", "true_divide.Tensor", "divide.Tensor", kind="Div")
@aten("maximum", "max.other", kind="Max")
@aten("minimum", "min.other", kind="Min")
def binary(call: Call, self: Any, other: Any, kind: str, alpha: float = 1, **_: Any) -> Any:
    dtype = call.meta.dtype
    if dtype not in _FLOATS:
        raise UnsupportedError(f"{call.where}: of {dtype}")
    a, b = (call.cast(item, dtype) for item in (self, other))
    if kind == "rsub":
        a, b, kind = b, a, "Sub"
        if alpha != 1:
            b = call.std("Mul", b, call.cast(alpha, dtype))
    elif alpha != 1:
        b = call.std("Mul", b, call.cast(alpha, dtype))
    if kind == "Div" and isinstance(b, np.ndarray) and b.ndim == 0 and dtype == "f32" and _is_exact(float(b)):
        kind, b = "Mul", np.asarray(1 / b, b.dtype)
    return call.std(kind, a, b)


def _is_exact(number: float) -> bool:
    """Whether its reciprocal is: it is a power of two."""
    return number != 0 and math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5


@aten("pow.Tensor_Scalar")
def power(call: Call, self: Any, exponent: float, **_: Any) -> Any:
    if exponent == 3:
        return call.std("Mul", call.std("Mul", self, self), self)
    if exponent == -0.5:
        return rsqrt(call, self)
    if exponent not in (2, 1, 0.5, -1):
        raise UnsupportedError(f"{call.where}: to the power of {exponent}")
    return call.std("Pow", self, float(exponent))


@aten("addcmul")
def addcmul(call: Call, self: Any, tensor1: Any, tensor2: Any, value: float = 1, **_: Any) -> Any:
    product = call.std("Mul", tensor1, tensor2)
    return call.std("Add", self, product if value == 1 else call.std("Mul", product, call.cast(value, product.dtype)))


@aten("lerp.Scalar")
def lerp(call: Call, self: Any, end: Any, weight: float, **_: Any) -> Any:
    """From the nearer end, as PyTorch has it: the other one may be infinite."""
    apart, dtype = call.std("Sub", end, self), call.meta.dtype
    if weight < 0.5:
        return call.std("Add", self, call.std("Mul", apart, call.cast(float(weight), dtype)))
    return call.std("Sub", end, call.std("Mul", apart, call.cast(1.0 - weight, dtype)))


@aten("full_like")
def full_like(call: Call, fill_value: Any, **_: Any) -> Any:
    if None in call.meta.shape:
        raise call.needs_sizes(f"of shape {call.meta.shape}")
    return np.full(call.meta.shape, fill_value, dtypes.numpy_dtype(call.meta.dtype))


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(call: Call, condition: Any, self: Any, other: Any, **_: Any) -> Any:
    dtype = call.meta.dtype
    if dtype not in _FLOATS:
        raise UnsupportedError(f"{call.where}: of {dtype}")
    return _chosen(call, condition, call.cast(self, dtype), call.cast(other, dtype))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(call: Call, self: Any, mask: Any, value: Any, **_: Any) -> Any:
    dtype = call.meta.dtype
    if dtype not in _FLOATS:
        raise UnsupportedError(f"{call.where}: of {dtype}")
    return _chosen(call, mask, call.cast(value, dtype), self)


def _chosen(call: Call, condition: Any, yes: Any, no: Any) -> Any:
    rank = len(call.meta.shape)
    parts = [call.reshaped(one, (*(1,) * (rank - len(one.shape)), *one.shape)) for one in (condition, yes, no)]
    return call.op("Select", *parts)


@aten("softmax.int", "_softmax", kind="Softmax")
@aten("log_softmax.int", "_log_softmax", kind="LogSoftmax")
def softmax(call: Call, self: Any, dim: int, kind: str, **_: Any) -> Any:
    if not self.shape:
        raise UnsupportedError(f"{call.where}: of one number")
    return call.std(kind, call.cast(self, call.meta.dtype), axis=dim)


@aten(
    "detach", "alias", "contiguous", "clone", "lift_fresh_copy", "lift_fresh", "_to_copy", "to.dtype",
    "to.device", "to.dtype_layout", "to.other", "type_as", "to.prim_Device", "_conj", "resolve_conj", "resolve_neg",
)  # fmt: skip
def same(call: Call, **given: Any) -> Any:
    """Perhaps in another dtype."""
    item = next(value for value in given.values() if isinstance(value, Value | np.ndarray | Tensor))
    dtype = call.meta.dtype
    if call.tensor(item).shape != call.meta.shape and None not in call.meta.shape:
        raise UnsupportedError(f"{call.where}: from {item.shape} to {call.meta.shape}")
    return call.cast(item, dtype)


@aten("copy", "fill.Scalar", "fill.Tensor")
def filled(call: Call, self: Any, **given: Any) -> Any:
    """What is written over it."""
    meta = call.meta
    item = call.cast(given.get("src", given.get("value")), meta.dtype)
    if None in meta.shape:
        raise call.needs_sizes(f"to {meta.shape}")
    if tuple(item.shape) == meta.shape:
        return item
    return call.std("Expand", item, list(meta.shape))


@aten("dropout", "feature_dropout", "alpha_dropout", "native_dropout")
def dropout(call: Call, input: Any, train: bool | None = False, **_: Any) -> Any:
    if train:
        raise UnsupportedError(f"{call.where}: in training")
    return input
