"""im2col and overlap-add against sums over single taps in NumPy."""

import numpy as np
import pytest

from dnnl_graph_ops import _core, dtypes, errors

from .kernel_cases import bits, blank, code, element_strides, random_strides, span, view
from .test_kernels_depthwise import Layer

pytestmark = pytest.mark.isa

kernels = _core.kernels
FLOATS = ("f32", "bf16", "f16")
# order of the columns' axes in memory: n, q (positions), k (kernel), c
LAYOUTS = ("nqkc", "nqck", "nckq", "any")


def columns_strides(rng, layer, layout):
    """The columns' shape (n, positions, kernel, c) and element strides."""
    rank = len(layer.kernel)
    shape = (layer.n, *layer.src_spatial, *layer.kernel, layer.c)
    if layout == "any":
        return shape, random_strides(rng, shape)
    axes = {"n": [0], "q": range(1, 1 + rank), "k": range(1 + rank, 1 + 2 * rank), "c": [1 + 2 * rank]}
    order = [axis for letter in layout for axis in axes[letter]]
    stored = np.empty([shape[axis] for axis in order], np.int8)
    return shape, element_strides(stored.transpose(np.argsort(order)))


def to_columns(layer, diff_dst, shape):
    result = np.zeros(shape)
    for tap, at, to in layer.taps():
        result[(slice(None), *at[2:], *tap)] = np.moveaxis(diff_dst[to], 1, -1)
    return result


def from_columns(layer, columns):
    result = np.zeros(layer.shapes["dst"])
    for tap, at, to in layer.taps():
        result[to] += np.moveaxis(columns[(slice(None), *at[2:], *tap)], -1, 1)
    return result


def geometry(layer):
    return kernels.LayerSizes(*layer.sizes())


def check(rng, layer, layout, dtype, has_bias=False):
    shape, strides = columns_strides(rng, layer, layout)
    diff_dst = layer.array(rng, "dst", dtype)
    expected = blank(span(shape, strides), "f32")
    view(expected, shape, strides)[...] = to_columns(layer, diff_dst.astype(np.float64), shape)
    result = blank(span(shape, strides), "f32")
    kernel = kernels.im2col(geometry(layer), code(dtype), layer.layouts["dst"], code("f32"), strides)
    kernel.run(diff_dst, result)
    np.testing.assert_array_equal(bits(result), bits(expected))

    columns = view(np.empty(span(shape, strides), np.float32), shape, strides)
    columns[...] = rng.integers(-4, 5, shape)
    bias = rng.integers(-4, 5, layer.c).astype(np.float32)
    expected = from_columns(layer, columns.astype(np.float64))
    if has_bias:
        expected += bias.reshape((-1,) + (1,) * len(layer.kernel))
    result = layer.blank("dst", dtype)
    arguments = (geometry(layer), strides, code(dtype), layer.layouts["dst"], has_bias, code("f32"))
    kernels.col2im(*arguments).run(columns, *([bias] if has_bias else []), result)
    rounded = expected.astype(np.float32).astype(dtypes.numpy_dtype(dtype))
    np.testing.assert_array_equal(bits(result + 0), bits(rounded + 0))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_layers(seed, rank, layout):
    for case in range(15):
        rng = np.random.default_rng([seed, rank, case])
        layer = Layer(rng, rank)
        dtype = str(rng.choice(FLOATS))
        print(f"seed {seed} rank {rank} {layout} case {case} {dtype}: {vars(layer)}")
        check(rng, layer, layout, dtype, bool(rng.random() < 0.5))


def signal(rng, channels, layout, length, kernel, stride, pad, cut):
    layer = Layer(rng, 1, channels, layout)
    layer.n, layer.src_spatial, layer.kernel = 2, (length,), (kernel,)
    layer.strides, layer.pads, layer.dilations = (stride,), (pad,), (1,)
    layer.dst_spatial = ((length - 1) * stride + kernel - pad - cut,)
    layer.shapes = {"src": (2, channels, length), "dst": (2, channels, *layer.dst_spatial)}
    layer.layouts = {name: layer.layout(rng, shape, layout) for name, shape in layer.shapes.items()}
    return layer


@pytest.mark.sweep
@pytest.mark.parametrize("columns", LAYOUTS)
@pytest.mark.parametrize("layout", ["NXC", "NCX"])
@pytest.mark.parametrize(
    ("channels", "length", "kernel", "stride", "pad", "cut"),
    [
        (1, 90, 256, 64, 128, 128),  # an inverse STFT: every output is the sum of four runs
        (1, 50, 100, 32, 7, 50),  # a kernel that is no multiple of the stride
        (3, 400, 16, 8, 0, -3),
        (40, 300, 10, 5, 2, 3),
        (17, 60, 3, 8, 1, 0),  # positions that no column meets
    ],
)
def test_signals(seed, columns, layout, channels, length, kernel, stride, pad, cut):
    rng = np.random.default_rng(seed)
    layer = signal(rng, channels, layout, length, kernel, stride, pad, cut)
    for dtype in FLOATS:
        check(rng, layer, columns, dtype, has_bias=True)


def test_empty_batch():
    layer = signal(np.random.default_rng(0), 8, "NXC", 5, 4, 2, 1, 1)
    layer.n = 0
    nothing = np.zeros(0, np.float32)
    strides = [160, 32, 8, 1]
    kernels.col2im(geometry(layer), strides, 3, layer.layouts["dst"]).run(nothing, nothing)
    kernels.im2col(geometry(layer), 3, layer.layouts["dst"], 3, strides).run(nothing, nothing)


@pytest.mark.parametrize("make", ["im2col", "col2im"])
def test_bad_arguments(make):
    layer = signal(np.random.default_rng(0), 8, "NXC", 5, 4, 2, 1, 1)
    where = layer.layouts["dst"]
    with pytest.raises(errors.InvalidArgumentError, match=make + ": col_strides has 3 entries, 4 are needed"):
        if make == "im2col":
            kernels.im2col(geometry(layer), 3, where, 3, [1, 2, 3])
        else:
            kernels.col2im(geometry(layer), [1, 2, 3], 3, where)
