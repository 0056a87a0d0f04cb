"""Gradients of resampling and average pooling in NumPy, and memory of the tensors' size both ways."""

import math
import resource
import sys

import numpy as np
import pytest
from children import child
from reference import windows as truth

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.backends.host_ops import HOST

GIGABYTE = 2**30


def run(kind, attrs, inputs, shape):
    """The host rule by itself: it serves attributes that the library has kernels for as well."""
    rule = HOST[kind](attrs, [array.shape for array in inputs], shape)
    return rule(attrs, inputs, shape)[0]


def laid_out(shape, spatial, data_format):
    n, c = shape
    return (n, *spatial, c) if data_format == "NXC" else (n, c, *spatial)


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "bilinear", "trilinear"])
def test_two_taps_give_what_the_dense_matrix_gives(mode, coordinates, data_format, rng):
    for case in range(60):
        rank = int(rng.integers(1, 4))
        sizes, targets = (tuple(map(int, rng.integers(1, 10, rank))) for _ in range(2))
        if case % 3 == 0:
            # weights and their products are then exact
            sizes, targets = (tuple(2 ** int(rng.integers(0, 5)) for _ in range(rank)) for _ in range(2))
        channels = tuple(map(int, rng.integers(1, 4, 2)))
        src, dst = laid_out(channels, sizes, data_format), laid_out(channels, targets, data_format)
        attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "data_format": data_format}
        x, diff = (rng.integers(-9, 10, shape).astype(np.float64) for shape in (src, dst))
        gradient = truth.interpolate_backward(x, diff, sizes=targets, **attrs)
        exact = mode == "nearest" or (case % 3 == 0 and coordinates == "half_pixel")
        check = np.testing.assert_array_equal if exact else near
        check(run("InterpolateBackward", attrs, [x, diff], src), gradient)


def near(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


def test_an_infinity_stays_with_those_that_read_it():
    x = np.float32([[[1, np.inf, 2]]])
    graph = dgo.Graph()
    attrs = {"mode": "linear", "coordinate_transformation_mode": "align_corners", "data_format": "NCX"}
    net = graph.compile(ops.interpolate(graph.input("x", x.shape), sizes=(5,), **attrs))
    np.testing.assert_array_equal(net(x), np.float32([[[1, np.inf, np.inf, np.inf, 2]]]))


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_the_gradient_of_nothing_is_zero(mode, coordinates):
    graph = dgo.Graph()
    src, diff = graph.input("src", (1, 2, 5)), graph.input("diff", (1, 2, 0))
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "data_format": "NCX"}
    net = graph.compile(ops.interpolate_backward(src, diff, scales=(0.1,), **attrs))
    assert net(np.ones((1, 2, 5), np.float32), np.ones((1, 2, 0), np.float32)).tolist() == [[[0] * 5] * 2]


def pooling(rng):
    """Sizes and attributes of an average pooling, and how many positions it takes."""
    while True:
        rank = int(rng.integers(1, 4))
        size, kernel, stride = (tuple(map(int, rng.integers(1, high, rank))) for high in (9, 7, 5))
        before, after = (tuple(map(int, rng.integers(0, 6, rank))) for _ in range(2))
        attrs = {
            "kernel": kernel,
            "strides": stride,
            "pads_begin": before,
            "pads_end": after,
            "auto_pad": str(rng.choice(["None", "SAME_UPPER", "SAME_LOWER", "VALID"], p=[0.7, 0.1, 0.1, 0.1])),
            "rounding_type": str(rng.choice(["floor", "ceil"])),
        }
        pool = truth.Pool(size, **attrs)
        if min(pool.output) > 0:
            return size, tuple(pool.output), attrs


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("exclude_pad", [True, False])
def test_the_gradient_of_average_pooling_without_padding_in_memory(exclude_pad, data_format, rng):
    for _ in range(150):
        sizes, positions, attrs = pooling(rng)
        attrs |= {"exclude_pad": exclude_pad, "data_format": data_format}
        src, dst = (laid_out((2, 3), spatial, data_format) for spatial in (sizes, positions))
        diff = rng.integers(-9, 10, dst).astype(np.float64)
        near(run("AvgPoolBackward", attrs, [diff], src), truth.avg_pool_backward(diff, src, **attrs))


@pytest.mark.child
@pytest.mark.parametrize("name", ["resample", "pool"])
def test_memory_is_that_of_the_tensors(name):
    done = child(__file__, name)
    assert done.returncode == 0, done.stderr[-2000:]


def resample():
    graph = dgo.Graph()
    attrs = {"mode": "linear", "coordinate_transformation_mode": "align_corners", "data_format": "NCX"}
    src, diff = graph.input("src", (1, 2, 100_000)), graph.input("diff", (1, 2, 200_000))
    sizes = (200_000,)
    made = ops.interpolate(src, sizes=sizes, **attrs), ops.interpolate_backward(src, diff, sizes=sizes, **attrs)
    net = graph.compile(list(made))
    ramp = np.tile(np.linspace(0, 1, 100_000, dtype=np.float32), (1, 2, 1))
    for _ in range(2):
        up, down = net(ramp, np.ones((1, 2, 200_000), np.float32))
        np.testing.assert_allclose(up[0, 0], np.linspace(0, 1, 200_000), atol=1e-6)
        assert math.isclose(down.sum(dtype=np.float64), 400_000, rel_tol=1e-6)


def pool():
    """Windows and padding of a billion: one over nothing, one over the three elements that there are."""
    far = 10**9
    graph = dgo.Graph()
    attrs = {"kernel": far, "strides": far, "pads_begin": far, "pads_end": far, "exclude_pad": True}
    x = graph.input("x", (1, 1, 3))
    y = ops.avg_pool(x, data_format="NCX", **attrs)
    diff = graph.input("diff", y.shape)
    back = ops.avg_pool_backward(diff, src_shape=(1, 1, 3), data_format="NCX", **attrs)
    mean, gradient = graph.compile([y, back])(np.float32([[[1, 2, 6]]]), np.full(y.shape, 3, np.float32))
    assert mean.tolist() == [[[0, 3]]]
    assert gradient.tolist() == [[[1, 1, 1]]]


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (2 * GIGABYTE, 2 * GIGABYTE))
    {"resample": resample, "pool": pool}[sys.argv[1]]()
