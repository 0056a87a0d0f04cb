"""Windows of 8-bit integers between a Dequantize and a Quantize: bit by bit as float64, or single steps, have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from reference.conv_transpose import channels_first, from_channels_first
from reference.data import strided, unwritten
from reference.normalization import group_norm
from reference.rounding import DTYPES
from reference.windows import Pool

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.backends import builtin, integer_window, window
from dnnl_graph_ops.dtypes import CODES
from dnnl_graph_ops.runtime import threads

from .test_window import CHANNELS, laid_out, pooling, shape_of

pytestmark = pytest.mark.isa
Array = np.ndarray[Any, Any]


class Ends(NamedTuple):
    """Dtypes, scales and zero points of a source and of results; results in f32 have no Quantize."""

    dtype: str
    scale: float
    point: int
    to: str
    to_scale: float
    to_point: int

    def result(self, numbers: Array, count: Any = 1) -> Array:
        """The result of exact integers less their zero points, divided by a count: rounded once."""
        wide = np.asarray(numbers, np.float64) * np.float64(np.float32(self.scale))
        if self.to == "f32":
            return (wide / count).astype(np.float32)
        low, high = (-128, 127) if self.to == "s8" else (0, 255)
        ties_to_even = np.rint(wide / (count * np.float64(np.float32(self.to_scale))))
        return np.clip(ties_to_even + self.to_point, low, high).astype(DTYPES[self.to])

    def graph(self, shape: Sequence[int], make: Callable[[dgo.Value], dgo.Value]) -> tuple[dgo.Net, dgo.Value]:
        graph = dgo.Graph()
        x = graph.input("x", shape, self.dtype)
        y = make(ops.dequantize(x, scales=[self.scale], zps=[self.point]))
        if self.to != "f32":
            y = ops.quantize(y, dtype=self.to, scales=[self.to_scale], zps=[self.to_point])
        return graph.compile(y), y


def ends(rng: np.random.Generator) -> Ends:
    """In a third of the cases ties are many, as the ratio of both scales is a power of two."""
    scale = float(rng.uniform(0.01, 1))
    to_scale = scale * 2.0 ** int(rng.integers(-2, 2)) if rng.random() < 0.3 else float(rng.uniform(0.003, 1))
    dtypes = str(rng.choice(["u8", "s8"])), str(rng.choice(["u8", "s8", "f32"]))
    points = [int(rng.integers(*((0, 256) if dtype == "u8" else (-128, 128)))) for dtype in dtypes]
    return Ends(dtypes[0], scale, points[0], dtypes[1], to_scale, points[1])


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    """Integers, at times the extremes alone."""
    choices = rng.integers(0, 256, int(rng.choice([256, 3]))) if rng.random() < 0.8 else np.array([0, 255])
    low = 0 if dtype == "u8" else -128
    return (rng.choice(choices, shape) + low).astype(DTYPES[dtype])


def computed(net: dgo.Net, *given: Any, **more: Any) -> Array:
    result = net(*given, **more)
    assert [decision.formulation for _, decision in net._latest().lowering.decisions] == ["builtin integer window"]
    return result


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("kind", ["max", "mean", "mean without padding"])
def test_pooling(kind: str, data_format: str, rng: np.random.Generator, seed: int, amount: Any) -> None:
    for case in range(amount(25, 100, 1000)):
        size, attrs, dilations = pooling(rng)
        attrs |= dilations if kind == "max" else {}
        n, c, e = int(rng.integers(1, 3)), int(rng.choice(CHANNELS)), ends(rng)
        print(f"reproduce: --seed {seed}, case {case}: {n}, {c}, {size}, {attrs}, {e}")
        x, pool = numbers(rng, shape_of(n, c, size, data_format), e.dtype), Pool(size, **attrs)
        more = attrs | {"data_format": data_format}
        more |= {} if kind == "max" else {"exclude_pad": kind != "mean"}
        build = ops.max_pool if kind == "max" else ops.avg_pool
        try:
            net, y = e.graph(x.shape, lambda v, build=build, more=more: build(v, **more))
        except dgo.ShapeError:  # a window beyond the source
            continue
        whole = channels_first(x, data_format).astype(np.float64) - e.point
        if kind == "max":
            padded = pool.pad(whole, -np.inf)
            expected = e.result(np.max([padded[tap] for tap in pool.taps()], axis=0))
        else:
            padded = pool.pad(whole, 0)
            expected = e.result(sum(padded[tap] for tap in pool.taps()), pool.counts(size, more["exclude_pad"]))
        out = laid_out(rng, unwritten(y.shape, e.to), data_format)
        given = laid_out(rng, x, data_format)
        net(given, out=out)
        np.testing.assert_array_equal(out, from_channels_first(expected, data_format))


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_norms(data_format: str, rng: np.random.Generator, seed: int, amount: Any) -> None:
    """Results are the integers nearest to those of float64, but for the rounding of f32 near the middle of two."""
    for case in range(amount(25, 100, 1000)):
        groups, share = int(rng.choice([1, 2, 3, 16, 32])), int(rng.choice([1, 1, 2, 5]))
        c, spatial = groups * share, tuple(int(size) for size in rng.integers(1, 12, int(rng.integers(1, 4))))
        e = ends(rng)._replace(to=str(rng.choice(["u8", "s8"])))
        e = e._replace(to_point=int(rng.integers(-8, 8)) + (128 if e.to == "u8" else 0))
        print(f"reproduce: --seed {seed}, case {case}: {groups}, {c}, {spatial}, {e}")
        x = numbers(rng, shape_of(2, c, spatial, data_format), e.dtype)
        epsilon, gamma, beta = 10.0 ** -int(rng.integers(1, 6)), *rng.standard_normal((2, c)).astype(np.float32)
        attrs = {"groups": groups, "epsilon": epsilon, "data_format": data_format}

        def norm(v: dgo.Value, gamma: Array = gamma, beta: Array = beta, attrs: Any = attrs) -> dgo.Value:
            return ops.group_norm(v, gamma, beta, keep_stats=False, **attrs)

        net, y = e.graph(x.shape, norm)
        wide = (x.astype(np.float64) - e.point) * np.float64(np.float32(e.scale))
        expected = group_norm(wide, *(v.astype(np.float64) for v in (gamma, beta)), keep_stats=False, **attrs)[0]
        quotients = expected / np.float64(np.float32(e.to_scale)) + e.to_point
        low, high = (-128, 127) if e.to == "s8" else (0, 255)
        out = laid_out(rng, unwritten(y.shape, e.to), data_format)
        for count in (1, 2):
            with threads.using(count):
                net(laid_out(rng, x, data_format), out=out)
            assert np.abs(out - np.clip(quotients, low, high)).max() < 0.5 + 1e-5 * max(np.abs(quotients).max(), 1)
        assert "builtin integer norm" in [decision.formulation for _, decision in net._latest().lowering.decisions]


@pytest.mark.parametrize("scales", [[0.5], [0.5, 2.0]])
def test_the_largest_of_no_integer_is_minus_infinity(scales: list[float]) -> None:
    """Of several scales floats are compared."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 2, 2, 2), "u8")
    along = {"qtype": "per_channel", "axis": 1} if len(scales) > 1 else {}
    floats = ops.dequantize(x, scales=scales, zps=[3] * len(scales), **along)
    attrs = {"kernel": [1, 1], "strides": [1, 1], "pads_begin": [0, 1], "pads_end": [0, 0], "data_format": "NCX"}
    found = graph.compile(ops.max_pool(floats, **attrs))(np.full(x.shape, 5, np.uint8))
    assert np.isneginf(found[..., 0]).all()
    np.testing.assert_array_equal(found[:, -1, :, 1:], 2 * scales[-1])


@pytest.mark.parametrize("kind", ["mean", "sum", "max"])
def test_reductions(kind: str, rng: np.random.Generator, seed: int, amount: Any) -> None:
    for case in range(amount(40, 200, 3000)):
        rank = int(rng.integers(1, 6))
        shape = tuple(map(int, rng.choice([1, 2, 3, 5, 8, 17, 33][: 8 - rank], rank)))
        axes = tuple(map(int, rng.permutation(rank)[: rng.integers(1, rank + 1)]))
        keep, e = bool(rng.integers(2)), ends(rng)
        print(f"reproduce: --seed {seed}, case {case}: {shape} over {axes}, {e}")
        x = numbers(rng, shape, e.dtype)
        build = getattr(ops, f"reduce_{kind}")
        net, y = e.graph(shape, lambda v, a=axes, k=keep, b=build: b(v, axes=a, keep_dims=k))
        given = strided(x, rng.permutation(rank), int(rng.integers(3)))
        out = strided(unwritten(y.shape, e.to), rng.permutation(y.ndim), int(rng.integers(3))) if y.ndim else None
        found = computed(net, given, **({} if out is None else {"out": out}))
        whole, count = x.astype(np.float64) - e.point, np.prod([shape[axis] for axis in axes])
        folded = (whole.max if kind == "max" else whole.sum)(axis=axes, keepdims=keep)
        np.testing.assert_array_equal(found, e.result(folded, count if kind == "mean" else 1))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(1, 3, 500_001), (2, 300, 7, 7), (64, 3, 5)])
@pytest.mark.parametrize("last", [True, False])
def test_means_by_several_threads(shape: tuple[int, ...], last: bool, threads: int, rng: np.random.Generator) -> None:
    axes = range(2, len(shape))
    e = Ends("s8", 0.3, -7, "u8", 0.05, 9)
    x = numbers(rng, shape, e.dtype)
    net, _ = e.graph(shape, lambda v: ops.reduce_mean(v, axes=list(axes)))
    before = dgo.get_num_threads()
    dgo.set_num_threads(threads)
    try:
        found = computed(net, strided(x, (0, *axes, 1) if last else range(len(shape))))
    finally:
        dgo.set_num_threads(before)
    whole = (x.astype(np.float64) - e.point).sum(axis=tuple(axes))
    np.testing.assert_array_equal(found, e.result(whole, np.prod(shape[2:])))


def test_a_mean_in_f32_is_as_near_as_f32_holds(rng: np.random.Generator) -> None:
    e = Ends("u8", 0.1, 3, "f32", 1.0, 0)
    x = numbers(rng, (3, 40, 50), "u8")
    net, _ = e.graph(x.shape, lambda v: ops.reduce_mean(v, axes=[1, 2]))
    exact = (x.astype(np.float64) - 3).sum(axis=(1, 2)) * np.float64(np.float32(0.1)) / 2000
    np.testing.assert_array_equal(computed(net, x), exact.astype(np.float32))


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resampling(
    mode: str, data_format: str, rng: np.random.Generator, seed: int, amount: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As builtin code has it from the result of a Dequantize, in one kernel."""
    monkeypatch.setattr(window, "_MANY_CHANNELS", 1)
    monkeypatch.setattr(builtin, "goes_before", lambda node, env: "asked for" if builtin.serves(node) else None)
    for case in range(amount(25, 100, 1000)):
        rank = int(rng.integers(1, 4))
        high = {1: 60, 2: 20, 3: 9}[rank]
        size, wanted = (tuple(map(int, rng.integers(2, high, rank))) for _ in range(2))
        if case % 3 == 0 and mode == "linear":
            wanted = tuple(2 * n for n in size)
        if mode == "nearest" and not any(n % m for n, m in zip(wanted, size, strict=True)):
            continue  # copied, as each element is repeated
        n, c, e = int(rng.integers(1, 3)), int(rng.choice(CHANNELS)), ends(rng)
        coordinates = str(rng.choice(["half_pixel", "align_corners"]))
        attrs: dict[str, Any] = {"mode": mode, "sizes": wanted, "coordinate_transformation_mode": coordinates}
        attrs["data_format"] = data_format
        print(f"reproduce: --seed {seed}, case {case}: {n}, {c}, {size}, {attrs}, {e}")
        x = numbers(rng, shape_of(n, c, size, data_format), e.dtype)
        make = lambda v, attrs=attrs: ops.interpolate(v, **attrs)  # noqa: E731
        net, y = e.graph(x.shape, make)
        out = laid_out(rng, unwritten(y.shape, e.to), data_format)
        found = computed(net, laid_out(rng, x, data_format), out=out)
        with monkeypatch.context() as apart:
            apart.setattr(integer_window, "BUILDERS", {})
            net, _ = e.graph(x.shape, make)
            np.testing.assert_array_equal(found, net(x))


@pytest.mark.parametrize(
    ("kind", "to", "scales", "words"),
    [
        ("mean", "u8", (0.0, 0, 1.0, 0), "a scale is not a finite number above 0"),
        ("mean", "f32", (1.0, 0, 2.0, 0), "results in f32 have the scale 1"),
        ("mean", "u8", (1.0, 300, 1.0, 0), "zero points contains 300"),
        ("mean", "bf16", (1.0, 0, 1.0, 0), "so is dst, or f32"),
        ("l2", "u8", (1.0, 0, 1.0, 0), "sum, mean and max"),
    ],
)
def test_scales_that_kernels_refuse(kind: str, to: str, scales: tuple[float, int, float, int], words: str) -> None:
    with pytest.raises(dgo.Error, match=words):
        kernels.reduce(kind, (4, 8), [True, False], CODES["u8"], (8, 1), CODES[to], (0, 1), scales)


def test_sums_beyond_32_bits_are_refused() -> None:
    with pytest.raises(dgo.ShapeError, match="do not fit into 32 bits"):
        kernels.reduce("sum", (2**31 // 255 + 1,), [True], CODES["u8"], (1,), CODES["f32"], (0,), (1.0, 0, 1.0, 0))
