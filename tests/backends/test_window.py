"""Pooling, resampling and reductions by builtin kernels: against NumPy and PyTorch, in any layout, by each set."""

import numpy as np
import pytest
from reference import windows as truth
from reference.data import integers, strided, unwritten

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops, schema
from dnnl_graph_ops.backends import builtin, window

pytestmark = pytest.mark.isa


@pytest.fixture
def own_code(monkeypatch):
    """Builtin code also where the library is as fast."""
    monkeypatch.setattr(builtin, "goes_before", lambda node, env: "it is asked for" if builtin.serves(node) else None)


OWN_CODE = pytest.mark.usefixtures("own_code")
FLOATS = ("f32", "bf16", "f16")
CHANNELS = (1, 2, 3, 5, 8, 13, 16, 21, 48, 64, 100, 150, 300)


def laid_out(rng, array, data_format):
    """Equal values, mostly with the channels side by side, at times in a slice of a joint buffer or somehow."""
    last = array.ndim - 1
    channels_last = (0, *range(2, last + 1), 1) if data_format == "NCX" else range(last + 1)
    gap = int(rng.choice([0, 0, 3, 16]))
    return strided(array, rng.permutation(last + 1) if rng.random() < 0.25 else channels_last, gap)


def result_of(rng, make, x, data_format, dtype):
    """What the op gives in a result of any layout that was full of NaN, and how it was computed."""
    graph = dgo.Graph()
    y = make(graph.input("x", x.shape, dtype))
    net = graph.compile(y)
    out = laid_out(rng, unwritten(y.shape, dtype), data_format) if y.ndim == x.ndim else unwritten(y.shape, dtype)
    net(laid_out(rng, x, data_format), out=out)
    ((_, decision),) = net._latest().lowering.decisions
    assert decision.formulation == "builtin kernel"
    return out.astype(np.float64)


def shape_of(n, c, spatial, data_format):
    return (n, *spatial, c) if data_format == "NXC" else (n, c, *spatial)


def near(found, expected, dtype, exact=False):
    unit = {"f32": 2.0**-22, "bf16": 2.0**-8, "f16": 2.0**-10}[dtype]
    limit = 0 if exact and dtype == "f32" else unit * max(np.abs(expected).max(initial=0), 1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit)


def pooling(rng):
    """Sizes and attributes of a pooling, and its reference."""
    while True:
        rank = int(rng.integers(1, 4))
        size = tuple(map(int, rng.integers(1, {1: 60, 2: 20, 3: 9}[rank], rank)))
        kernel, stride, rates = (tuple(map(int, rng.integers(1, high, rank))) for high in (6, 4, 3))
        before, after = (tuple(map(int, rng.integers(0, 4, rank))) for _ in range(2))
        attrs = {
            "kernel": kernel,
            "strides": stride,
            "pads_begin": before,
            "pads_end": after,
            "auto_pad": str(rng.choice(["None", "SAME_UPPER", "SAME_LOWER", "VALID"], p=[0.7, 0.1, 0.1, 0.1])),
            "rounding_type": str(rng.choice(["floor", "ceil"])),
        }
        more = {"dilations": rates} if rng.random() < 0.3 else {}
        if min(truth.Pool(size, **attrs, **more).output) > 0:
            return size, attrs, more


@pytest.mark.parametrize("kernel", [[5, 1, 1], [3, 4, 1], [2, 1, 3]])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("gap", [0, 3])
def test_last_axes_of_one_channel_stand_for_channels(kernel, average, gap):
    torch = pytest.importorskip("torch", reason="the reference")
    x = np.random.default_rng(4).standard_normal((2, 1, 9, 7, 6)).astype(np.float32)
    graph = dgo.Graph()
    src = graph.input("x", x.shape)
    attrs = {"kernel": kernel, "strides": [2, 1, 1], "pads_begin": [1, 0, 0], "pads_end": [0, 0, 0]}
    attrs |= {"exclude_pad": True} if average else {}
    y = (ops.avg_pool if average else ops.max_pool)(src, data_format="NCX", **attrs)
    net = graph.compile(y)
    made = net(strided(x, range(5), gap))
    padded = torch.nn.functional.pad(torch.tensor(x), (0, 0, 0, 0, 1, 0), value=float("nan"))
    windows = padded.unfold(2, kernel[0], 2).unfold(3, kernel[1], 1).unfold(4, kernel[2], 1).flatten(5)
    wanted = windows.nanmean(-1) if average else windows.nan_to_num(-9).amax(-1)
    np.testing.assert_allclose(made, wanted.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("size", [2, 3, 4, 16, 17, 200])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", window.REDUCTIONS)
@pytest.mark.parametrize("keep", [False, True])
def test_few_neighbours_are_reduced(size, kind, keep, dtype):
    rng = np.random.default_rng(size)
    x = rng.integers(-2, 3, (4, 70, size)).astype(dtypes.numpy_dtype(dtype))
    x[rng.random(x.shape) < 0.05] = np.nan
    expected = truth.reduce(kind, x.astype(np.float64), axes=[2], keep_dims=keep)
    graph = dgo.Graph()
    y = builder_of(kind)(graph.input("x", x.shape, dtype), axes=[2], keep_dims=keep)
    unit = {"f32": 1e-6, "bf16": 2.0**-8, "f16": 2.0**-10}[dtype]
    # whole, and every second row
    for one in (x, np.repeat(x, 2, 1)[:, ::2]):
        np.testing.assert_allclose(graph.compile(y)(one).astype(np.float64), expected, rtol=unit, atol=unit)


def builder_of(kind):
    return getattr(ops, schema.OPS[kind].builder)


@OWN_CODE
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("kind", ["max", "mean", "mean without padding"])
def test_pooling(kind, data_format, dtype, rng, seed):
    for case in range(25):
        size, attrs, dilations = pooling(rng)
        attrs |= {"data_format": data_format}
        n, c = int(rng.integers(1, 3)), int(rng.choice(CHANNELS))
        print(f"reproduce: --seed {seed}, case {case}: {n}, {c}, {size}, {attrs}, {dilations}")
        x = integers(rng, shape_of(n, c, size, data_format), dtype, 9)
        name, attrs = ("max_pool", attrs | dilations) if kind == "max" else ("avg_pool", attrs)
        if kind != "max":
            attrs["exclude_pad"] = kind != "mean"
        found = result_of(rng, lambda v, n=name, a=attrs: getattr(ops, n)(v, **a), x, data_format, dtype)
        near(found, getattr(truth, name)(x.astype(np.float64), **attrs), dtype, exact=kind == "max")


@pytest.mark.sweep
@OWN_CODE
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resampling(mode, coordinates, data_format, dtype, rng, seed):
    for case in range(25):
        rank = int(rng.integers(1, 4))
        high = {1: 60, 2: 20, 3: 9}[rank]
        size, wanted = (tuple(map(int, rng.integers(1, high, rank))) for _ in range(2))
        if case % 3 == 0:
            wanted = tuple(s * int(rng.choice([1, 2, 4])) for s in size)
        n, c = int(rng.integers(1, 3)), int(rng.choice(CHANNELS))
        print(f"reproduce: --seed {seed}, case {case}: {n}, {c}, {size} to {wanted}")
        x = integers(rng, shape_of(n, c, size, data_format), dtype, 9)
        attrs = {"mode": mode, "sizes": wanted, "coordinate_transformation_mode": coordinates}
        attrs["data_format"] = data_format
        found = result_of(rng, lambda v, a=attrs: ops.interpolate(v, **a), x, data_format, dtype)
        exact = mode == "nearest" or (case % 3 == 0 and coordinates == "half_pixel")
        near(found, truth.interpolate(x.astype(np.float64), **attrs), dtype, exact)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", window.REDUCTIONS)
def test_reductions(kind, dtype, rng, seed):
    for case in range(40):
        rank = int(rng.integers(1, 6))
        shape = tuple(map(int, rng.choice([1, 2, 3, 5, 8, 17, 33], rank)))
        axes = tuple(map(int, rng.permutation(rank)[: rng.integers(1, rank + 1)]))
        keep = bool(rng.integers(2))
        print(f"reproduce: --seed {seed}, case {case}: {shape} over {axes}")
        x = integers(rng, shape, dtype, 1 if kind == "ReduceProd" else 3)
        graph = dgo.Graph()
        y = builder_of(kind)(graph.input("x", shape, dtype), axes=axes, keep_dims=keep)
        out = strided(unwritten(y.shape, dtype), rng.permutation(y.ndim), int(rng.integers(3))) if y.ndim else None
        given = strided(x, rng.permutation(rank), int(rng.integers(3)))
        found = graph.compile(y)(given) if out is None else graph.compile(y)(given, out=out)
        expected = truth.reduce(kind, x.astype(np.float64), axes=axes, keep_dims=keep)
        assert found.shape == expected.shape
        near(found.astype(np.float64), expected, dtype, exact=kind not in ("ReduceMean", "ReduceL2"))


@pytest.mark.sweep(1)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 20, 160, 161), (1, 3, 200_000), (2, 300, 7, 7), (64, 3, 5)])
@pytest.mark.parametrize("last", [True, False])
def test_large_reductions_by_several_threads(shape, last, threads, rng):
    x = integers(rng, shape, limit=3)
    graph = dgo.Graph()
    axes = range(2, len(shape))
    made = {
        "mean": ops.reduce_mean(graph.input("x", shape), axes=list(axes), keep_dims=True),
        "max": ops.reduce_max(graph.input("y", shape), axes=[0, *axes]),
        "norm": ops.reduce_l2(graph.input("z", shape), axes=list(axes)),
    }
    before = dgo.get_num_threads()
    dgo.set_num_threads(threads)
    try:
        order = (0, *axes, 1) if last else range(len(shape))
        found = graph.compile(made).run({"x": strided(x, order), "y": strided(x, order), "z": strided(x, order)})
    finally:
        dgo.set_num_threads(before)
    np.testing.assert_allclose(found["mean"], x.astype(np.float64).mean(tuple(axes), keepdims=True), atol=1e-6)
    np.testing.assert_array_equal(found["max"], x.max((0, *axes)))
    np.testing.assert_allclose(found["norm"], np.sqrt(np.square(x, dtype=np.float64).sum(tuple(axes))), rtol=1e-6)


@OWN_CODE
@pytest.mark.parametrize("channels", [1, 3, 4, 8, 16, 40, 64, 130])
def test_as_pytorch_has_what_is_not_finite(channels, rng):
    torch = pytest.importorskip("torch")
    x = integers(rng, (2, channels, 12, 14))
    x[rng.random(x.shape) < 0.03] = np.nan
    x[rng.random(x.shape) < 0.03] = np.inf
    x[rng.random(x.shape) < 0.03] = -np.inf
    two, t = {"data_format": "NCX"}, torch.from_numpy(x)
    pool = {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 1), **two}
    wide = {"kernel": (5, 5), "strides": (1, 1), "pads_begin": (2, 2), "pads_end": (2, 2), **two}
    f = torch.nn.functional
    for make, expected in [
        (lambda v: ops.max_pool(v, **pool), f.max_pool2d(t, 3, 2, 1)),
        (lambda v: ops.max_pool(v, **wide), f.max_pool2d(t, 5, 1, 2)),
        (lambda v: ops.avg_pool(v, **wide, exclude_pad=True), f.avg_pool2d(t, 5, 1, 2, count_include_pad=False)),
        (lambda v: ops.avg_pool(v, **pool, exclude_pad=False), f.avg_pool2d(t, 3, 2, 1)),
        (lambda v: ops.reduce_mean(v, axes=[2, 3], keep_dims=True), f.adaptive_avg_pool2d(t, 1)),
        (lambda v: ops.reduce_max(v, axes=[2, 3], keep_dims=True), t.amax((2, 3), keepdim=True)),
        (lambda v: ops.reduce_min(v, axes=[2, 3], keep_dims=True), t.amin((2, 3), keepdim=True)),
        (lambda v: ops.interpolate(v, mode="nearest", sizes=(24, 28), **two), f.interpolate(t, scale_factor=2)),
    ]:
        graph = dgo.Graph()
        found = graph.compile(make(graph.input("x", x.shape)))(strided(x, (0, 2, 3, 1)))
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6, atol=1e-5)


@OWN_CODE
@pytest.mark.parametrize("factor", [2, 3, 4, 8])
@pytest.mark.parametrize("align", [True, False])
def test_upsampling_as_pytorch(factor, align, rng):
    torch = pytest.importorskip("torch")
    for mode, spatial in (("linear", (33,)), ("bilinear", (9, 40)), ("trilinear", (4, 5, 6))):
        x = rng.standard_normal((2, 40, *spatial)).astype(np.float32)
        graph = dgo.Graph()
        transform = "align_corners" if align else "half_pixel"
        sizes = tuple(factor * size for size in spatial)
        attrs = {"mode": mode, "sizes": sizes, "coordinate_transformation_mode": transform, "data_format": "NCX"}
        found = graph.compile(ops.interpolate(graph.input("x", x.shape), **attrs))(x)
        expected = torch.nn.functional.interpolate(
            torch.from_numpy(x), scale_factor=factor, mode=mode, align_corners=align
        )
        np.testing.assert_allclose(found, expected.numpy(), atol=2e-5)


def test_results_beyond_the_caches_may_lie_anywhere(rng):
    """oneDNN 3.2 ends in SIGSEGV where 16 MB and more of a resampling are not aligned to a cache line."""
    x = integers(rng, (1, 64, 64, 256))
    graph = dgo.Graph()
    net = graph.compile(ops.interpolate(graph.input("x", x.shape), mode="nearest", sizes=(128, 128)))
    memory = np.full(128 * 128 * 256 + 32, np.nan, np.float32)
    start = (-memory.ctypes.data // 4) % 16 + 4
    out = memory[start : start + 128 * 128 * 256].reshape(1, 128, 128, 256)
    net(x, out=out)
    np.testing.assert_array_equal(out, x.repeat(2, 1).repeat(2, 2))


def test_nothing_reduced_over_no_elements():
    graph = dgo.Graph()
    x = graph.input("x", (2, 0, 3))
    found = graph.compile({kind: builder_of(kind)(x, axes=[1]) for kind in window.REDUCTIONS}).run(
        {"x": np.empty((2, 0, 3), np.float32)}
    )
    values = {"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceMean": np.nan, "ReduceProd": 1}
    for kind, result in found.items():
        np.testing.assert_array_equal(result, np.full((2, 3), values.get(kind, 0), np.float32))


def test_where_own_code_goes_first():
    """Not where tuning is off, nor for averages of few taps."""
    for pool, kernel, tune, expected in (
        (ops.avg_pool, 2, "heuristic", "native"),
        (ops.avg_pool, 5, "heuristic", "builtin kernel"),
        (ops.max_pool, 2, "heuristic", "builtin kernel"),
        (ops.max_pool, 5, "off", "native"),
    ):
        graph = dgo.Graph()
        window = {"kernel": (kernel,) * 2, "strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
        more = {"exclude_pad": True} if pool is ops.avg_pool else {}
        net = graph.compile(pool(graph.input("x", (1, 8, 8, 4)), **window, **more), tune=tune)
        assert net._latest().lowering.decisions[0][1].formulation == expected


def test_own_code_resamples_many_channels_first():
    for channels, mode, expected in (
        (8, "bilinear", "builtin kernel"),
        (4, "bilinear", "native"),
        (8, "nearest", "native"),
    ):
        graph = dgo.Graph()
        x = graph.input("x", (1, channels, 8, 8))
        net = graph.compile(ops.interpolate(x, sizes=(16, 16), mode=mode, data_format="NCX"))
        assert net._latest().lowering.decisions[0][1].formulation == expected
