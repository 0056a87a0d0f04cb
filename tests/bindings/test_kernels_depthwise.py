"""Depthwise transposed convolution and its gradients against sums over single taps in NumPy."""

import itertools

import numpy as np
import pytest
from children import child

from dnnl_graph_ops import _core, dtypes, errors
from dnnl_graph_ops.runtime.threads import using

from .kernel_cases import bits, blank, code, element_strides, random_strides, span, view

pytestmark = pytest.mark.isa

kernels = _core.kernels
LayerSizes, DepthwiseProblem = kernels.LayerSizes, kernels.DepthwiseProblem
FLOATS = ("f32", "bf16", "f16")


class Layer:
    """A random layer with data of small integers, so that every sum is exact in every order."""

    def __init__(self, rng, rank, channels=None, layout=None):
        def pick(*numbers):
            return tuple(int(rng.choice(numbers)) for _ in range(rank))

        self.n, self.c = (
            int(rng.choice([1, 1, 2, 3])),
            channels or int(rng.choice([1, 2, 3, 5, 7, 8, 9, 16, 21, 40])),
        )
        self.src_spatial = pick(1, 2, 3, 4, 7, 12) if rank > 1 else pick(1, 3, 17, 300)
        self.kernel, self.strides = pick(1, 2, 3, 4, 5), pick(1, 2, 3, 4)
        self.dilations, self.pads = pick(1, 1, 2, 3), pick(0, 1, 2, 5, -1)
        extra = pick(0, 0, 1, 3, -2)
        self.dst_spatial = tuple(
            max((i - 1) * s + (k - 1) * d + 1 - p + e, 1)
            for i, s, k, d, p, e in zip(
                self.src_spatial, self.strides, self.kernel, self.dilations, self.pads, extra, strict=True
            )
        )
        self.shapes = {
            "src": (self.n, self.c, *self.src_spatial),
            "weights": (self.c, *self.kernel),
            "dst": (self.n, self.c, *self.dst_spatial),
        }
        layout = layout or rng.choice(["NXC", "NCX", "any"])
        self.layouts = {name: self.layout(rng, shape, layout) for name, shape in self.shapes.items()}

    @staticmethod
    def layout(rng, shape, layout):
        if layout == "any":
            return random_strides(rng, shape)
        order = (0, *range(2, len(shape)), 1) if layout == "NXC" else range(len(shape))
        stored = np.empty([shape[axis] for axis in order], np.int8)
        return element_strides(stored.transpose(np.argsort(order)))

    def sizes(self):
        return (
            *(self.n, self.c, self.src_spatial, self.dst_spatial),
            *(self.kernel, self.strides, self.pads, self.dilations),
        )

    def arguments(self, dtype):
        return LayerSizes(*self.sizes()), code(dtype), *(self.layouts[name] for name in ("src", "weights", "dst"))

    def problem(self, dtype):
        return DepthwiseProblem(*self.arguments(dtype))

    def array(self, rng, name, dtype):
        """A strided array of small integers."""
        array = self.blank(name, dtype)
        array[...] = rng.integers(-4, 5, array.shape).astype(array.dtype)
        return array

    def blank(self, name, dtype):
        shape, strides = self.shapes[name], self.layouts[name]
        return view(blank(span(shape, strides), dtype), shape, strides)

    def taps(self):
        """For every tap, the kernel index and the slices of src and dst that it joins."""
        for tap in itertools.product(*map(range, self.kernel)):
            src, dst = [slice(None)] * 2, [slice(None)] * 2
            for axis, k in enumerate(tap):
                first = k * self.dilations[axis] - self.pads[axis]
                step, size = self.strides[axis], self.dst_spatial[axis]
                inside = [i for i in range(self.src_spatial[axis]) if 0 <= i * step + first < size]
                if not inside:
                    break
                src.append(slice(inside[0], inside[-1] + 1))
                dst.append(slice(inside[0] * step + first, inside[-1] * step + first + 1, step))
            else:
                yield tap, tuple(src), tuple(dst)

    def broadcast(self, weights, tap):
        return weights[(slice(None), *tap)].reshape((1, -1) + (1,) * len(tap))

    def forward(self, src, weights):
        result = np.zeros(self.shapes["dst"])
        for tap, at, to in self.taps():
            result[to] += src[at] * self.broadcast(weights, tap)
        return result

    def backward_data(self, diff_dst, weights):
        result = np.zeros(self.shapes["src"])
        for tap, to, at in self.taps():
            result[to] += diff_dst[at] * self.broadcast(weights, tap)
        return result

    def backward_weights(self, src, diff_dst):
        result = np.zeros(self.shapes["weights"])
        for tap, at, to in self.taps():
            product = src[at] * diff_dst[to]
            result[(slice(None), *tap)] = product.sum(axis=(0, *range(2, product.ndim)))
        return result


def double(array):
    return array.astype(np.float64)


def rounded(array, dtype):
    with np.errstate(over="ignore"):
        return array.astype(np.float32).astype(dtypes.numpy_dtype(dtype))


def assert_written(result, expected, dtype):
    np.testing.assert_array_equal(bits(result + 0), bits(rounded(expected, dtype) + 0))


def check_all(layer, dtype, rng, has_bias=False):
    src, weights, diff = (layer.array(rng, name, dtype) for name in ("src", "weights", "dst"))
    bias = rng.integers(-4, 5, layer.c).astype(np.float32)
    expected = layer.forward(double(src), double(weights))
    if has_bias:
        expected += bias.reshape((-1,) + (1,) * len(layer.kernel))
    result = layer.blank("dst", dtype)
    kernel = kernels.depthwise_dgrad(layer.problem(dtype), has_bias, bias_dtype=code("f32"))
    kernel.run(src, weights, *([bias] if has_bias else []), result)
    assert_written(result, expected, dtype)

    result = layer.blank("src", dtype)
    kernels.depthwise_fprop(layer.problem(dtype)).run(diff, weights, result)
    assert_written(result, layer.backward_data(double(diff), double(weights)), dtype)

    result = layer.blank("weights", dtype)
    kernels.depthwise_wgrad(layer.problem(dtype)).run(src, diff, result)
    assert_written(result, layer.backward_weights(double(src), double(diff)), dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("block", range(4))
def test_random_layers(seed, rank, dtype, block):
    for case in range(12):
        rng = np.random.default_rng([seed, rank, block, case])
        layer = Layer(rng, rank)
        print(f"seed {seed} rank {rank} {dtype} block {block} case {case}: {vars(layer)}")
        check_all(layer, dtype, rng, bool(rng.random() < 0.5))


@pytest.mark.sweep
@pytest.mark.parametrize("layout", ["NXC", "NCX"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("channels", "size", "kernel", "stride", "pad"),
    [
        (64, (24, 40), 4, 2, 1),
        (21, (9, 33), 16, 8, 4),
        (3, (40, 100), 4, 2, 1),
        (17, (20, 70), 3, 1, 1),
        (147, (28, 28), 3, 1, 1),  # sums in many parts, each of all channels
    ],
)
def test_layers_of_real_networks(seed, layout, dtype, channels, size, kernel, stride, pad):
    rng = np.random.default_rng(seed)
    layer = Layer(rng, 2, channels, layout)
    layer.n, layer.src_spatial, layer.kernel = 2, size, (kernel, kernel)
    layer.strides, layer.dilations, layer.pads = (stride, stride), (1, 1), (pad, pad)
    layer.dst_spatial = tuple((i - 1) * stride + kernel - 2 * pad for i in size)
    layer.shapes = {
        "src": (2, channels, *size),
        "weights": (channels, kernel, kernel),
        "dst": (2, channels, *layer.dst_spatial),
    }
    layer.layouts = {name: layer.layout(rng, shape, layout) for name, shape in layer.shapes.items()}
    check_all(layer, dtype, rng, True)


def test_long_signals(seed):
    """Rows are cut into pieces: one dimension, more outputs than a piece holds."""
    for layout, channels in (("NXC", 16), ("NCX", 2), ("NXC", 3)):
        rng = np.random.default_rng(seed)
        layer = Layer(rng, 1, channels, layout)
        layer.n, layer.src_spatial, layer.dst_spatial = 1, (7000,), (6999 * 5 + 12 - 3,)
        layer.kernel, layer.strides, layer.pads, layer.dilations = (12,), (5,), (2,), (1,)
        layer.shapes = {
            "src": (1, channels, 7000),
            "weights": (channels, 12),
            "dst": (1, channels, *layer.dst_spatial),
        }
        layer.layouts = {name: layer.layout(rng, shape, layout) for name, shape in layer.shapes.items()}
        check_all(layer, "f32", rng)


def test_sums_are_f32_and_rounded_once(seed):
    """bf16 products that would be lost if a partial sum were bf16."""
    rng = np.random.default_rng(seed)
    layer = Layer(rng, 1, 8, "NXC")
    layer.n, layer.src_spatial, layer.dst_spatial, layer.kernel = 1, (4,), (7,), (4,)
    layer.strides, layer.pads, layer.dilations = (1,), (0,), (1,)
    layer.shapes = {"src": (1, 8, 4), "weights": (8, 4), "dst": (1, 8, 7)}
    layer.layouts = {name: layer.layout(rng, shape, "NXC") for name, shape in layer.shapes.items()}
    src, weights = layer.array(rng, "src", "bf16"), layer.array(rng, "weights", "bf16")
    src[...] = np.array([256.0, 1.0, 1.0, -256.0])
    weights[...] = 1
    result = layer.blank("dst", "bf16")
    kernels.depthwise_dgrad(layer.problem("bf16")).run(src, weights, result)
    assert result[0, 0, 3] == 2


def test_absent_taps_do_not_meet_infinities():
    """An infinite weight only reaches the outputs that its tap has a source for."""
    for layout in ("NXC", "NCX"):
        layer = Layer(np.random.default_rng(0), 1, 8, layout)
        layer.n, layer.src_spatial, layer.dst_spatial, layer.kernel = 1, (2,), (4,), (3,)
        layer.strides, layer.pads, layer.dilations = (1,), (0,), (1,)
        layer.shapes = {"src": (1, 8, 2), "weights": (8, 3), "dst": (1, 8, 4)}
        layer.layouts = {name: layer.layout(None, shape, layout) for name, shape in layer.shapes.items()}
        src, weights, result = (
            layer.blank("src", "f32"),
            layer.blank("weights", "f32"),
            layer.blank("dst", "f32"),
        )
        src[...] = 1
        weights[...] = [1, 1, np.inf]
        kernels.depthwise_dgrad(layer.problem("f32")).run(src, weights, result)
        np.testing.assert_array_equal(result[0, 0], [1, 2, np.inf, np.inf])


def test_a_kernel_names_what_computes():
    problem = Layer(np.random.default_rng(3), 2, 64, "NXC").problem("f32")
    made = (kernels.depthwise_dgrad, kernels.depthwise_fprop, kernels.depthwise_wgrad)
    names = [f"depthwise_{what}_f32_{kernels.isa()}_channels" for what in ("dgrad", "fprop", "wgrad")]
    assert [make(problem).by for make in made] == names


def test_empty_batch():
    layer = Layer(np.random.default_rng(3), 2, 8, "NXC")
    layer.n = 0
    weights = layer.blank("weights", "f32")
    nothing = np.zeros(0, np.float32)
    kernels.depthwise_dgrad(layer.problem("f32")).run(nothing, weights, nothing)
    kernels.depthwise_fprop(layer.problem("f32")).run(nothing, weights, nothing)
    kernels.depthwise_wgrad(layer.problem("f32")).run(nothing, nothing, weights)
    np.testing.assert_array_equal(weights, 0)


@pytest.mark.parametrize("channels", [1000, 17])
def test_many_threads_share_the_channels_of_a_line(rng, channels):
    src, weights = (rng.standard_normal(shape).astype(np.float32) for shape in ((200, channels), (channels, 3)))
    layer = kernels.LayerSizes(1, channels, (200,), (200,), (3,), (1,), (1,), (1,))
    strides = (src.size, 1, channels)
    problem = kernels.DepthwiseProblem(layer, code("f32"), strides, (3, 1), strides)
    results = [np.full_like(src, np.nan) for _ in range(3)]
    for threads, result in zip((1, 7, 24), results, strict=True):
        with using(threads):
            kernels.depthwise_dgrad(problem).run(src, weights, result)
    padded = np.pad(src, [(1, 1), (0, 0)])
    exact = sum(padded[2 - tap : 202 - tap].astype(np.float64) * weights[:, tap] for tap in range(3))
    np.testing.assert_allclose(results[0], exact, rtol=1e-5, atol=1e-5)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


GRADIENT_BITS = """
import sys, numpy as np
from dnnl_graph_ops import _core
rng = np.random.default_rng(int(sys.argv[1]))
for c_stride, channels in ((1, 24), (None, 3)):
    src = rng.standard_normal((2, 40, 50, channels)).astype(np.float32)
    diff = rng.standard_normal((2, 80, 100, channels)).astype(np.float32)
    out = np.empty((channels, 4, 4), np.float32)
    strides = [[a.strides[i] // 4 for i in (0, 3, 1, 2)] for a in (src, diff)]
    layer = _core.kernels.LayerSizes(2, channels, (40, 50), (80, 100), (4, 4), (2, 2), (1, 1), (1, 1))
    problem = _core.kernels.DepthwiseProblem(layer, 3, strides[0], [16, 4, 1], strides[1])
    _core.kernels.depthwise_wgrad(problem).run(src, diff, out)
    print(out.tobytes().hex())
"""


@pytest.mark.child
def test_gradient_does_not_depend_on_the_number_of_threads(seed):
    results = []
    for threads in ("1", "2", "5"):
        done = child("-c", GRADIENT_BITS, str(seed), OMP_NUM_THREADS=threads)
        assert done.returncode == 0, done.stderr
        results.append(done.stdout)
    assert len(results[0]) > 1000
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (1, -1, r"\(n, c\) contains -1"),
        (2, (1, 2, 3, 4), "src_spatial has 4 axes, 1 to 3 are possible"),
        (3, (3,), "dst_spatial has 1 entries, 2 are needed"),
        (5, (0, 1), "strides contains 0, at least 1 is needed"),
        (8, 4, "data type 4 is not f32, bf16 or f16"),
        (9, (1, 2, 3), "src_strides has 3 entries, 4 are needed"),
        (11, (1, 2, 3, -4), "dst_strides contains -4, at least 0 is needed"),
    ],
)
def test_bad_arguments(position, value, message):
    layer = Layer(np.random.default_rng(1), 2, 8, "NXC")
    arguments = [*layer.sizes(), *layer.arguments("f32")[1:]]
    arguments[position] = value
    sizes, rest = arguments[:8], arguments[8:]
    with pytest.raises(
        errors.InvalidArgumentError, match=message if position == 8 else "depthwise_dgrad: .*" + message
    ):
        kernels.depthwise_dgrad(DepthwiseProblem(LayerSizes(*sizes), *rest))
