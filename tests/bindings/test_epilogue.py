"""Post-ops on rows of f32: every op alone, and random programs, against NumPy in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
from children import child

from dnnl_graph_ops import _core, dtypes
from dnnl_graph_ops import errors as refusals
from dnnl_graph_ops.program import element_ops
from dnnl_graph_ops.trial.functions import FALLING, FUNCTIONS, errors, numbers
from dnnl_graph_ops.trial.post_ops import TRIED

from .kernel_cases import code

pytestmark = pytest.mark.isa

kernels = _core.kernels
REPEAT, OPERANDS = kernels.Epilogue.REPEAT, kernels.Epilogue.OPERANDS
_erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x):
    return np.exp(-np.logaddexp(0.0, -x))


def gelu_tanh(x):
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


# name: function of x, y, alpha and beta; whether its arithmetic is exact on small integers
EXACT = {
    "abs": lambda x, y, a, b: np.abs(x),
    "add": lambda x, y, a, b: x + y,
    "clamp": lambda x, y, a, b: np.clip(x, a, b),
    "fake_quantize": lambda x, y, a, b: np.clip(np.rint(x / y), a, b) * y,
    "leaky_relu": lambda x, y, a, b: np.where(x > 0, x, a * x),
    "linear": lambda x, y, a, b: a * x + b,
    "maximum": lambda x, y, a, b: np.maximum(x, y),
    "minimum": lambda x, y, a, b: np.minimum(x, y),
    "move": lambda x, y, a, b: x,
    "multiply": lambda x, y, a, b: x * y,
    "prelu": lambda x, y, a, b: np.where(x > 0, x, x * y),
    "relu": lambda x, y, a, b: np.where(x <= 0, 0.0, x),
    "round": lambda x, y, a, b: np.rint(x),
    "square": lambda x, y, a, b: x * x,
    "squared_difference": lambda x, y, a, b: (x - y) ** 2,
    "subtract": lambda x, y, a, b: x - y,
}
ROUNDED = {
    "divide": lambda x, y, a, b: x / y,
    "elu": lambda x, y, a, b: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))),
    "erf": lambda x, y, a, b: _erf(x),
    "exp": lambda x, y, a, b: np.exp(x),
    "gelu_erf": lambda x, y, a, b: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x, y, a, b: gelu_tanh(x),
    "hardsigmoid": lambda x, y, a, b: np.clip(a * x + b, 0, 1),
    "hardswish": lambda x, y, a, b: x * np.clip(x / 6 + 0.5, 0, 1),
    "log": lambda x, y, a, b: np.log(x),
    "mish": lambda x, y, a, b: x * np.tanh(np.logaddexp(0, x)),
    "reciprocal": lambda x, y, a, b: 1 / x,
    "sigmoid": lambda x, y, a, b: sigmoid(x),
    "softplus": lambda x, y, a, b: np.logaddexp(0, a * x) / a,
    "sqrt": lambda x, y, a, b: np.sqrt(x),
    "swish": lambda x, y, a, b: x * sigmoid(a * x),
    "tanh": lambda x, y, a, b: np.tanh(x),
}
OPS = {**EXACT, **ROUNDED}
BINARY = {
    "add", "divide", "fake_quantize", "maximum", "minimum", "multiply", "prelu", "squared_difference", "subtract",
}  # fmt: skip
# units in the last place, where arithmetic is not one operation; absolute: of sums that cancel
ULPS = {"gelu_erf": 12, "gelu_tanh": 12, "hardsigmoid": 2, "hardswish": 4, "mish": 5, "swish": 4, "softplus": 4}
TINY = {"gelu_erf": 1e-7, "gelu_tanh": 2e-7, "hardsigmoid": 1e-7, "hardswish": 2e-7}


def apply(op, x, y=None, alpha=0.0, beta=0.0):
    """One op on a row of f32, by the kernel."""
    binary = op in BINARY
    steps = [(op, 0, OPERANDS if binary else 0, 0, alpha, beta)]
    kernel = kernels.epilogue(kernels.Epilogue(steps, [("full", code("f32"))] if binary else []), [1], x.size, [x.size])
    result = x.astype(np.float32)
    kernel.run(*([y.astype(np.float32)] if binary else []), result)
    return result


def expected(op, x, y=None, alpha=0.0, beta=0.0):
    with np.errstate(all="ignore"):
        return np.asarray(OPS[op](x.astype(np.float64), None if y is None else y.astype(np.float64), alpha, beta))


@pytest.mark.parametrize("op", EXACT)
def test_integers_are_exact(op):
    rng = np.random.default_rng(3)
    for size in (1, 5, 16, 37, 1500):
        x, y = rng.integers(-20, 20, (2, size)).astype(np.float32)
        np.testing.assert_array_equal(apply(op, x, y, 2, 5), expected(op, x, y, 2, 5).astype(np.float32))


@pytest.mark.parametrize("op", ROUNDED)
def test_few_units_in_the_last_place(op):
    rng = np.random.default_rng(4)
    near, far = rng.normal(0, 2, 4000), rng.uniform(-100, 100, 4000)
    x = np.concatenate([near, near * 1e-3, far, np.geomspace(1e-38, 1e38, 500)]).astype(np.float32)
    if op in ("log", "sqrt"):
        x = np.abs(x)
    y = rng.normal(0, 2, x.size).astype(np.float32)
    with np.errstate(over="ignore"):
        want = expected(op, x, y, 0.5, 0.25)
        limited = want.astype(np.float32)
    got = apply(op, x, y, 0.5, 0.25)
    finite = np.isfinite(limited)
    np.testing.assert_array_equal(got[~finite], limited[~finite])
    allowed = ULPS.get(op, 2.5) * np.spacing(np.abs(limited[finite])) + TINY.get(op, 0) * np.abs(x[finite])
    allowed = allowed + 2e-45 * np.abs(x[finite])  # of a subnormal factor
    error = np.abs(got[finite].astype(np.float64) - want[finite])
    worst = int(np.argmax(error / allowed))
    assert (error <= allowed).all(), (op, x[finite][worst], got[finite][worst], want[finite][worst])


# what PyTorch makes of them
NAN, INF = math.nan, math.inf
LIMITS = {
    "elu": [(INF, INF), (-INF, -0.5), (NAN, NAN), (-0.0, 0)],
    "erf": [(INF, 1), (-INF, -1), (NAN, NAN), (1e-40, 1.1283805e-40)],
    "exp": [(INF, INF), (-INF, 0), (NAN, NAN), (-100, 3.7835e-44), (88.8, INF), (-200, 0)],
    "gelu_erf": [(INF, INF), (NAN, NAN), (-40, 0)],
    "log": [(INF, INF), (0, -INF), (-0.0, -INF), (-1, NAN), (NAN, NAN), (1e-42, math.log(1e-42)), (-INF, NAN)],
    "mish": [(INF, INF), (NAN, NAN), (-300, 0)],
    "sigmoid": [(INF, 1), (-INF, 0), (NAN, NAN), (-100, 3.7835e-44)],
    "softplus": [(INF, INF), (-INF, 0), (NAN, NAN)],
    "sqrt": [(INF, INF), (-1, NAN), (-0.0, -0.0), (NAN, NAN)],
    "tanh": [(INF, 1), (-INF, -1), (NAN, NAN), (1e-40, 1e-40), (-0.0, -0.0)],
    "relu": [(NAN, NAN), (-INF, 0), (INF, INF)],
    "clamp": [(NAN, NAN), (-INF, 0.5), (INF, 1.5)],
    "abs": [(NAN, NAN), (-INF, INF), (-0.0, 0.0)],
    "round": [(0.5, 0), (1.5, 2), (-2.5, -2), (NAN, NAN), (INF, INF), (1e30, 1e30)],
    "reciprocal": [(0.0, INF), (-0.0, -INF), (INF, 0), (NAN, NAN)],
}


@pytest.mark.parametrize("op", LIMITS)
def test_limits(op):
    x, want = np.array(LIMITS[op]).T
    got = apply(op, x, alpha=1.0 if op == "softplus" else 0.5, beta=1.5)
    np.testing.assert_allclose(got, want.astype(np.float32), rtol=1e-3)


@pytest.mark.parametrize("exponent", [2, 3, -1, -2, 0.5, 4, 0, 1.7, -0.3, 7, 0.25, 0.75, -0.5, -0.75, 1.5, -1.25, 3.5])
def test_power(exponent):
    x = np.abs(np.random.default_rng(5).normal(0, 3, 333)).astype(np.float32)
    np.testing.assert_allclose(apply("power", x, alpha=exponent), np.power(x.astype(np.float64), exponent), rtol=1e-6)
    signed = np.array([-2.0, 3.0, -math.inf, 0.0, -0.0], np.float32)
    with np.errstate(all="ignore"):
        # a root of minus infinity is no number, as newer NumPy has it
        want = np.sqrt(signed) if exponent == 0.5 else np.power(signed, np.float32(exponent))
        np.testing.assert_allclose(apply("power", signed, alpha=exponent), want, rtol=1e-6)


@pytest.mark.parametrize("op", ["maximum", "minimum", "add", "multiply"])
def test_either_nan_is_the_result(op):
    values = np.array([NAN, 1, NAN, 2], np.float32)
    assert np.isnan(apply(op, values, values[::-1])).all()


# ---- programs on tensors --------------------------------------------------------------------------------------


def repeated(vectors):
    """Vectors of channels as kernels take them."""
    count = -(-(vectors.shape[-1] + REPEAT) // vectors.shape[-1])
    return np.tile(vectors, count)[..., : vectors.shape[-1] + REPEAT].astype(np.float32).copy()


class Case:
    """A random dst, channels last, possibly a slice of a wider one, and operands of all spreads."""

    def __init__(self, rng):
        self.rng = rng
        self.n, self.h, self.w = (int(rng.integers(1, 5)) for _ in range(3))
        self.w *= int(rng.choice([1, 1, 40]))
        self.c = int(rng.choice([1, 2, 3, 16, 17, 31, 64, 100]))
        self.pitch = self.c + int(rng.choice([0, 0, 3, 16]))
        self.strides = [
            self.h * self.w * self.pitch + int(rng.choice([0, 2])) * self.pitch,
            self.w * self.pitch,
            self.pitch,
        ]
        self.dense = np.full(self.n * self.strides[0], np.nan, np.float32)
        self.values = rng.integers(-8, 9, (self.n, self.h, self.w, self.c)).astype(np.float64)
        self.strided(self.dense)[...] = self.values

    def strided(self, buffer, pitch=None):
        factor = 1 if pitch is None else self.pitch
        strides = [s // factor * buffer.itemsize for s in self.strides] + [buffer.itemsize if pitch is None else 0]
        shape = (self.n, self.h, self.w, self.c)
        return np.lib.stride_tricks.as_strided(buffer, shape, strides)

    def operand(self):
        """Its description, its memory, and its values as an array that broadcasts."""
        rng = self.rng
        spread = str(rng.choice(["one", "channel", "full", "image_channel", "pixel"]))
        dtype = "f32" if "channel" in spread else str(rng.choice(["f32", "bf16", "f16"]))
        numpy_type = dtypes.numpy_dtype(dtype)
        if spread == "one":
            memory = np.array([rng.integers(-4, 5)]).astype(numpy_type)
            return (spread, dtype), memory, memory.astype(np.float64)
        if spread == "channel":
            vector = rng.integers(-4, 5, self.c)
            return (spread, dtype), repeated(vector), vector.astype(np.float64)
        if spread == "image_channel":
            vectors = rng.integers(-4, 5, (self.n, self.c))
            return (spread, dtype), repeated(vectors), vectors[:, None, None].astype(np.float64)
        size = self.dense.size if spread == "full" else self.dense.size // self.pitch
        memory = rng.integers(-4, 5, size).astype(np.float32).astype(numpy_type)
        seen = self.strided(memory, None if spread == "full" else self.pitch)
        return (spread, dtype), memory, seen.astype(np.float64)


def random_program(rng, case):
    """Steps on registers, their operands, and the result in double precision."""
    operands, memories, arrays = [], [], []
    for _ in range(int(rng.integers(0, 4))):
        (spread, dtype), memory, array = case.operand()
        operands.append((spread, code(dtype)))
        memories.append(memory)
        arrays.append(array)
    registers = {0: case.values}
    steps = []
    for _ in range(int(rng.integers(1, 6))):
        op = str(rng.choice(["add", "multiply", "maximum", "relu", "abs", "clamp", "subtract", "leaky_relu", "move"]))
        known = [*registers, *(OPERANDS + i for i in range(len(arrays)))]
        left, right = (int(rng.choice(known)) for _ in range(2))
        to = int(rng.integers(0, kernels.Epilogue.REGISTERS))
        x, y = (arrays[i - OPERANDS] if i >= OPERANDS else registers[i] for i in (left, right))
        registers[to] = np.broadcast_to(OPS[op](x, y, -2.0, 3.0), case.values.shape)
        steps.append((op, left, right, to, -2.0, 3.0))
    return kernels.Epilogue(steps, operands), memories, registers[0]


def run_programs(seed, count):
    for number in range(seed, seed + count):
        rng = np.random.default_rng(number)
        case = Case(rng)
        epilogue, memories, want = random_program(rng, case)
        before = case.dense.copy()
        kernels.epilogue(epilogue, [case.n, case.h, case.w], case.c, case.strides).run(*memories, case.dense)
        got = case.strided(case.dense)
        assert np.array_equal(got, want), f"seed {number}: {case.values.shape}, {case.strides}"
        got[...] = case.strided(before)
        np.testing.assert_array_equal(case.dense, before, err_msg=f"seed {number}: written beyond dst")


def test_random_programs():
    run_programs(1000, 400)


@pytest.mark.child
def test_avx2():
    done = child("-c", "from bindings import test_epilogue; test_epilogue.check_all()", DNNL_GRAPH_OPS_ISA="avx2")
    assert done.returncode == 0, done.stderr


def check_all():
    run_programs(2000, 150)
    for op in EXACT:
        test_integers_are_exact(op)
    for op in ROUNDED:
        test_few_units_in_the_last_place(op)
    for op in LIMITS:
        test_limits(op)
    test_power(1.7)


@pytest.mark.parametrize(
    ("steps", "operands", "message"),
    [
        ([("tan", 0, 0, 0, 0, 0)], [], "there is no op 'tan'"),
        ([("add", 0, 1, 0, 0, 0)], [], "neither a register written before"),
        ([("add", 0, OPERANDS, 0, 0, 0)], [], "neither a register written before"),
        ([("relu", -1, 0, 0, 0, 0)], [], "neither a register written before"),
        ([("relu", 0, 0, 99, 0, 0)], [], "at most 7 is possible"),
        ([], [("row", 3)], "there is no spread 'row'"),
        ([], [("channel", 2)], "convert it to f32"),
        ([], [("full", 5)], "is not f32, bf16 or f16"),
    ],
)
def test_refused(steps, operands, message):
    with pytest.raises(refusals.InvalidArgumentError, match=message):
        kernels.Epilogue(steps, operands)


def test_nothing():
    assert not kernels.Epilogue()
    values = np.arange(6, dtype=np.float32)
    kernels.epilogue(kernels.Epilogue(), [2], 3, [3]).run(values)
    np.testing.assert_array_equal(values, np.arange(6))


# what post-ops keep to over the whole range of f32, in units in the last place; docs/accuracy.md has the table
OF_KINDS = {
    "Abs": 0, "Clamp": 0, "Elu": 1, "Exp": 1, "GELU gelu_erf": 140, "GELU gelu_tanh": 150, "HardSigmoid": 1,
    "HardSwish": 1, "LeakyReLU": 1, "Log": 1, "Mish": 4, "ReLU": 0, "Round": 0, "Sigmoid": 2, "SoftPlus": 2,
    "Sqrt": 0.5, "Square": 0.5, "Tanh": 3,
}  # fmt: skip


@pytest.mark.parametrize("post_op", OF_KINDS)
def test_the_whole_range_of_f32(post_op):
    kind, *mode = post_op.split()
    x = numbers("f32")
    if kind in FALLING:
        x = np.concatenate([x[x != -np.inf], np.linspace(-14, -0.5, 4001).astype(np.float32)])
    for attrs in TRIED.get(kind, [{}]):
        if mode and attrs["mode"] != mode[0]:
            continue
        op = element_ops.OPS[kind](attrs)
        wide = x.astype(np.float64)
        with np.errstate(all="ignore"):
            exact = FUNCTIONS[kind](wide, **attrs)
        error = errors(kind, "f32", apply(op.name, x, None, op.alpha, op.beta).astype(np.float64), exact, wide)
        worst = int(np.argmax(error))
        assert error[worst] <= OF_KINDS[post_op], (attrs, x[worst], exact[worst], error[worst])


@pytest.mark.parametrize("mode", ["gelu_erf", "gelu_tanh"])
def test_gelu_above_and_below_minus_3(mode):
    """16 units in the last place, and 1e-8."""
    x = np.linspace(-14, 12, 20_000).astype(np.float32)
    wide = x.astype(np.float64)
    exact, got = FUNCTIONS["GELU"](wide, mode), apply(mode, x).astype(np.float64)
    assert errors("GELU", "f32", got, exact, wide)[x > -3].max() <= 16
    assert np.abs(got - exact)[x <= -3].max() <= 1e-8
