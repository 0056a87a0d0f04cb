"""Rules of activations, arithmetic, comparisons and where."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import UnsupportedError
from ...graph import Value
from .table import Call, aten

for _name, _kind in {
    "abs": "Abs", "cos": "Cos", "erf": "Erf", "exp": "Exp", "hardswish": "HardSwish", "log": "Log", "mish": "Mish",
    "neg": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round", "selu": "Selu", "sigmoid": "Sigmoid",
    "sin": "Sin", "softsign": "Softsign", "sqrt": "Sqrt", "tanh": "Tanh",
}.items():  # fmt: skip
    aten(_name, kind=_kind)(lambda call, self, kind: call.std(kind, call.cast(self, call.meta.dtype)))

aten("silu")(lambda call, self: call.std("Mul", self, call.std("Sigmoid", self)))
aten("square")(lambda call, self: call.std("Pow", self, 2.0))
aten("log_sigmoid_forward", "log_sigmoid")(
    lambda call, self: call.std("Neg", call.std("Softplus", call.std("Neg", self)))
)
aten("gelu")(lambda call, self, approximate: call.std("Gelu", self, approximate=approximate))
aten("leaky_relu")(lambda call, self, negative_slope: call.std("LeakyRelu", self, alpha=float(negative_slope)))
aten("addcmul", wide=True)(
    lambda call, self, a, b, /, value: call.std("Add", self, call.times(call.std("Mul", a, b), value))
)
aten("hardsigmoid")(lambda call, self: call.std("HardSigmoid", self, alpha=1 / 6, beta=0.5))


@aten("rsqrt")
def rsqrt(call: Call, self: Any) -> Any:
    return call.std("Reciprocal", call.std("Sqrt", self))


@aten("elu")
@aten("celu", input_scale=None)
def elu(call: Call, self: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float | None = 1.0) -> Any:
    input_scale = 1 / alpha if input_scale is None else input_scale
    made = call.std("Elu", call.times(self, input_scale), alpha=float(alpha))
    if input_scale != 1:
        # positive elements are not scaled
        made = call.std("Add", call.std("Relu", self), call.std("Min", made, call.cast(0.0, self.dtype)))
    return call.times(made, scale)


@aten("relu6", min=0.0, max=6.0)
@aten("hardtanh", "clamp", "clamp_min", "clamp_max")
def clamp(call: Call, self: Any, min: Any = None, max: Any = None, min_val: Any = None, max_val: Any = None) -> Any:
    ends = min_val if min is None else min, max_val if max is None else max
    low, high = (None if end is None else call.cast(float(end), call.meta.dtype) for end in ends)
    if low is None or high is None:
        # Clip would limit infinite elements to the largest finite number
        return call.std("Max", self, low) if high is None else call.std("Min", self, high)
    return call.std("Clip", self, low, high)


@aten("softplus")
def softplus(call: Call, self: Any, beta: float, threshold: float) -> Any:
    if threshold < 15:
        # beyond the threshold the result is the argument; larger thresholds make no difference in f32
        raise UnsupportedError(f"{call.where}: threshold={threshold}")
    return call.times(call.std("Softplus", call.times(self, beta)), 1 / beta)


@aten("prelu", "_prelu_kernel")
def prelu(call: Call, self: Any, weight: Any) -> Any:
    """PReLU; a one-dimensional weight is per channel."""
    slope = call.elements(weight)
    shape = (*slope.shape, *(1,) * (len(self.shape) - 2)) if len(slope.shape) == 1 else slope.shape
    return call.std(
        "PRelu", self, slope.reshape(shape) if isinstance(slope, np.ndarray) else call.reshaped(slope, shape)
    )


@aten("glu")
def glu(call: Call, self: Any, dim: int) -> Any:
    halves = call.meta.shape[dim]
    if halves is None:
        raise UnsupportedError(f"{call.where}: of an axis of unknown size")
    left, right = call.std("Split", self, [halves, halves], count=2, axis=dim)
    return call.std("Mul", left, call.std("Sigmoid", right))


def _float(call: Call) -> str:
    """Returns the result's dtype.

    Raises:
        UnsupportedError: no floating-point dtype, which the standard operator needs.
    """
    dtype = call.meta.dtype
    if dtype not in ("f32", "bf16", "f16"):
        raise UnsupportedError(f"{call.where}: of {dtype}")
    return dtype


@aten("add.Tensor", "add.Scalar", kind="Add")
@aten("sub.Tensor", "sub.Scalar", kind="Sub")
@aten("rsub.Tensor", "rsub.Scalar", kind="rsub")
@aten("mul.Tensor", "mul.Scalar", "multiply.Tensor", kind="Mul")
@aten("div.Tensor", "div.Scalar", "true_divide.Tensor", "divide.Tensor", kind="Div")
@aten("maximum", "max.other", kind="Max")
@aten("minimum", "min.other", kind="Min")
def binary(call: Call, self: Any, other: Any, kind: str, alpha: float = 1) -> Any:
    dtype = _float(call)
    a, b = (other, self) if kind == "rsub" else (self, other)
    if kind in ("Max", "Min"):
        return call.std(kind, call.cast(a, dtype), call.cast(b, dtype))
    b = call.times(b, alpha)
    if kind == "Div" and dtype == "f32" and not isinstance(b, Value) and np.ndim(b) == 0 and _is_exact(float(b)):
        kind, b = "Mul", 1 / float(b)
    return call.arithmetic("Sub" if kind == "rsub" else kind, a, b)


def _is_exact(number: float) -> bool:
    """Whether the reciprocal of a number is exact: the number is a power of two."""
    return number != 0 and math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5


@aten("pow.Tensor_Scalar")
def power(call: Call, self: Any, exponent: float) -> Any:
    if exponent == 3:
        return call.std("Mul", call.std("Mul", self, self), self)
    if exponent == -0.5:
        return rsqrt(call, self)
    if exponent not in (2, 1, 0.5, -1):
        raise UnsupportedError(f"{call.where}: to the power of {exponent}")
    return call.std("Pow", self, float(exponent))


@aten("lerp.Scalar")
def lerp(call: Call, self: Any, end: Any, weight: float) -> Any:
    """lerp from the nearer end, as in PyTorch: the other end may be infinite."""
    apart = call.std("Sub", end, self)
    if weight < 0.5:
        return call.std("Add", self, call.times(apart, float(weight)))
    return call.std("Sub", end, call.times(apart, 1.0 - weight))


@aten("full_like")
def full_like(call: Call, fill_value: Any) -> Any:
    if None in call.meta.shape:
        raise call.needs_sizes(f"of shape {call.meta.shape}")
    return np.full(call.meta.shape, fill_value, dtypes.numpy_dtype(call.meta.dtype))


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(call: Call, condition: Any, self: Any, other: Any) -> Any:
    dtype = _float(call)
    return _chosen(call, condition, call.cast(self, dtype), call.cast(other, dtype))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(call: Call, self: Any, mask: Any, value: Any) -> Any:
    return _chosen(call, mask, call.cast(value, _float(call)), self)


def _chosen(call: Call, condition: Any, yes: Any, no: Any) -> Any:
    rank = len(call.meta.shape)
    parts = [call.reshaped(one, (*(1,) * (rank - len(one.shape)), *one.shape)) for one in (condition, yes, no)]
    return call.op("Select", *parts)


@aten("softmax.int", "_softmax", kind="Softmax")
@aten("log_softmax.int", "_log_softmax", kind="LogSoftmax")
def softmax(call: Call, self: Any, dim: int, kind: str) -> Any:
    if not self.shape:
        raise UnsupportedError(f"{call.where}: of one number")
    return call.std(kind, call.cast(self, call.meta.dtype), axis=dim)


@aten(
    "detach", "alias", "contiguous", "clone", "lift_fresh_copy", "lift_fresh", "_to_copy", "to.dtype",
    "to.device", "to.dtype_layout", "to.other", "type_as", "to.prim_Device", "_conj", "resolve_conj", "resolve_neg",
)  # fmt: skip
def same(call: Call, self: Any, /) -> Any:
    """Copies; may convert to another dtype."""
    wanted = call.meta
    if tuple(self.shape) != wanted.shape and None not in wanted.shape:
        raise UnsupportedError(f"{call.where}: from {self.shape} to {wanted.shape}")
    return call.cast(self, wanted.dtype)


@aten("copy", "fill.Scalar", "fill.Tensor")
def filled(call: Call, _self: Any, value: Any, /) -> Any:
    """fill and copy: the written value, broadcast to the tensor."""
    wanted = call.meta
    if None in wanted.shape:
        raise call.needs_sizes(f"to {wanted.shape}")
    item = call.cast(value, wanted.dtype)
    return item if tuple(item.shape) == wanted.shape else call.std("Expand", item, list(wanted.shape))


@aten("dropout", "feature_dropout", "alpha_dropout", "native_dropout")
def dropout(call: Call, input: Any, train: bool | None = False) -> Any:
    if train:
        raise UnsupportedError(f"{call.where}: in training")
    return input
