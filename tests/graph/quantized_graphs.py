"""Random graphs between integers, of 2 to 12 ops, whose numbers f32 holds exactly: results are NumPy's to the bit.

`python -m graph.quantized_graphs SEED START STOP` compares them, and prints a line before each and a line that starts
with FAILURE for each that differs. Scales are powers of two and zero points even, so that ties are the same however the
quotient and the zero point are added.
"""

import sys
from typing import NamedTuple

import numpy as np
from children import print_failures
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

MOST_OPS = 12
ENDS = {"s8": (-128, 127), "u8": (0, 255)}
# of f32, and room for sums whose bound is not reached
BITS = 2.0**24


class Wide(NamedTuple):
    """A value of f32: whole multiples of 2^step, of at most `most` steps; `source` is what a Dequantize read."""

    value: object
    step: int
    most: float
    source: object = None


class Maker:
    """One random graph; every value lies as (N, C, H, W), or in NXC order."""

    def __init__(self, seed, number):
        self.rng = np.random.default_rng([seed, number])
        self.graph = dgo.Graph()
        self.last = self.rng.random() < 0.5
        self.format = "NXC" if self.last else "NCX"
        self.ints = [self.source()]
        self.wides: list[Wide] = []

    def integer(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def pick(self, items):
        return items[self.integer(0, len(items) - 1)]

    def shape(self, channels, *sides):
        batch = 1
        return (batch, *sides, channels) if self.last else (batch, channels, *sides)

    def channels(self, value):
        return value.shape[-1 if self.last else 1]

    def side(self, value):
        return min(value.shape[1:3] if self.last else value.shape[2:])

    def source(self, shape=None):
        if shape is None:
            shape = self.shape(self.pick([1, 3, 4, 8, 16, 20]), self.integer(2, 6), self.integer(2, 6))
        return self.graph.input(f"x{len(self.graph.inputs)}", shape, self.pick([*ENDS]))

    def numbers(self, dtype, axis=None, size=1, plain=0.4):
        """Attributes of a Dequantize or Quantize, and the step and largest multiple of what it reads."""
        count = size if axis is not None and self.rng.random() < 0.5 else 1
        steps = [self.integer(-5, -2) for _ in range(count)]
        even = 2 * self.integer(0, 60) if dtype == "u8" else 2 * self.integer(-30, 30)
        point = 0 if self.rng.random() < plain else even
        by = {} if count == 1 else {"qtype": "per_channel", "axis": axis}
        most = max(abs(end - point) for end in ENDS[dtype]) * 2.0 ** (max(steps) - min(steps))
        return {"scales": [2.0**step for step in steps], "zps": [point] * count, **by}, min(steps), most

    def dequantize(self):
        source = self.pick(self.ints[-3:])
        axis = source.ndim - 1 if self.last else 1
        axis = axis if self.rng.random() < 0.15 else None
        attrs, step, most = self.numbers(source.dtype, axis, self.channels(source))
        self.wides.append(Wide(ops.dequantize(source, **attrs), step, most, source))

    def quantize(self, latest=2):
        wide = self.pick(self.wides[-latest:])
        dtype = self.pick([*ENDS])
        attrs, _, _ = self.numbers(dtype)
        # about as many integers as there are
        reach = round(np.log2(wide.most)) + wide.step - self.integer(7, 10)
        attrs["scales"] = [2.0**reach]
        self.ints.append(ops.quantize(wide.value, dtype=dtype, **attrs))

    def weights(self, shape, axis):
        """Mostly as quantizers write them: s8, by output channel or not, no zero point."""
        dtype = "s8" if self.rng.random() < 0.8 else "u8"
        wrong = self.rng.random() < 0.1
        along = self.integer(0, len(shape) - 1) if wrong and axis is None else axis
        attrs, step, most = self.numbers(dtype, along, shape[along or 0], plain=0.8)
        array = self.rng.integers(*ENDS[dtype], shape, endpoint=True).astype(dgo.dtypes.numpy_dtype(dtype))
        return ops.dequantize(self.graph.constant(array), **attrs), step, most

    def product(self, transposed=False):
        x = self.pick(self.wides)
        reads, kernel = self.channels(x.value), self.pick([1, 2, 3])
        groups = self.pick([1, 1, 1, 2, reads])
        makes = self.pick([1, 3, 8, 16, 32])
        if groups == reads:
            makes = reads
        if reads % groups or makes % groups:
            groups = 1
        pair = (makes, reads // groups) if not transposed else (reads, makes // groups)
        if self.last:
            shape, axis = (kernel, kernel, *pair[::-1]), 2 if transposed else 3
            weights_format = "XOI" if transposed else "XIO"
        else:
            shape, axis = (*pair, kernel, kernel), 1 if transposed else 0
            weights_format = "IOX" if transposed else "OIX"
        w, step, most = self.weights(shape, axis)
        found = self.bias(x, step, most * reads // groups * kernel**2, makes)
        if found is None or (not transposed and self.side(x.value) < kernel):
            return
        operands, step, most = found
        build = ops.conv_transpose if transposed else ops.convolution
        pad = self.integer(0, kernel // 2)
        strides = self.pick([1, 1, 2, 4 if transposed else 2])
        if transposed and (self.side(x.value) - 1) * strides + kernel <= 2 * pad:
            return
        attrs = {"pads_begin": pad, "pads_end": pad, "strides": strides, "groups": groups}
        if transposed and strides > 1:
            attrs["output_padding"] = self.integer(0, 1)
        value = build(x.value, w, *operands, **attrs, data_format=self.format, weights_format=weights_format)
        self.wides.append(Wide(value, step, most))

    def bias(self, x, step, most, size):
        """Operands beside the first two, step and bound of the sum; None: beyond f32."""
        step, most = x.step + step, x.most * most
        if most > BITS / 2:
            return None
        array = self.rng.integers(-(2**12), 2**12, size) * 2.0**step
        return [self.graph.constant(array.astype(np.float32))] * (self.rng.random() < 0.6), step, most + 2**12

    def matmul(self):
        x = self.pick(self.wides)
        terms, makes = x.value.shape[-1], self.pick([1, 4, 16, 24])
        flipped = self.rng.random() < 0.3
        axis = 0 if flipped else 1
        # along the sum, too
        w, step, most = self.weights((makes, terms) if flipped else (terms, makes), self.pick([axis, axis, None]))
        found = self.bias(x, step, most * terms, makes)
        if found is not None:
            operands, step, most = found
            self.wides.append(Wide(ops.matmul(x.value, w, *operands, transpose_b=flipped), step, most))

    def pool(self):
        x = self.pick(self.wides)
        kind, pad = self.pick(["avg_pool", "max_pool"]), self.integer(0, 1)
        exclude = {"exclude_pad": self.rng.random() < 0.5} if kind == "avg_pool" else {}
        if x.most * 4 > BITS or self.side(x.value) < 2:
            return
        value = getattr(ops, kind)(
            x.value, kernel=[2, 2], strides=[self.pick([1, 2])] * 2, pads_begin=[pad] * 2, pads_end=[pad] * 2,
            data_format=self.format, **exclude,
        )  # fmt: skip
        self.wides.append(Wide(value, x.step - 2, x.most * 4) if exclude else Wide(value, x.step, x.most))

    def unary(self, latest=2):
        x = self.pick(self.wides[-latest:])
        kind = self.pick(["relu", "relu", "leaky_relu", "clamp", "abs"])
        attrs = {"leaky_relu": {"alpha": 0.5}, "clamp": {"min": -2.0, "max": 6.0}}.get(kind, {})
        halved = kind == "leaky_relu"
        if x.most * 2 <= BITS and (kind != "clamp" or x.step < 1):
            value = getattr(ops, kind)(x.value, **attrs)
            self.wides.append(Wide(value, x.step - halved, max(x.most * (1 + halved), 6 * 2.0**-x.step)))

    def binary(self, latest=2):
        x = self.pick(self.wides[-latest:])
        same = [y for y in self.wides if y.value.shape == x.value.shape]
        kind = self.pick(["add", "add", "add", "maximum", "multiply", "subtract"])
        if self.rng.random() < 0.3:
            source = self.source(x.value.shape)
            attrs, step, most = self.numbers(source.dtype)
            same = [Wide(ops.dequantize(source, **attrs), step, most, source)]
            self.wides.insert(0, same[0])
        elif self.rng.random() < 0.3:
            size = self.pick([(1,), self.shape(self.channels(x.value), 1, 1) if x.value.ndim == 4 else (1,)])
            array = self.rng.integers(1, 9, size) * 0.25
            same = [Wide(self.graph.constant(array.astype(np.float32)), -2, 32.0)]
        y = self.pick(same)
        step = x.step + y.step if kind == "multiply" else min(x.step, y.step)
        most = x.most * y.most if kind == "multiply" else sum(v.most * 2.0 ** (v.step - step) for v in (x, y))
        if most <= BITS:
            self.wides.append(Wide(getattr(ops, kind)(x.value, y.value), step, most))

    def layer(self):
        """As quantizers write it: a product, what follows it, and integers again."""
        self.pick([self.product, lambda: self.product(True), self.matmul])()
        for step in (self.unary, self.binary, self.unary):
            if self.rng.random() < 0.5:
                step(1)
        self.quantize(1)
        self.dequantize()

    def build(self):
        """The outputs."""
        self.dequantize()
        steps = [*[self.layer] * 4, *[self.product] * 2, lambda: self.product(True), self.matmul, self.pool,
                 *[self.unary] * 2, *[self.binary] * 2, *[self.quantize] * 2, self.dequantize]  # fmt: skip
        count = self.integer(2, MOST_OPS)
        for _ in range(40):
            if len(self.graph.nodes) >= count:
                break
            self.pick(steps)()
        if self.rng.random() < 0.7 and len(self.graph.nodes) < count + 1:
            self.quantize()
        read = {value for node in self.graph.nodes for value in node.inputs}
        ends = [node.outputs[0] for node in self.graph.nodes if node.outputs[0] not in read]
        inner = [node.outputs[0] for node in self.graph.nodes if self.rng.random() < 0.05]
        return list(dict.fromkeys(ends + inner))

    def data(self):
        found = {}
        for value in self.graph.inputs:
            low, high = ENDS[value.dtype]
            drawn = self.rng.integers(low, high, value.shape, endpoint=True)
            if self.rng.random() < 0.3:
                drawn = np.where(self.rng.random(value.shape) < 0.5, low, high)
            found[value] = drawn.astype(dgo.dtypes.numpy_dtype(value.dtype))
        return found


def check(seed, number):
    """What differs, or nothing."""
    maker = Maker(seed, number)
    outputs = maker.build()
    data = evaluate_built(maker.graph, maker.data())
    for tune in ("heuristic", "off"):
        net = maker.graph.compile(outputs, tune=tune)
        results = net(*(data[value] for value in net.inputs))
        results = results if isinstance(results, tuple | list) else [results]
        for value, result in zip(outputs, results, strict=True):
            wrong = result != data[value]
            if result.dtype != data[value].dtype or np.any(wrong):
                yield f"{tune}: {value}, {np.mean(wrong):.3f} of it, {[part.kinds for part in net.partitions]}"


if __name__ == "__main__":
    print_failures(check, *map(int, sys.argv[1:]))
