"""Long axes: places of resampling are not rounded, and neither are sums of very many numbers."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

pytestmark = pytest.mark.isa


def result_of(make, x, **options):
    graph = dgo.Graph()
    y = make(graph.input("x", x.shape))
    out = np.full(y.shape, np.nan, np.float32)
    graph.compile(y, **options)(x, out=out)
    return out


def places(size, results, align):
    """Numerators of the places that results are read at, and their denominator."""
    i = np.arange(results)
    return (i * (size - 1), max(results - 1, 1)) if align else ((2 * i + 1) * size - results, 2 * results)


def resampled(x, axis, results, linear, align):
    size = x.shape[axis]
    place, by = places(size, results, align)
    place = np.clip(place, 0, (size - 1) * by)
    if not linear:
        return x.take((2 * place + by) // (2 * by), axis)
    part = (place % by / by).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    left, right = (x.take(np.minimum(place // by + one, size - 1), axis) for one in (0, 1))
    return left * (1 - part) + right * part


CASES = [
    ((1, 2, 48000), (96000,)), ((1, 2, 48000), (4714,)), ((1, 1, 4714), (48000,)), ((2, 1, 500_000), (3001,)),
    ((1, 3, 20000, 8), (3000, 16)), ((1, 2, 8, 5000), (3, 7001)), ((1, 1, 2000, 3, 4), (1501, 6, 5)),
]  # fmt: skip


@pytest.mark.sweep(1)
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize(("shape", "sizes"), CASES)
def test_places_are_not_rounded(shape, sizes, linear, align):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape).astype(np.float32)
    attrs = {"mode": "linear" if linear else "nearest", "sizes": sizes, "data_format": "NCX"}
    made = result_of(lambda v: ops.interpolate(v, **attrs, **where(align)), x)
    want = x.astype(np.float64)
    for axis, size in enumerate(sizes, 2):
        want = resampled(want, axis, size, linear, align)
    np.testing.assert_allclose(made, want, rtol=0, atol=3e-6 if linear else 0)


def where(align):
    return {"coordinate_transformation_mode": "align_corners"} if align else {}


@pytest.mark.slow
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("results", [(1 << 24) - 3, 1 << 22, 9_999_999])
def test_places_of_the_longest_axes(results, linear):
    """Of integers up to the length of the axis: what is read tells the place."""
    size = (1 << 24) - 1
    x = np.arange(size, dtype=np.float32)[None, None]
    mode = {"mode": "linear" if linear else "nearest", "sizes": [results], "data_format": "NCX"}
    made = result_of(lambda v: ops.interpolate(v, **mode), x)
    want = resampled(x.astype(np.float64), 2, results, linear, False)
    np.testing.assert_allclose(made, want, rtol=2**-23, atol=0)


COUNT = 1 << 22
SUMS = {
    "all": ((COUNT,), ops.reduce_sum, {"axes": [0]}, COUNT),
    "mean of columns": ((COUNT // 4, 4), ops.reduce_mean, {"axes": [0]}, 1),
    "mean of rows": ((2, COUNT // 2), ops.reduce_mean, {"axes": [1]}, 1),
    "mean of an image": ((1, 1, 1500, 1500), ops.reduce_mean, {"axes": [2, 3]}, 1),
    "l1": ((COUNT,), ops.reduce_l1, {"axes": [0]}, COUNT),
    "l2": ((COUNT,), ops.reduce_l2, {"axes": [0]}, COUNT**0.5),
    "average of a window": (
        (1, 1, 1500, 1500),
        ops.avg_pool,
        {"kernel": [1500, 1500], "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "exclude_pad": False,
         "data_format": "NCX"},
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_equal_numbers(name):
    shape, op, attrs, factor = SUMS[name]
    x = np.full(shape, 0.1, np.float32)
    made = result_of(lambda v: op(v, **attrs), x)
    np.testing.assert_allclose(made, np.float64(np.float32(0.1)) * factor, rtol=4e-6 if "window" in name else 1e-6)


@pytest.mark.parametrize("number", [0.1, 1000.3])
@pytest.mark.parametrize("width", [1000, 100_000, COUNT])
def test_norms_of_equal_numbers(width, number):
    """Nothing is left of them but the shift; a root mean square is their magnitude."""
    x = np.full((2, width), number, np.float32)
    attrs = {"epsilon": 1e-5, "begin_norm_axis": -1}
    assert not result_of(lambda v: ops.layer_norm(v, **attrs, keep_stats=False, use_affine=False), x).any()
    want = number / np.sqrt(np.float64(np.float32(number)) ** 2 + 1e-5)
    np.testing.assert_allclose(result_of(lambda v: ops.rms_norm(v, **attrs), x), want, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "axis"), [((2, COUNT), 1), ((COUNT // 4, 4), 0)])
def test_softmax_of_very_many_numbers(shape, axis):
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    powers = np.exp(x.astype(np.float64))
    want = powers / powers.sum(axis, keepdims=True)
    np.testing.assert_allclose(result_of(lambda v: ops.softmax(v, axis=axis), x), want, rtol=2e-6)
