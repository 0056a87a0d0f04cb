"""The statements of docs/accuracy.md that no other test holds."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.algorithms import filtering
from dnnl_graph_ops.ir.env import ALGORITHM_VARIABLE, Env, default_algorithm
from dnnl_graph_ops.passes import mixed_precision

Array = np.ndarray[Any, Any]

PAGE = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text("utf-8")
needs_bf16 = pytest.mark.skipif(not kernels.bf16_isa()[0], reason="no products of bf16 here")
NAME = "Winograd bf16"


def cells(title: str) -> list[list[str]]:
    lines = PAGE.splitlines()
    rows = lines[lines.index(title) + 2 :]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows[: rows.index("")]]


# ---- tiles and points ------------------------------------------------------------------------------------------------

POINTS = "| results, taps | points | products of a result: 1-D, 2-D (direct) | coefficients |"
DYADIC = "0, 1, -1"


def is_dyadic(number: Fraction) -> bool:
    return number.denominator & (number.denominator - 1) == 0


def test_points_of_tiles():
    """Those of the kernels, by the number of results and taps; what a result costs, and whether integers stay exact."""
    rows = cells(POINTS)
    found = {tuple(map(int, row[0].split(", "))) for row in rows}
    tiles = {(m, taps) for by_taps in filtering.TILES.values() for taps, m in by_taps.items() if taps < filtering.MORE}
    assert found == tiles
    for sizes, points, costs, coefficients in rows:
        results, taps = map(int, sizes.split(", "))
        *finite, last = points.split(", ")
        assert last == "infinity" and len(finite) == results + taps - 2
        one = (results + taps - 1) / results
        assert re.fullmatch(r"(\S+), (\S+) \((\d+), (\d+)\)", costs).groups() == (  # type: ignore[union-attr]
            f"{one:.3g}", f"{one**2:.3g}", str(taps), str(taps**2),
        )  # fmt: skip
        exact = [Fraction(1) / prod(p - q for q in map(Fraction, finite) if q != p) for p in map(Fraction, finite)]
        assert all(map(is_dyadic, exact)) == coefficients.startswith(DYADIC) == (results < filtering.FAST)


def test_four_points_at_most_leave_integers_exact():
    """Of all sets of four finite dyadic points up to 2 in eighths, each has a difference without a dyadic inverse."""
    points = [Fraction(n, 8) for n in range(-16, 17)]
    for others in combinations(points, 3):
        if Fraction(0) not in others and all(
            is_dyadic(1 / (p - q)) for p, q in combinations((Fraction(0), *others), 2)
        ):
            pytest.fail(f"0 and {others}")


def layer_of(kernel: int, stride: int, rank: int = 2, channels: int = 16, size: int = 10) -> dgo.Value:
    graph = dgo.Graph()
    x = graph.input("x", (1, *(size,) * rank, channels))
    w = graph.constant(np.ones((*(kernel,) * rank, channels, channels), np.float32))
    return ops.convolution(x, w, strides=stride, pads_begin=1, pads_end=1, name="layer")


def names(y: dgo.Value, **options: Any) -> set[str]:
    return {info.name for info in y.graph.compile(y, **options).algorithms("layer")}


@pytest.mark.parametrize(("kernel", "stride", "tiles"), [(3, 1, {2}), (4, 2, {2, 3}), (2, 1, {2, 3})])
def test_sets_of_algorithms(kernel, stride, tiles):
    y = layer_of(kernel, stride)
    filtered = {
        algorithm: {n for n in names(y, algorithm=algorithm) if "Winograd" in n} for algorithm in ("direct", "auto")
    }
    assert filtered == {"direct": set(), "auto": {f"Winograd {n}" for n in tiles}}
    assert f"Winograd {filtering.FAST}" in names(y, algorithm="fast")


def test_few_channels_take_no_large_tiles():
    for channels in (1, 2, 3):
        large = f"Winograd {filtering.FAST}" in names(layer_of(3, 1, channels=channels), algorithm="fast")
        assert large == (channels > 2)


def test_large_tiles_on_three_axes_leave_the_first_direct():
    net_of = layer_of(3, 1, rank=3, size=8)
    net = net_of.graph.compile(net_of, algorithm="fast", algorithms={"layer": "Winograd 4"})
    assert any("tile 1x4x4" in step.step for step in net.explain().steps)


def test_fast_is_read_by_one_shot_functions(monkeypatch, rng):
    x, w = rng.standard_normal((1, 16, 16, 64), np.float32), rng.standard_normal((3, 3, 64, 64), np.float32)
    graph = dgo.Graph()
    y = ops.convolution(graph.input("x", x.shape), graph.input("w", w.shape), pads_begin=1, pads_end=1)
    for algorithm in ("direct", "auto", "fast"):
        monkeypatch.setenv(ALGORITHM_VARIABLE, algorithm)
        assert graph.compile(y).explain().algorithm == algorithm
        asked = Env(dgo.engine(), 1, algorithm=default_algorithm())
        assert asked.algorithm == algorithm
        np.testing.assert_allclose(dgo.convolution(x, w, pads_begin=1, pads_end=1), graph.compile(y)(x, w), atol=1e-3)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("name", ["builtin direct", "Winograd 2", "Winograd 4"])
def test_narrow_types_are_computed_in_f32_and_rounded_once(dtype, name, rng):
    graph = dgo.Graph()
    kind = dtypes.numpy_dtype(dtype)
    x, w = (rng.standard_normal(shape).astype(kind) for shape in ((1, 8, 8, 16), (3, 3, 16, 16)))
    y = ops.convolution(graph.input("x", x.shape, dtype), graph.constant(w), pads_begin=1, pads_end=1, name="layer")
    got = graph.compile(y, algorithm="fast", algorithms={"layer": name})(x).astype(np.float64)
    exact = dgo.convolution(x.astype(np.float32), w.astype(np.float32), pads_begin=1, pads_end=1).astype(np.float64)
    unit = {"bf16": 2.0**-9, "f16": 2.0**-12}[dtype]
    assert (np.abs(got - exact) <= np.abs(exact) * unit * 2 + 1e-4).all()


# ---- bf16 ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The precision that is asked for gains in every layer, whatever CPU runs the tests."""
    monkeypatch.setattr(mixed_precision, "_gain", lambda node, dtype, env: (1.0, ""))


def in_bf16(x: Array, w: Array, name: str, direction: str, **attrs: Any) -> Array:
    graph = dgo.Graph()
    build = {"forward": ops.conv_transpose, "backward data": ops.conv_transpose_backward_data}[direction]
    y = build(graph.input("x", x.shape), graph.constant(w), weights_format="IOX", name="layer", **attrs)
    net = graph.compile(y, precision="bf16", algorithm="fast", algorithms={"layer": name})  # type: ignore[arg-type]
    return np.asarray(net(x), np.float64)


BF16 = "| layer | tile | direction | normal: rms | largest | after a ReLU: rms | largest |"
SHAPES = {"3 x 3": (3, 1, 1), "4 x 4, stride 2": (4, 2, 1), "5 x 5": (5, 1, 2)}


@needs_bf16
@pytest.mark.parametrize("row", cells(BF16), ids=lambda row: " ".join(row[:3]))
def test_errors_in_bf16(row, narrow):
    layer, _, direction, *stated = row
    kernel, stride, pad = SHAPES[layer]
    attrs = {"strides": stride, "pads_begin": pad, "pads_end": pad}
    for data, known in zip(("normal", "relu"), (stated[:2], stated[2:]), strict=True):
        rng = np.random.default_rng(7)
        size = 12 // stride if direction == "forward" else 12
        x, w = (rng.standard_normal(shape, np.float32) for shape in ((1, size, size, 64), (64, 64, kernel, kernel)))
        x = np.maximum(x, 0) if data == "relu" else x
        one_shot = dgo.conv_transpose if direction == "forward" else dgo.conv_transpose_backward_data
        exact = np.asarray(one_shot(x, w, weights_format="IOX", **attrs), np.float64)
        ratios = []
        for name in ("builtin bf16", NAME):
            error = np.abs(in_bf16(x, w, name, direction, **attrs) - exact)
            ratios.append((np.sqrt(np.mean(error**2)), error.max()))
        rms, largest = (ours / direct for ours, direct in zip(*reversed(ratios), strict=True))
        assert abs(rms / float(known[0]) - 1) <= 0.2 and rms <= 2.2
        assert abs(largest / float(known[1]) - 1) <= 0.5


@needs_bf16
def test_largest_errors_in_bf16(narrow, seed):
    """2.5 times those of direct bf16 at most."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((1, 24, 24, 128), np.float32), rng.standard_normal((128, 128, 3, 3), np.float32)
    attrs = {"pads_begin": 1, "pads_end": 1}
    exact = np.asarray(dgo.conv_transpose(x, w, weights_format="IOX", **attrs), np.float64)
    direct, ours = (np.abs(in_bf16(x, w, name, "forward", **attrs) - exact).max() for name in ("builtin bf16", NAME))
    assert ours <= 2.5 * direct


@needs_bf16
@pytest.mark.parametrize(("kernel", "stride", "most"), [(3, 1, 28), (4, 2, 64), (2, 1, 64)])
def test_small_integers_stay_exact_in_bf16(kernel, stride, most, narrow, rng):
    """Values up to 64, and weights up to 28 for three taps, up to 64 for two."""
    x = rng.integers(-64, 65, (1, 8, 8, 32)).astype(np.float32)
    w = rng.integers(-most, most + 1, (32, 32, kernel, kernel)).astype(np.float32)
    attrs = {"strides": stride, "pads_begin": 1, "pads_end": 1}
    graph = dgo.Graph()
    y = ops.conv_transpose(graph.input("x", x.shape), graph.constant(w), weights_format="IOX", **attrs)
    # the net's results are bf16, rounded once
    exact = graph.compile(y, algorithm="direct")(x).astype(dtypes.numpy_dtype("bf16")).astype(np.float64)
    np.testing.assert_array_equal(in_bf16(x, w, NAME, "forward", **attrs), exact)


def test_tables_of_the_page_are_held():
    """Every table of the page is read by a test, but those of the part that was measured once."""
    held, once = PAGE.split("\n## Measured once\n")
    headers = re.findall(r"^(\|.*\|)\n\|---", held, re.M)
    assert len(headers) == 6 and {POINTS, BF16} <= set(headers)
    assert re.findall(r"^(\|.*\|)\n\|---", once, re.M)
