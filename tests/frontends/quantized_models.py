"""Random ONNX models of operators on integers (QLinearConv and others), of 2 to 12 nodes, against NumPy to the bit.

`python -m frontends.quantized_models SEED START STOP` prints a line before each, and one that starts with FAILURE for
each that differs. Scales are powers of two and zero points even, so that ties are the same however the quotient and the
zero point are added.
"""

import sys
from typing import NamedTuple

import numpy as np
from children import print_failures
from onnx import TensorProto, helper, numpy_helper

import dnnl_graph_ops as dgo

TYPES = {"u8": np.dtype(np.uint8), "s8": np.dtype(np.int8)}
CONTRIBUTED = "com.microsoft"


class Integers(NamedTuple):
    """A tensor by name with its numbers, as many times a power of two from a zero point on."""

    name: str
    numbers: np.ndarray
    step: int
    point: int

    @property
    def exact(self):
        return (self.numbers.astype(np.float64) - self.point) * 2.0**self.step


class Maker:
    """One random model: a chain of nodes that now and then meets what came before."""

    def __init__(self, seed, number):
        self.rng = np.random.default_rng([seed, number])
        self.nodes, self.weights = [], []
        self.x = self.drawn((1, self.pick([1, 3, 4, 8, 16]), self.integer(3, 7), self.integer(3, 7)), "x")
        self.values = [self.x]

    def integer(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def pick(self, items):
        return items[self.integer(0, len(items) - 1)]

    def dtype(self):
        return TYPES[self.pick(["u8", "u8", "s8"])]

    def point(self, dtype):
        if self.rng.random() < 0.3:
            return 0
        return 2 * (self.integer(0, 60) if dtype == np.uint8 else self.integer(-30, 30))

    def drawn(self, shape, name):
        dtype = self.dtype()
        ends = np.iinfo(dtype)
        numbers = self.rng.integers(ends.min, ends.max, shape, endpoint=True).astype(dtype)
        return Integers(name, numbers, self.integer(-5, -2), self.point(dtype))

    def constant(self, array):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def scale(self, value):
        """The names of a scale and a zero point."""
        return self.constant(np.float32(2.0**value.step)), self.constant(value.numbers.dtype.type(value.point))

    def result(self, exact, dtype=None):
        """The numbers nearest to what is exact, as wide as they are; sums of steps so near each other fit into f32."""
        dtype = dtype or self.dtype()
        point, most = self.point(dtype), max(np.abs(exact).max(initial=0), 2.0**-5)
        step = int(np.clip(np.ceil(np.log2(most)) - self.integer(6, 9), -8, 4))
        ends = np.iinfo(dtype)
        numbers = np.clip(np.rint(exact / 2.0**step + point), ends.min, ends.max).astype(dtype)
        return Integers(f"v{len(self.nodes)}", numbers, step, point)

    def node(self, kind, inputs, value, domain="", **attrs):
        self.nodes.append(helper.make_node(kind, inputs, [value.name], domain=domain, **attrs))
        self.values.append(value)

    def factor(self, shape, axis):
        """Constant weights, the names of all that describes them, the numbers times steps, and the steps."""
        dtype = self.dtype()
        ends = np.iinfo(dtype)
        numbers = self.rng.integers(ends.min, ends.max, shape, endpoint=True).astype(dtype)
        count = shape[axis] if self.rng.random() < 0.5 else 1
        steps = self.rng.integers(-6, -2, count)
        point = 0 if dtype == np.int8 and self.rng.random() < 0.8 else self.point(dtype)
        spread = [-1 if a == axis else 1 for a in range(len(shape))]
        exact = (numbers.astype(np.float64) - point) * (2.0**steps).reshape(spread if count > 1 else [1] * len(shape))
        scales, points = (2.0**steps).astype(np.float32), np.full(count, point, dtype)
        if count == 1:
            scales, points = scales[0], points[0]
        return [self.constant(numbers), self.constant(scales), self.constant(points)], exact, steps

    def convolution(self):
        x = self.values[-1]
        reads, kernel, stride = x.numbers.shape[1], self.pick([1, 2, 3]), self.pick([1, 1, 2])
        groups = self.pick([1, 1, 1, reads])
        makes = reads if groups > 1 else self.pick([1, 4, 8, 16])
        pad = self.integer(0, kernel // 2)
        if min(x.numbers.shape[2:]) + 2 * pad < kernel:
            return
        names, w, steps = self.factor((makes, reads // groups, kernel, kernel), 0)
        padded = np.pad(x.exact, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
        windows = windows.reshape(1, groups, reads // groups, *windows.shape[2:])
        exact = np.einsum("ngihwyx,goiyx->ngohw", windows, w.reshape(groups, -1, *w.shape[1:]), optimize=True)
        exact = exact.reshape(1, makes, *exact.shape[3:])
        bias = []
        if self.rng.random() < 0.6:
            numbers = self.rng.integers(-(2**12), 2**12, makes).astype(np.int32)
            exact = exact + (numbers * 2.0 ** (x.step + np.broadcast_to(steps, makes))).reshape(-1, 1, 1)
            bias = [self.constant(numbers)]
        value = self.result(exact)
        inputs = [x.name, *self.scale(x), *names, *self.scale(value), *bias]
        self.node("QLinearConv", inputs, value, group=groups, strides=[stride] * 2, pads=[pad] * 4)

    def matmul(self):
        x = self.values[-1]
        names, w, _ = self.factor((x.numbers.shape[-1], self.pick([1, 5, 16])), 1)
        value = self.result(x.exact @ w)
        self.node("QLinearMatMul", [x.name, *self.scale(x), *names, *self.scale(value)], value)

    def binary(self):
        x = self.values[-1]
        same = [y for y in self.values if y.numbers.shape == x.numbers.shape]
        y = self.pick(same)
        kind, compute = self.pick([("QLinearAdd", np.add), ("QLinearMul", np.multiply)])
        if y.numbers.dtype != x.numbers.dtype:
            return
        value = self.result(compute(x.exact, y.exact), x.numbers.dtype)
        self.node(kind, [x.name, *self.scale(x), y.name, *self.scale(y), *self.scale(value)], value, CONTRIBUTED)

    def leaky(self):
        x = self.values[-1]
        value = self.result(np.where(x.exact < 0, 0.5 * x.exact, x.exact), x.numbers.dtype)
        self.node("QLinearLeakyRelu", [x.name, *self.scale(x), *self.scale(value)], value, CONTRIBUTED, alpha=0.5)

    def mean(self):
        x = self.values[-1]
        if min(x.numbers.shape[2:]) < 2:
            return
        windows = np.lib.stride_tricks.sliding_window_view(x.exact, (2, 2), (2, 3))
        value = self.result(windows.mean((-2, -1)), x.numbers.dtype)
        names = [x.name, *self.scale(x), *self.scale(value)]
        self.node("QLinearAveragePool", names, value, CONTRIBUTED, kernel_shape=[2, 2], strides=[1, 1])

    def floats(self):
        """Through floats, with an addition of other integers now and then."""
        x, tag = self.values[-1], len(self.nodes)
        exact, read = x.exact, f"f{tag}"
        self.nodes.append(helper.make_node("DequantizeLinear", [x.name, *self.scale(x)], [read]))
        same = [y for y in self.values if y.numbers.shape == x.numbers.shape]
        if self.rng.random() < 0.5:
            y = self.pick(same)
            self.nodes.append(helper.make_node("DequantizeLinear", [y.name, *self.scale(y)], [f"g{tag}"]))
            self.nodes.append(helper.make_node("Add", [read, f"g{tag}"], [f"h{tag}"]))
            exact, read = exact + y.exact, f"h{tag}"
        if self.rng.random() < 0.5:
            self.nodes.append(helper.make_node("Relu", [read], [f"r{tag}"]))
            exact, read = np.maximum(exact, 0), f"r{tag}"
        value = self.result(exact)
        self.node("QuantizeLinear", [read, *self.scale(value)], value)

    def model(self):
        """The model, whose results are its last value and one from the middle."""
        steps = [*[self.convolution] * 5, *[self.matmul] * 2, *[self.binary] * 2, self.leaky, self.mean, self.floats]
        count = self.integer(2, 10)
        for _ in range(30):
            if len(self.nodes) < count:
                self.pick(steps)()
        results = list({value.name: value for value in (self.pick(self.values), self.values[-1])}.values())
        results = [value for value in results if value is not self.x] or [self.values[-1]]

        def info(value):
            code = TensorProto.UINT8 if value.numbers.dtype == np.uint8 else TensorProto.INT8
            return helper.make_tensor_value_info(value.name, code, value.numbers.shape)

        graph = helper.make_graph(self.nodes, "integers", [info(self.x)], list(map(info, results)), self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIBUTED, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9), results


def check(seed, number):
    """What differs, or nothing."""
    maker = Maker(seed, number)
    proto, results = maker.model()
    if len(maker.values) == 1:
        return
    for tune in ("heuristic", "off"):
        net = dgo.from_onnx(proto).compile(tune=tune)
        found = net.run({"x": maker.x.numbers})
        for value in results:
            wrong = found[value.name] != value.numbers
            if found[value.name].dtype != value.numbers.dtype or np.any(wrong):
                kinds = [node.op_type for node in maker.nodes]
                yield f"{tune}: {value.name}, {np.mean(wrong):.3f} of it, {kinds}"


if __name__ == "__main__":
    print_failures(check, *map(int, sys.argv[1:]))
