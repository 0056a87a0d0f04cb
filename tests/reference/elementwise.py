"""Element by element: activations, their gradients, arithmetic with broadcasting."""

import math

import numpy as np

_erf = np.frompyfunc(math.erf, 1, 1)
_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715


def erf(x: np.ndarray) -> np.ndarray:
    return _erf(x).astype(np.float64) if x.size else x


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -x))


def softplus(x: np.ndarray, beta: float = 1.0) -> np.ndarray:
    return np.logaddexp(0.0, beta * x) / beta


def gelu(x: np.ndarray, mode: str = "gelu_erf") -> np.ndarray:
    if mode == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def gelu_slope(x: np.ndarray, mode: str = "gelu_erf") -> np.ndarray:
    if mode == "gelu_tanh":
        t = np.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x**3))
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _TANH_SCALE * (1 + 3 * _TANH_CUBIC * x * x)
    return 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def mish_slope(x: np.ndarray) -> np.ndarray:
    t = np.tanh(softplus(x))
    return t + x * sigmoid(x) * (1 - t * t)


def hard_sigmoid(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return np.clip(alpha * x + beta, 0.0, 1.0)


def hard_sigmoid_slope(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    line = alpha * x + beta
    return np.where((line > 0) & (line < 1), alpha, 0.0)


def hard_swish_slope(x: np.ndarray) -> np.ndarray:
    line = x / 6 + 0.5
    return np.where(line >= 1, 1.0, np.where(line <= 0, 0.0, x / 3 + 0.5))


def elu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def power(x: np.ndarray, beta: float) -> np.ndarray:
    return np.power(x, beta)


UNARY = {
    "Abs": np.abs,
    "Clamp": lambda x, min, max: np.clip(x, min, max),
    "Cos": np.cos,
    "Elu": elu,
    "Erf": erf,
    "Exp": np.exp,
    "GELU": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": lambda x: x * hard_sigmoid(x, 1 / 6, 0.5),
    "LeakyReLU": lambda x, alpha: np.where(x > 0, x, alpha * x),
    "Log": np.log,
    "Mish": lambda x: x * np.tanh(softplus(x)),
    "Pow": power,
    "ReLU": lambda x: np.maximum(x, 0.0),
    "Reciprocal": lambda x: 1 / x,
    "Reorder": lambda x: x,
    "Round": np.rint,
    "Sigmoid": sigmoid,
    "SoftPlus": softplus,
    "Sin": np.sin,
    "Sqrt": np.sqrt,
    "Square": np.square,
    "Tanh": np.tanh,
    "TypeCast": lambda x: x,
}

# slope as a function of src
SLOPE = {
    "AbsBackward": np.sign,
    "ClampBackward": lambda x, min, max: ((x > min) & (x < max)).astype(np.float64),
    "EluBackward": lambda x, alpha: np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0))),
    "GELUBackward": gelu_slope,
    "HardSigmoidBackward": hard_sigmoid_slope,
    "HardSwishBackward": hard_swish_slope,
    "MishBackward": mish_slope,
    "ReLUBackward": lambda x: (x > 0).astype(np.float64),
    "SigmoidBackward": lambda x: sigmoid(x) * (1 - sigmoid(x)),
    "SoftPlusBackward": lambda x, beta=1.0: sigmoid(beta * x),
    "SqrtBackward": lambda x: 0.5 / np.sqrt(x),
    "TanhBackward": lambda x: 1 - np.tanh(x) ** 2,
}

# slope as a function of dst, for use_dst (their default)
SLOPE_FROM_DST = {
    "ClampBackward": SLOPE["ClampBackward"],
    "EluBackward": lambda y, alpha: np.where(y > 0, 1.0, y + alpha),
    "ReLUBackward": SLOPE["ReLUBackward"],
    "SigmoidBackward": lambda y: y * (1 - y),
    "SqrtBackward": lambda y: 0.5 / y,
    "TanhBackward": lambda y: 1 - y * y,
}

BINARY = {
    "Add": np.add,
    "Divide": np.divide,
    "GreaterEqual": np.greater_equal,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Multiply": np.multiply,
    "SquaredDifference": lambda a, b: np.square(a - b),
    "Subtract": np.subtract,
}


def along_channel(vector: np.ndarray, rank: int, data_format: str) -> np.ndarray:
    """A vector of one value per channel, shaped to broadcast over a tensor."""
    return vector if data_format.upper() == "NXC" else vector.reshape(-1, *(1,) * (rank - 2))


def bias_add(src: np.ndarray, bias: np.ndarray, data_format: str = "NXC") -> np.ndarray:
    return src + along_channel(bias, src.ndim, data_format)


def _slope_shape(src: np.ndarray, slope: np.ndarray, data_format: str, per_channel: bool) -> np.ndarray:
    if slope.ndim == 1 and slope.size > 1 and per_channel:
        return along_channel(slope, src.ndim, data_format)
    return slope


def prelu(
    src: np.ndarray, slope: np.ndarray, data_format: str = "NXC", per_channel_broadcast: bool = True
) -> np.ndarray:
    return np.where(src > 0, src, src * _slope_shape(src, slope, data_format, per_channel_broadcast))


def prelu_backward(
    src: np.ndarray, slope: np.ndarray, diff_dst: np.ndarray, data_format: str = "NXC"
) -> tuple[np.ndarray, np.ndarray]:
    shaped = _slope_shape(src, slope, data_format, True)
    shaped = shaped.reshape((1,) * (src.ndim - shaped.ndim) + shaped.shape)
    diff_src = diff_dst * np.where(src > 0, 1.0, shaped)
    summed = tuple(a for a in range(src.ndim) if shaped.shape[a] == 1)
    diff_slope = np.where(src > 0, 0.0, src * diff_dst).sum(axis=summed)
    return diff_src, diff_slope.reshape(slope.shape)
