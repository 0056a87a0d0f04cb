"""Element-wise ops in float64 without cancellation, numbers to try them with, and errors in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from .. import dtypes, schema

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]

_erf, _erfc = (np.vectorize(f, otypes=[np.float64]) for f in (math.erf, math.erfc))


def _logistic(x: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


def _log_one_and_exp(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def _gelu(x: Array, mode: str = "gelu_erf") -> Array:
    if mode == "gelu_tanh":
        return x * _logistic(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * _erfc(-x / math.sqrt(2))


# kind -> result from operands in float64 and the op's attributes
FUNCTIONS: Final[Mapping[str, Function]] = {
    "Abs": np.abs,
    "Add": np.add,
    "BiasAdd": lambda x, y, **_: x + y,
    "Clamp": lambda x, min, max: np.clip(x, min, max),
    "Divide": np.divide,
    "Elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "Erf": _erf,
    "Exp": np.exp,
    "GELU": _gelu,
    "HardSigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "LeakyReLU": lambda x, alpha: np.where(x > 0, x, alpha * x),
    "Log": np.log,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Mish": lambda x: x * np.tanh(_log_one_and_exp(x)),
    "Multiply": np.multiply,
    "Pow": lambda x, beta: np.power(x, beta),
    "PReLU": lambda x, y, **_: np.where(x > 0, x, x * y),
    "Reciprocal": lambda x: 1 / x,
    "ReLU": lambda x: np.where(x <= 0, 0.0, x),
    "Round": np.rint,
    "Sigmoid": _logistic,
    "SoftPlus": lambda x, beta=1.0: _log_one_and_exp(beta * x) / beta,
    "Sqrt": np.sqrt,
    "Square": np.square,
    "SquaredDifference": lambda x, y: (x - y) ** 2,
    "Subtract": np.subtract,
    "Tanh": np.tanh,
}
# kinds that clamp a sum: the magnitude of the terms, in whose unit the error is where they cancel
CLAMPING: Final[Mapping[str, Callable[[Array], Array]]] = {
    "HardSigmoid": np.ones_like,
    "HardSwish": lambda x: np.where(np.abs(x) < 4, np.abs(x), 0.0),
}
# kinds that multiply x by what falls to 0: of -Inf their limit is 0, and NaN is right as well
FALLING: Final = schema.kinds("falls")

# bits of the mantissa after the point, and the exponent of the smallest normal number
_FORMATS: Final = {"f32": (23, -126), "bf16": (7, -126), "f16": (10, -14)}


def numbers(dtype: str, seed: int = 0) -> Array:
    """Returns numbers of a dtype in f32, which represents each: all magnitudes, both signs, both zeros, Inf and NaN.

    They are denser where functions bend, and near 1 and -1.
    """
    rng = np.random.default_rng(seed)
    bits, _ = _FORMATS[dtype]
    exponents = np.repeat(np.arange(-149, 128, dtype=np.float64), 5)
    every = rng.uniform(1, 2, exponents.size) * 2.0**exponents
    bent = np.concatenate([np.linspace(-20, 20, 801), rng.uniform(-110, 110, 1000), rng.uniform(-4, 4, 700)])
    ones = 1 + np.outer((-1.0, 1.0), 2.0 ** -np.arange(1.0, bits + 2)).ravel() * rng.uniform(1, 2, 2 * (bits + 1))
    ends = [0.0, np.inf, np.nan, 2.0**-126, 2.0**-149, 3.4028235e38, 65504.0, 2.0**-24]
    positive = np.concatenate([every, ones, ends])
    with np.errstate(over="ignore"):
        drawn = np.concatenate([positive, -positive, bent]).astype(dtypes.numpy_dtype(dtype)).astype(np.float32)
    return np.concatenate([np.unique(drawn[~np.isnan(drawn)]), np.array([-0.0, np.nan], np.float32)])


def errors(kind: str, dtype: str, got: Array, exact: Array, x: Array) -> Array:
    """Returns the distance of each result of an op of x from the exact one, in units in its last place.

    NaN next to a number is Inf. In f32 and bf16 numbers below the smallest normal one count as zero: results, operands,
    of which there may be two, and the factor of x in an op of `FALLING`.
    """
    terms = CLAMPING[kind](x) if kind in CLAMPING else None
    factor = np.clip(np.abs(x), 1.0, 128.0) if kind in FALLING else np.ones_like(x)
    return _ulps(dtype, got, exact, terms, factor)


def _ulps(dtype: str, got: Array, exact: Array, terms: Array | None, factor: Array) -> Array:
    bits, least = _FORMATS[dtype]
    top = 2.0 ** (16 if dtype == "f16" else 128)
    got = np.asarray(got, np.float64)
    with np.errstate(all="ignore"):
        size = np.abs(exact) if terms is None else np.maximum(np.abs(exact), terms)
        unit = np.ldexp(1.0, np.frexp(np.clip(size, 2.0**least, top / 2))[1] - 1 - bits)
        error = np.abs(np.clip(got, -top, top) - np.clip(exact, -top, top))
    if dtype != "f16":
        error = np.where(error <= factor * 2.0 ** (least + 1), 0.0, error)
    error = error / unit
    error[np.isinf(exact) & (got != exact)] = np.inf  # an infinity is no large number
    nan = np.isnan(exact), np.isnan(got)
    error[nan[0] | nan[1]] = np.inf
    error[nan[0] & nan[1]] = 0.0
    return error
