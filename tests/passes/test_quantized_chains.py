"""Element-wise ops between Dequantize and Quantize run as one step on integers: the numbers are NumPy's f32."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

pytestmark = pytest.mark.choice

RANGES = {"s8": (-128, 127), "u8": (0, 255)}
F32 = np.float32
UNARY = {
    "relu": (lambda v: ops.relu(v), lambda x: np.maximum(x, F32(0))),
    "leaky": (lambda v: ops.leaky_relu(v, alpha=0.125), lambda x: np.where(x > 0, x, F32(0.125) * x)),
    "half": (lambda v: v * F32(0.5), lambda x: x * F32(0.5)),
    "clamp": (lambda v: ops.clamp(v, min=-1.5, max=2.5), lambda x: np.clip(x, F32(-1.5), F32(2.5))),
}
BINARY = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "subtract": np.subtract}


class Numbers:
    """How a tensor is quantized, and that in NumPy."""

    def __init__(self, rng, shape):
        self.dtype = str(rng.choice(list(RANGES)))
        self.axis = int(rng.integers(len(shape))) if rng.random() < 0.3 else None
        count = 1 if self.axis is None else shape[self.axis]
        self.scales = np.exp(rng.uniform(-6, 0, count)).astype(F32)
        low, high = RANGES[self.dtype]
        self.points = rng.integers(low, high, count, endpoint=True) if rng.random() < 0.7 else np.zeros(count, int)

    def attrs(self):
        by = {} if self.axis is None else {"qtype": "per_channel", "axis": self.axis}
        return {"scales": list(map(float, self.scales)), "zps": list(map(int, self.points)), **by}

    def along(self, values, rank):
        return values.reshape([-1 if axis == self.axis else 1 for axis in range(rank)])

    def dequantized(self, q):
        return (q.astype(F32) - self.along(self.points, q.ndim).astype(F32)) * self.along(self.scales, q.ndim)

    def quantized(self, x):
        steps = np.rint(x / self.along(self.scales, x.ndim)) + self.along(self.points, x.ndim)
        return np.clip(steps, *RANGES[self.dtype]).astype(dgo.dtypes.numpy_dtype(self.dtype))


def check(rng):
    shape = tuple(int(rng.integers(1, 9)) for _ in range(int(rng.integers(2, 5))))
    graph = dgo.Graph()
    arrays, values = [], []
    for name in "abc"[: int(rng.integers(1, 4))]:
        numbers = Numbers(rng, shape)
        q = rng.integers(*RANGES[numbers.dtype], shape, endpoint=True).astype(dgo.dtypes.numpy_dtype(numbers.dtype))
        wide = ops.dequantize(graph.input(name, shape, numbers.dtype), **numbers.attrs())
        arrays.append(q)
        values.append((wide, numbers.dequantized(q)))
    value, truth = values[0]
    for other, array in values[1:]:
        kind = str(rng.choice(list(BINARY)))
        value, truth = getattr(ops, kind)(value, other), BINARY[kind](truth, array)
    for kind in rng.choice(list(UNARY), int(rng.integers(0, 3))):
        ours, theirs = UNARY[str(kind)]
        value, truth = ours(value), theirs(truth)
    numbers = Numbers(rng, shape)
    value, truth = ops.quantize(value, dtype=numbers.dtype, **numbers.attrs()), numbers.quantized(truth)
    if rng.random() < 0.5:
        value, truth = ops.dequantize(value, **numbers.attrs()), numbers.dequantized(truth)
        numbers = Numbers(rng, shape)
        value, truth = ops.quantize(value, dtype=numbers.dtype, **numbers.attrs()), numbers.quantized(truth)
    net = graph.compile(value)
    np.testing.assert_array_equal(net(*arrays), truth)
    steps = net.explain().steps
    assert len(steps) == 1, [step.step for step in steps]


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_random_chains_are_numpy_s_and_one_step(seed, block):
    for number in range(40):
        print(f"--seed={seed} {block} {number}")
        check(np.random.default_rng([seed, block, number]))


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("readers", [2, 3])
def test_a_residual_block_keeps_integers_between_convolutions(dilation, readers, rng):
    """As exporters write it: every edge quantized, the sum of two branches too; dilated kernels add no residual.

    `readers`: ops that read the floats of the first source, of which the third one is not of the block.
    """
    graph = dgo.Graph()
    attrs = {"scales": [0.5], "zps": [4]}  # even: the library turns ties by an odd one
    wide = lambda v: ops.dequantize(v, **attrs)  # noqa: E731
    narrow = lambda v: ops.quantize(v, dtype="u8", **attrs)  # noqa: E731
    weights = [ops.dequantize(graph.constant(rng.integers(-4, 5, (3, 3, 16, 16)).astype(np.int8)), scales=[0.125],
                              zps=[0]) for _ in range(2)]  # fmt: skip
    x = graph.input("x", (1, 4, 4, 16), "u8")
    around = {"pads_begin": dilation, "pads_end": dilation, "dilations": dilation}
    floats = wide(x)
    first = narrow(ops.relu(ops.convolution(floats, weights[0], **around)))
    joined = narrow(ops.relu(wide(first) + (floats if readers == 3 else wide(x))))
    y = narrow(ops.convolution(wide(joined), weights[1], pads_begin=1, pads_end=1))
    if readers == 3:
        y = y, narrow(ops.tanh(floats))
    net = graph.compile(y)
    net(rng.integers(0, 256, (1, 4, 4, 16)).astype(np.uint8))
    found = [part for part in net.explain().partitions if "Add" in part.kinds]
    after = ("Dequantize", "Dequantize", "Add", "ReLU", "Quantize")
    assert [part.kinds[-5:] for part in found] == [after]
    step = found[0].steps[-1]
    assert [text.split()[-1] for text in step.writes if "scratch" not in text] == ["u8"]
    # without a dilation the sum may run in the convolution's kernel, where the library is not faster
    if dilation > 1:
        assert found[0].kinds == after
        # the scale alone
        assert [text for text in step.reads if "f32" in text] == ["constant scalar f32"]
    data = rng.integers(0, 256, (1, 4, 4, 16)).astype(np.uint8)
    results = [list(each.run({"x": data}).values()) for each in (net, graph.compile(y, tune="off"))]
    assert all(map(np.array_equal, *results))


def nearest(x, factors):
    for axis, factor in enumerate(factors, 2):
        x = np.repeat(x, factor, axis)
    return x


MOVES = {
    "resize": (
        lambda v: ops.interpolate(v, mode="nearest", scales=[2.0, 3.0], data_format="NCX"),
        lambda x: nearest(x, (2, 3)),
    ),
    "reshape": (lambda v: ops.static_reshape(v, shape=[2, 12, 5], special_zero=False), lambda x: x.reshape(2, 12, 5)),
    "transpose": (lambda v: ops.static_transpose(v, order=[0, 2, 3, 1]), lambda x: x.transpose(0, 2, 3, 1)),
}


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("move", MOVES)
def test_what_moves_elements_moves_integers(rng, move, alike):
    ours, theirs = MOVES[move]
    graph = dgo.Graph()
    before = {"scales": [0.125], "zps": [3]}
    after = before if alike else {"scales": [0.1], "zps": [-7]}
    dtype = "u8" if alike else "s8"
    v = ops.dequantize(graph.input("x", (2, 3, 4, 5), "u8"), **before)
    net = graph.compile(ops.quantize(ours(v), dtype=dtype, **after))
    x = rng.integers(0, 256, (2, 3, 4, 5)).astype(np.uint8)
    wide = theirs((x.astype(F32) - F32(3)) * F32(0.125))
    truth = np.clip(np.rint(wide / F32(after["scales"][0])) + after["zps"][0], *RANGES[dtype])
    np.testing.assert_array_equal(net(x), truth.astype(dgo.dtypes.numpy_dtype(dtype)), strict=True)
    steps = net.explain().steps
    assert not any(" f32" in text for step in steps for text in step.writes)
    kinds = [kind for part in net.explain().partitions for kind in part.kinds]
    assert ("Quantize" in kinds) is not alike


def test_average_pools_between_quantized_ends(rng):
    graph = dgo.Graph()
    v = ops.dequantize(graph.input("x", (1, 8, 6, 6), "u8"), scales=[0.5], zps=[8])
    v = ops.avg_pool(v, strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], kernel=[2, 2], exclude_pad=True,
                     data_format="NCX")  # fmt: skip
    net = graph.compile(ops.quantize(v, scales=[0.25], zps=[4], dtype="u8"))
    x = rng.integers(0, 256, (1, 8, 6, 6)).astype(np.uint8)
    wide = (x.astype(F32) - F32(8)) * F32(0.5)
    mean = wide.reshape(1, 8, 3, 2, 3, 2).mean((3, 5), dtype=F32)
    np.testing.assert_array_equal(net(x), np.clip(np.rint(mean / F32(0.25)) + 4, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("count", [1, 40])
def test_what_several_steps_read_is_the_same_for_all(rng, count):
    """Beside each other, and more of them than are looked at together."""
    graph = dgo.Graph()
    v = ops.dequantize(graph.input("x", (5, 37), "s8"), scales=[0.3], zps=[5])
    x = rng.integers(-128, 128, (5, 37)).astype(np.int8)
    wide = (x.astype(F32) - F32(5)) * F32(0.3)
    value, truth = ops.relu(v), np.maximum(wide, F32(0))
    for _ in range(count):
        value, truth = (
            ops.maximum(ops.leaky_relu(value, alpha=0.5), v),
            np.maximum(np.where(truth > 0, truth, F32(0.5) * truth), wide),
        )
    net = graph.compile(ops.quantize(value, scales=[0.7], zps=[9], dtype="u8"))
    np.testing.assert_array_equal(net(x), np.clip(np.rint(truth / F32(0.7)) + 9, 0, 255).astype(np.uint8))
    assert len(net.explain().steps) == 1
