"""Normalisation by builtin kernels, against float64 and PyTorch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bindings.kernel_cases import bits, blank, code, element_strides, span, view

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, errors, ops
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.runtime import threads

pytestmark = pytest.mark.isa

torch = pytest.importorskip("torch", reason="the reference")

Array = np.ndarray[Any, Any]

# relative to the largest result
LIMITS = {"f32": 2e-6, "bf16": 2.0**-8, "f16": 2.0**-10}


def truth(x: Array, groups: int, gamma: Array | None, beta: Array | None, epsilon: float) -> Array:
    wide = x.astype(np.float64).reshape(x.shape[0], groups, -1)
    mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    normal = ((wide - mean) / np.sqrt(variance + epsilon)).reshape(x.shape)
    if gamma is None or beta is None:
        return normal
    along = (-1,) + (1,) * (x.ndim - 2)
    return normal * gamma.astype(np.float64).reshape(along) + beta.astype(np.float64).reshape(along)


def run(x: Array, y: Array, groups: int, gamma: Array | None, beta: Array | None, epsilon: float) -> None:
    """x and y: (N, C, spatial...)."""
    affine = () if gamma is None or beta is None else (gamma, beta)
    kernel = kernels.group_norm(
        *x.shape[:2],
        groups,
        x.shape[2:],
        code(dtypes.canonical(x.dtype)),
        element_strides(x),
        code(dtypes.canonical(y.dtype)),
        element_strides(y),
        epsilon,
        bool(affine),
    )
    kernel.run(x, *affine, y)


def laid_out(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, last: bool, dense: bool) -> Array:
    """An unwritten array, channels last or first, where it is not dense with gaps between pixels, rows or planes."""
    rank = len(shape)
    order = [1, *range(rank)[:1:-1], 0] if last else [*range(rank)[:0:-1], 0]
    strides, step = [0] * rank, 1
    for axis in order:
        strides[axis] = step
        step *= shape[axis] + (0 if dense else int(rng.choice([0, 0, 3])))
    return view(blank(max(span(shape, strides), 1), dtype), shape, strides)


def random_shape(rng: np.random.Generator) -> tuple[tuple[int, ...], int]:
    share = int(rng.choice([1, 1, 2, 3, 4, 8, 16]))
    groups = int(rng.choice([1, 1, 2, 3, 5, 8, 21, 32]))
    rank = int(rng.integers(1, 4))
    most = {1: 3000, 2: 40, 3: 11}[rank]
    spatial = tuple(int(n) for n in rng.integers(1, most, rank))
    return (int(rng.integers(1, 4)), share * groups, *spatial), groups


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("seed", range(60))
def test_group_norm(seed: int) -> None:
    print("seed", seed)
    rng = np.random.default_rng(seed)
    shape, groups = random_shape(rng)
    names = [str(name) for name in rng.choice(["f32", "f32", "bf16", "f16"], 2)]
    last = bool(rng.integers(2))
    x, y = (laid_out(rng, shape, name, last, bool(rng.integers(2))) for name in names)
    x[...] = (rng.standard_normal(shape) * rng.choice([0.1, 1, 10]) + rng.choice([0, 1, -5])).astype(x.dtype)
    gamma, beta = (rng.standard_normal(shape[1]).astype(np.float32) for _ in range(2))
    if rng.integers(4) == 0:
        gamma = beta = None
    expected = truth(x, groups, gamma, beta, 1e-5)
    results = []
    for count in (1, 2):
        with threads.using(count):
            run(x, y, groups, gamma, beta, 1e-5)
        results.append(np.ascontiguousarray(y))
    np.testing.assert_array_equal(bits(results[0]), bits(results[1]))
    error = np.abs(results[0].astype(np.float64) - expected).max() / max(np.abs(expected).max(), 1)
    assert error < LIMITS[names[1]]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mean", [1e2, 1e4, -1e6])
def test_a_large_mean_takes_no_digits(last: bool, mean: float) -> None:
    rng = np.random.default_rng(3)
    x, y = (laid_out(rng, (2, 12, 37, 41), "f32", last, True) for _ in range(2))
    x[...] = rng.standard_normal(x.shape) + mean
    for groups in (1, 3, 12):
        expected = truth(x, groups, None, None, 1e-5)
        run(x, y, groups, None, None, 1e-5)
        theirs = torch.nn.functional.group_norm(torch.from_numpy(np.ascontiguousarray(x)), groups).numpy()
        ours = np.abs(y - expected).max()
        assert ours < 3e-6
        assert ours <= max(np.abs(theirs - expected).max(), 1e-6)


@pytest.mark.parametrize("last", [False, True])
def test_values_far_from_all_others(last: bool) -> None:
    rng = np.random.default_rng(4)
    x, y = (laid_out(rng, (1, 4, 50, 50), "f32", last, True) for _ in range(2))
    x[...] = rng.standard_normal(x.shape)
    x[:, :, 0, 0] = 1e6
    x[:, 1, 30, 7] = -3e5
    for groups in (1, 2, 4):
        run(x, y, groups, None, None, 1e-5)
        expected = truth(x, groups, None, None, 1e-5)
        np.testing.assert_allclose(y, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spreads_over_its_group_only(last: bool, bad: float) -> None:
    rng = np.random.default_rng(5)
    for place in ((1, 3, 0, 0), (1, 3, 8, 5)):
        x, y = (laid_out(rng, (2, 6, 9, 20), "f32", last, True) for _ in range(2))
        x[...] = rng.standard_normal(x.shape)
        clean = x.copy()
        x[place] = bad
        run(x, y, 3, None, None, 1e-5)
        assert np.isnan(y[1, 2:4]).all()
        expected = truth(clean, 3, None, None, 1e-5)
        y[1, 2:4] = expected[1, 2:4]
        np.testing.assert_allclose(y, expected, atol=2e-6)


def test_equal_values_give_the_shift() -> None:
    for shape in ((2, 3, 1), (1, 1, 1, 1), (1, 1, 7), (2, 4, 3, 3)):
        x, y = np.full(shape, 7.25, np.float32), np.full(shape, np.nan, np.float32)
        gamma, beta = (np.arange(1, shape[1] + 1, dtype=np.float32) * n for n in (1, 2))
        run(x, y, shape[1], gamma, beta, 1e-5)
        np.testing.assert_array_equal(y, np.broadcast_to(beta.reshape(-1, *(1,) * (len(shape) - 2)), shape))


@pytest.mark.parametrize("shape", [(0, 4, 5), (2, 4, 0), (2, 4, 0, 3)])
def test_nothing_to_do(shape: tuple[int, ...]) -> None:
    run(np.ones(shape, np.float32), np.ones(shape, np.float32), 2, None, None, 1e-5)


def test_refusals() -> None:
    first = [36, 9, 3, 1]

    def make(channels: int = 4, groups: int = 2, src: list[int] = first, dst: list[int] = first) -> Any:
        return kernels.group_norm(1, channels, groups, [3, 3], code("f32"), src, code("f32"), dst, 1e-5)

    make()
    with pytest.raises(errors.Error, match="4 channels in 3 groups"):
        make(groups=3)
    with pytest.raises(errors.Error, match="at least 1"):
        make(channels=0)
    with pytest.raises(errors.Error, match="both channels first"):
        make(dst=[36, 1, 12, 4])
    with pytest.raises(errors.Error, match="src has 3 entries, 4 are needed"):
        make(src=[36, 9, 1])


def net_of(x: Array, strides: list[int], dtype: str, groups: int, data_format: str, affine: bool) -> Any:
    graph = dgo.Graph()
    value = graph.input("x", x.shape, dtype, strides=strides)
    channels = x.shape[1 if data_format == "NCX" else -1]
    vectors = [np.linspace(low, 2, channels).astype(np.float32) for low in (0.5, -1)] if affine else []
    made = ops.group_norm(
        value, *map(graph.constant, vectors), groups=groups, keep_stats=False, use_affine=affine,
        data_format=data_format,
    )  # fmt: skip
    return graph.compile(made), vectors


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("layout", ["dense", "turned", "slice", "odd"])
def test_as_an_op(dtype: str, data_format: str, layout: str) -> None:
    rng = np.random.default_rng(6)
    plain = rng.standard_normal((2, 6, 5, 7)).astype(np.float32)
    axes = {"dense": (0, 1, 2, 3), "turned": (0, 2, 3, 1), "slice": (0, 1, 2, 3), "odd": (3, 1, 0, 2)}[layout]
    x = plain if data_format == "NCX" else np.moveaxis(plain, 1, -1)
    x = x.astype(dtypes.numpy_dtype(dtype))
    back = tuple(int(n) for n in np.argsort(axes))
    wide = np.ascontiguousarray(x.transpose(axes))
    if layout == "slice":
        wide = np.concatenate([wide, wide], -1)[..., : wide.shape[-1]]
    given = wide.transpose(back)
    net, vectors = net_of(given, element_strides(given), dtype, 3, data_format, True)
    y = net(given)
    first = x if data_format == "NCX" else np.moveaxis(x, -1, 1)
    found = y if data_format == "NCX" else np.moveaxis(y, -1, 1)
    expected = truth(first.astype(np.float32), 3, *vectors, 1e-5)
    assert np.abs(found.astype(np.float64) - expected).max() < LIMITS[dtype] * 4
    assert "NumPy" not in str(net.explain())


def test_statistics_are_returned() -> None:
    graph = dgo.Graph()
    x = np.random.default_rng(7).standard_normal((2, 4, 6)).astype(np.float32)
    made = ops.group_norm(graph.input("x", x.shape), groups=2, use_affine=False, data_format="NCX")
    y, mean, variance = graph.compile(list(made))(x)
    np.testing.assert_allclose(y, truth(x, 2, None, None, 1e-5), atol=2e-6)
    np.testing.assert_allclose(mean, x.reshape(2, 2, -1).mean(-1), atol=1e-6)
    np.testing.assert_allclose(variance, x.reshape(2, 2, -1).var(-1), atol=1e-6)


def test_bf16_statistics_are_of_exact_sums() -> None:
    rng = np.random.default_rng(8)
    x = (rng.standard_normal((1, 8, 64, 64)) + 100).astype(ml_dtypes.bfloat16)
    y = np.full(x.shape, np.nan, np.float32)
    run(x, y, 2, None, None, 1e-5)
    np.testing.assert_allclose(y, truth(x.astype(np.float32), 2, None, None, 1e-5), atol=2e-6)


# ---- post-ops --------------------------------------------------------------------------------------------------


@pytest.mark.sweep(1)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (1, 40, 33, 9), (2, 3, 50), (1, 130, 7, 11), (1, 1, 6, 6)])
@pytest.mark.parametrize("turned", [False, True])
def test_post_ops_in_the_same_pass(shape: tuple[int, ...], dtype: str, turned: bool) -> None:
    rng = np.random.default_rng(9)
    numpy = dtypes.numpy_dtype(dtype)
    x, other = (rng.standard_normal(shape).astype(np.float32).astype(numpy) for _ in range(2))
    if turned:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    along = (shape[1], *(1,) * (len(shape) - 2))
    factor = rng.standard_normal(along).astype(np.float32).astype(numpy)
    graph = dgo.Graph()
    values = [graph.input(name, shape, dtype, strides=element_strides(a)) for name, a in (("x", x), ("y", other))]
    normal = ops.group_norm(values[0], groups=1, keep_stats=False, use_affine=False, data_format="NCX")
    scaled = ops.multiply(normal, graph.constant(factor))
    made = ops.add(ops.multiply(scaled, ops.sigmoid(scaled)), values[1])
    net = graph.compile(made)
    y = np.asarray(net(x, other)).astype(np.float64)
    wide = truth(x.astype(np.float32), 1, None, None, 1e-5) * factor.astype(np.float64)
    expected = wide / (1 + np.exp(-wide)) + other.astype(np.float64)
    np.testing.assert_allclose(y, expected, atol=1e-5 if dtype == "f32" else 0.06)


def test_a_tail_needs_channels_last() -> None:
    tail = kernels.Epilogue([("relu", 0, 0, 0, 0.0, 0.0)])
    with pytest.raises(errors.Error, match="channels last"):
        kernels.group_norm(1, 4, 2, [3, 3], 3, [36, 9, 3, 1], 3, [36, 9, 3, 1], 1e-5, False, tail)


@pytest.mark.parametrize(
    "src, dst, result, unmet",
    [
        ("f32", "u8", (0.1, 0, 0, 255), "must be s8 or u8"),
        ("u8", "s8", (-0.1, 0, -128, 127), "positive"),
        ("u8", "s8", (0.1, 0, 5, 4), "lowest"),
        ("u8", "s32", None, "f32, bf16 or f16"),
    ],
)
def test_integers_come_of_integers(src: str, dst: str, result: Any, unmet: str) -> None:
    strides = [36, 1, 12, 4]
    with pytest.raises(errors.Error, match=unmet):
        kernels.group_norm(
            1, 4, 2, [3, 3], code(src), strides, code(dst), strides, 1e-5, False, kernels.Epilogue([]), result
        )


def test_floats_of_integers() -> None:
    rng = np.random.default_rng(11)
    for dtype in ("u8", "s8"):
        x, y = (laid_out(rng, (2, 12, 9, 7), name, True, True) for name in (dtype, "f32"))
        x[...] = rng.integers(0, 100, x.shape).astype(x.dtype)
        run(x, y, 3, None, None, 0.1)
        assert np.abs(y - truth(x, 3, None, None, 0.1)).max() < 1e-5


# ---- softmax ---------------------------------------------------------------------------------------------------


def softmax(x: Array, axis: int, logarithm: bool) -> Array:
    wide = torch.from_numpy(x.astype(np.float64))
    return np.asarray((torch.log_softmax if logarithm else torch.softmax)(wide, axis).numpy())


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("seed", range(40))
def test_softmax(seed: int) -> None:
    print("seed", seed)
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.integers(1, {1: 3000, 2: 150, 3: 40, 4: 20}[rank], rank))
    names = [str(name) for name in rng.choice(["f32", "f32", "bf16", "f16"], 2)]
    # the same axis is the fastest in both
    fastest, arrays = int(rng.integers(rank)), []
    for name in names:
        order = [fastest, *(int(a) for a in rng.permutation(rank) if a != fastest)]
        strides, step = [0] * rank, 1
        for axis in order:
            strides[axis] = step
            step *= shape[axis] + int(rng.choice([0, 3]))
        arrays.append(view(blank(span(shape, strides), name), shape, strides))
    x, y = arrays
    x[...] = (rng.standard_normal(shape) * 3).astype(x.dtype)
    axis, logarithm = int(rng.integers(rank)), bool(rng.integers(2))
    codes = [code(name) for name in names]
    kernel = kernels.softmax(shape, axis, codes[0], element_strides(x), codes[1], element_strides(y), logarithm)
    expected = softmax(x, axis, logarithm)
    for count in (1, 2):
        y[...] = np.nan
        with threads.using(count):
            kernel.run(x, y)
        error = np.abs(y.astype(np.float64) - expected).max() / max(np.abs(expected).max(), 1)
        assert error < LIMITS[names[1]]


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_what_is_not_finite(axis: int) -> None:
    x = np.zeros((5, 37), np.float32)
    x[0, 0], x[1, 1], x[2, :], x[:, 5] = np.nan, np.inf, -np.inf, -np.inf
    x[3, 3] = -np.inf
    y = np.full(x.shape, 7, np.float32)
    kernels.softmax(x.shape, axis, 3, [37, 1], 3, [37, 1]).run(x, y)
    np.testing.assert_allclose(y, softmax(x, axis, False), rtol=1e-6)


def test_softmax_takes_large_values() -> None:
    x = np.float32([[1e30, 1e30, -1e30], [88.0, -200.0, 89.0]])
    y = np.full(x.shape, np.nan, np.float32)
    kernels.softmax(x.shape, 1, 3, [3, 1], 3, [3, 1]).run(x, y)
    np.testing.assert_allclose(y, softmax(x, 1, False), atol=1e-6)


@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 1, 0, 2)])
def test_softmax_as_an_op(kind: str, axis: int, axes: tuple[int, ...]) -> None:
    plain = np.random.default_rng(10).standard_normal((2, 21, 5, 6)).astype(np.float32)
    x = np.ascontiguousarray(plain.transpose(axes)).transpose([int(n) for n in np.argsort(axes)])
    graph = dgo.Graph()
    made = getattr(ops, kind)(graph.input("x", x.shape, strides=element_strides(x)), axis=axis)
    y = graph.compile(made)(x)
    np.testing.assert_allclose(y, softmax(x, axis, kind == "log_softmax"), atol=1e-5)


def test_post_ops_into_results_whose_neighbours_are_images():
    """Neither channels nor positions: the norm has a place of its own."""
    graph = dgo.Graph()
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (6, 5, 5)).astype(np.float32)
    y = ops.group_norm(graph.input("x", x.shape), groups=1, use_affine=False, keep_stats=False, data_format="NXC")
    net = graph.compile(ops.relu(y + 1.0))
    out = np.full(x.shape[::-1], np.nan, np.float32).T
    np.testing.assert_array_equal(net(x, out=out), net(x))
