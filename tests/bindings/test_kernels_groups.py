"""Small groups of channels, in vectors of all channels, against sums over single taps in NumPy."""

import numpy as np
import pytest
from children import child

from dnnl_graph_ops import _core, errors

from .kernel_cases import blank, code, random_strides, span, view
from .test_kernels_depthwise import FLOATS, Layer, assert_written, double

pytestmark = pytest.mark.isa

kernels = _core.kernels
# channels of a group that fill a vector, a part of it, or several
WIDTHS = (2, 3, 4, 5, 6, 7, 8, 12, 16, 32)


class Groups(Layer):
    """A random layer of groups, channels last; weights in any layout: group, in channel, out channel, kernel."""

    def __init__(self, rng, rank, width):
        least = -(-16 // width)
        super().__init__(rng, rank, width * int(rng.integers(least, least + 4)), "NXC")
        self.width = width
        self.shapes["weights"] = (self.c // width, width, width, *self.kernel)
        self.layouts["weights"] = random_strides(rng, self.shapes["weights"])

    def problem(self, dtype):
        return kernels.DepthwiseProblem(*self.arguments(dtype), self.width)

    def product(self, array, weights, tap, forward):
        """What one tap makes of channels, as an array of all channels."""
        n, _, *spatial = array.shape
        one = weights[(slice(None), slice(None), slice(None), *tap)]
        grouped = array.reshape(n, self.c // self.width, self.width, *spatial)
        done = np.einsum("ngi...,gio->ngo..." if forward else "ngo...,gio->ngi...", grouped, one)
        return done.reshape(array.shape)

    def gathered(self, array, weights, forward):
        result = np.zeros(self.shapes["dst" if forward else "src"])
        for tap, src, dst in self.taps():
            at, to = (src, dst) if forward else (dst, src)
            result[to] += self.product(array[at], weights, tap, forward)
        return result


def check(layer, dtype, forward, rng):
    packed, has_bias = rng.random(2) < 0.5
    names = ("src", "dst") if forward else ("dst", "src")
    source, weights = layer.array(rng, names[0], dtype), layer.array(rng, "weights", dtype)
    bias = rng.integers(-4, 5, layer.c).astype(np.float32)
    expected = layer.gathered(double(source), double(weights), forward)
    if has_bias:
        expected += bias.reshape((-1,) + (1,) * len(layer.kernel))
    problem, operand = layer.problem(dtype), weights
    if packed:
        packing, floats, *_ = kernels.depthwise_packing(problem, forward)
        operand = np.full(floats, np.nan, np.float32)
        packing.run(weights, operand)
    make = kernels.depthwise_dgrad if forward else kernels.depthwise_fprop
    # what lies behind the result is not written
    shape, strides = layer.shapes[names[1]], layer.layouts[names[1]]
    memory = blank(span(shape, strides) + 64, dtype)
    result = view(memory, shape, strides)
    kernel = make(problem, bool(has_bias), code("f32"), bool(packed))
    kernel.run(source, operand, *([bias] if has_bias else []), result)
    assert_written(result, expected, dtype)
    assert set(memory[span(shape, strides) :].view(np.uint8)) == {0xA5}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_random_layers(seed, width, dtype):
    for case in range(12):
        rng = np.random.default_rng([seed, width, case])
        layer = Groups(rng, int(rng.integers(1, 4)), width)
        if not kernels.gathers_groups(layer.c, width):
            assert width not in (2, 4, 8, 32)
            continue
        forward = bool(rng.random() < 0.5)
        print(f"seed {seed} width {width} {dtype} case {case} forward {forward}: {vars(layer)}")
        check(layer, dtype, forward, rng)


def check_gradient(layer, dtype, rng):
    src, dst = (layer.array(rng, name, dtype) for name in ("src", "dst"))
    expected = np.zeros(layer.shapes["weights"])
    for tap, at, to in layer.taps():
        groups = layer.n, layer.c // layer.width, layer.width, -1
        met = [double(array)[places].reshape(groups) for array, places in ((src, at), (dst, to))]
        expected[(..., *tap)] = np.einsum("ngip,ngop->gio", *met)
    shape, strides = layer.shapes["weights"], layer.layouts["weights"]
    memory = blank(span(shape, strides), dtype)
    result = view(memory, shape, strides)
    kernels.depthwise_wgrad(layer.problem(dtype)).run(src, dst, result)
    assert_written(result, expected, dtype)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("width", (2, 4, 8, 16, 32))
@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients(seed, width, dtype):
    for case in range(8):
        rng = np.random.default_rng([seed, width, case])
        layer = Groups(rng, int(rng.integers(1, 4)), width)
        if not kernels.gathers_groups(layer.c, width, True):
            assert width not in (2, 4, 32)
            continue
        print(f"seed {seed} width {width} {dtype} case {case}: {vars(layer)}")
        check_gradient(layer, dtype, rng)


def test_narrow_layers(seed):
    """Fewer channels than the widest vector has lanes."""
    for width in (2, 3, 4):
        rng = np.random.default_rng([seed, width])
        layer = Groups(rng, 2, width)
        layer.c = 12
        for name in ("src", "dst"):
            layer.shapes[name] = (layer.n, 12, *layer.shapes[name][2:])
            layer.layouts[name] = layer.layout(rng, layer.shapes[name], "NXC")
        layer.shapes["weights"] = (12 // width, width, width, *layer.kernel)
        layer.layouts["weights"] = random_strides(rng, layer.shapes["weights"])
        check(layer, "f32", True, rng)
        check(layer, "f32", False, rng)


def test_weights_beyond_the_nearest_cache(seed):
    """Tiles of several results read them as they lie, not turned."""
    rng = np.random.default_rng(seed)
    layer = Groups(rng, 3, 8)
    layer.kernel, layer.shapes["weights"] = (5, 5, 5), (*layer.shapes["weights"][:3], 5, 5, 5)
    layer.layouts["weights"] = random_strides(rng, layer.shapes["weights"])
    check(layer, "f32", True, rng)
    check(layer, "f32", False, rng)


def test_groups_without_a_kernel():
    layer = kernels.LayerSizes(1, 34, (4,), (4,), (1,), (1,), (0,), (1,))
    assert not kernels.gathers_groups(34, 17)
    with pytest.raises(errors.InvalidArgumentError, match="groups of 17 of 34 channels have no kernel"):
        problem = kernels.DepthwiseProblem(layer, code("f32"), (136, 1, 34), (289, 17, 1, 1), (136, 1, 34), 17)
        kernels.depthwise_dgrad(problem)
    with pytest.raises(errors.InvalidArgumentError, match="channels last"):
        layer = kernels.LayerSizes(1, 16, (4,), (4,), (1,), (1,), (0,), (1,))
        problem = kernels.DepthwiseProblem(layer, code("f32"), (64, 4, 1), (4, 2, 1, 1), (64, 1, 16), 2)
        kernels.depthwise_dgrad(problem)
    with pytest.raises(errors.InvalidArgumentError, match="no gradient of groups of 3 channels"):
        layer = kernels.LayerSizes(1, 18, (4,), (4,), (1,), (1,), (0,), (1,))
        problem = kernels.DepthwiseProblem(layer, code("f32"), (72, 1, 18), (9, 3, 1, 1), (72, 1, 18), 3)
        kernels.depthwise_wgrad(problem)


GROUPS_BITS = """
import numpy as np
from dnnl_graph_ops import _core
kernels = _core.kernels
rng = np.random.default_rng(0)
for width in (1, 4, 16):
    src, weights = (rng.standard_normal(size).astype(np.float32) for size in (2 * 30 * 31 * 48, 48 * width * 9))
    strides = (30 * 31 * 48, 1, 31 * 48, 48)
    layer = kernels.LayerSizes(2, 48, (30, 31), (30, 31), (3, 3), (1, 1), (1, 1), (1, 1))
    order = (9, 3, 1) if width == 1 else (width * width * 9, width * 9, 9, 3, 1)
    problem = kernels.DepthwiseProblem(layer, 3, strides, order, strides, width)
    for make in (kernels.depthwise_dgrad, kernels.depthwise_fprop):
        # wherever it begins in memory
        for start in (0, 1, 4):
            memory = np.zeros(src.size + 64, np.float32)
            start += -(memory.ctypes.data // 4) % 16
            memory[start : start + src.size] = src
            out = np.full(src.size, np.nan, np.float32)
            make(problem).run(memory[start : start + src.size], weights, out)
            print(out.tobytes().hex()[:4000], hash(out.tobytes()))
"""


@pytest.mark.child
def test_threads_and_addresses_change_no_bits():
    results = []
    for threads in ("1", "2"):
        done = child("-c", GROUPS_BITS, OMP_NUM_THREADS=threads, PYTHONHASHSEED="0")
        assert done.returncode == 0, done.stderr
        results.append(done.stdout)
    assert results[0] == results[1]
    lines = results[0].splitlines()
    assert len(lines) == 18
    assert all(len(set(lines[i : i + 3])) == 1 for i in range(0, 18, 3))
