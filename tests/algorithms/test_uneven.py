"""Layers where some rows of the operands are far larger than others: what docs/accuracy.md says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.algorithms import filtering
from dnnl_graph_ops.passes import mixed_precision

from .test_errors import errors_within

Array = np.ndarray[Any, Any]

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
# results of a tile by the form's name; the unit of rounding of what it multiplies; the bound of the page in these units
F32, BF16 = 2.0**-24, 2.0**-9
BOUNDS = {
    "builtin direct": (1, F32, 4.0), "Winograd 2": (2, F32, 4.0), "Winograd 3": (3, F32, 4.0),
    "Winograd 4": (4, F32, 8.0), "builtin bf16": (1, BF16, 1.0), "Winograd bf16": (3, BF16, 1.0),
}  # fmt: skip
needs_bf16 = pytest.mark.skipif(not kernels.bf16_isa()[0], reason="no products of bf16 here")


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The precision that is asked for gains in every layer, whatever CPU runs the tests."""
    monkeypatch.setattr(mixed_precision, "_gain", lambda node, dtype, env: (1.0, ""))


class Layer(NamedTuple):
    """An ordinary convolution in two axes, padded by one."""

    x: Array
    w: Array
    stride: int = 1

    @property
    def places(self) -> int:
        return (self.x.shape[1] + 2 - self.w.shape[0]) // self.stride + 1

    def exact(self) -> Array:
        x = np.pad(self.x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
        (k, s), end = (self.w.shape[0], self.stride), self.stride * (self.places - 1) + 1
        taps = (x[:, i : i + end : s, j : j + end : s] @ self.w[i, j].astype(np.float64) for i, j in np.ndindex(k, k))
        return np.asarray(sum(taps))

    def magnitudes(self, tile: int) -> Array:
        """Returns for each result the sum over taps and channels of max |x| of its tile times max |w|."""
        k, s, n = self.w.shape[0], self.stride, self.places
        x = np.pad(np.abs(self.x[0].astype(np.float64)), ((1, s * tile + k), (1, s * tile + k), (0, 0)))
        w = np.abs(self.w.astype(np.float64)).max((0, 1))
        result = np.zeros((n, n, w.shape[1]))
        for i, j in np.ndindex(-(-n // tile), -(-n // tile)):
            first = i * tile, j * tile
            reads = tuple(slice(s * at, s * (at + tile - 1) + k) for at in first)
            result[first[0] : first[0] + tile, first[1] : first[1] + tile] = x[reads].max((0, 1)) @ w
        return k * k * result

    def graph(self) -> dgo.Value:
        graph = dgo.Graph()
        x = graph.input("x", self.x.shape)
        w = graph.constant(self.w)
        return ops.convolution(x, w, strides=self.stride, pads_begin=1, pads_end=1, name="layer")

    def errors(self, name: str, algorithm: str = "fast") -> Array:
        y = self.graph()
        precision: Any = "bf16" if "bf16" in name else None
        net = y.graph.compile(y, precision=precision, algorithm=algorithm, algorithms={"layer": name})  # type: ignore[arg-type]
        return np.asarray(np.abs(net(self.x).astype(np.float64) - self.exact()))


def rows(channels: int, size: int, r: float, seed: int = 0) -> Layer:
    """The last row of x and the first row of taps, which never meet in a result, are r times the rest."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((1, size, size, channels), np.float32)
    w = rng.standard_normal((3, 3, channels, channels), np.float32)
    x[:, -1] *= r
    w[0] *= r
    return Layer(x, w)


def drawn(rng: np.random.Generator) -> Layer:
    channels, out, size = (int(rng.choice(some)) for some in ([1, 3, 16, 48], [8, 16], [6, 9]))
    kernel, stride = ((3, 1), (4, 2), (2, 1), (5, 2), (5, 1))[rng.integers(5)]
    r = np.float32(10 ** rng.uniform(0, 5))
    x, w = (
        rng.standard_normal(shape, np.float32) for shape in ((1, size, size, channels), (kernel, kernel, channels, out))
    )
    for array, axes in ((x, (1, 2)), (w, (0, 1))):
        for axis in axes:
            if rng.random() < 0.6:
                at = [slice(None)] * 4
                at[axis] = slice(place := int(rng.integers(array.shape[axis])), place + 1)
                array[tuple(at)] *= r
        if rng.random() < 0.3:
            array[rng.random(array.shape) < 0.05] *= r
    return Layer(x, w, stride)


def applies(name: str, layer: Layer) -> bool:
    if "bf16" in name and (min(layer.w.shape[2:]) < 16 or not kernels.bf16_isa()[0]):
        return False
    taps = -(-layer.w.shape[0] // layer.stride)
    tile = BOUNDS[name][0]
    known = filtering.TILES.get(tile, {}).get(min(taps, filtering.MORE), 1)
    smaller = {filtering.TILES[n].get(min(taps, filtering.MORE), 1) for n in filtering.TILES if n < tile}
    few = name == "Winograd 4" and layer.w.shape[2] < filtering.FEWEST
    return tile == 1 or ("bf16" in name and known > 1) or (known > 1 and known not in smaller and not few)


@pytest.mark.cases(4, 60, 1000, each=1)
def test_each_result_keeps_to_the_bound_of_its_tile(start, seed):
    layer = drawn(np.random.default_rng([seed, start]))
    tried = 0
    for name, (results, unit, bound) in BOUNDS.items():
        if not applies(name, layer):
            continue
        taps = -(-layer.w.shape[0] // layer.stride)
        tile = filtering.TILES.get(results, {}).get(min(taps, filtering.MORE), 1)
        worst = (layer.errors(name)[0] / (unit * layer.magnitudes(tile))).max()
        assert worst <= bound, f"--seed {seed}, {start}: {name} {worst:.2f}, {layer.x.shape} {layer.w.shape}"
        tried += 1
    assert tried > 1


@pytest.mark.parametrize("kind", ["ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights"])
@pytest.mark.cases(2, 20, 200, each=1)
def test_each_result_of_every_direction_keeps_to_the_bound_of_all_tiles(kind, start, seed):
    for name, worst in errors_within(kind, np.random.default_rng([seed, start, len(kind)])).items():
        assert worst <= BOUNDS[name][2] * F32, f"--seed {seed}, {start}: {kind} {name} {worst / F32:.2f}"


def stated(title: str) -> dict[str, list[float]]:
    """The numbers of a table of the page by its first column."""
    lines = PAGE.read_text("utf-8").splitlines()
    table = lines[lines.index(title) + 2 :]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[: table.index("")]]
    return {name: [float(cell) for cell in row] for name, *row in cells}


TABLE = "| r | direct | Winograd 2 | Winograd 4 | direct bf16 | Winograd bf16 |"


def rms(array: Array) -> float:
    return float(np.sqrt(np.mean(array**2)))


def table_row(r: float, names: list[str]) -> list[float]:
    layer = rows(64, 16, r)
    return [rms(layer.errors(name)) / rms(layer.exact()) for name in names]


@pytest.mark.parametrize("r", [1, 10, 100, 1000])
def test_the_page_says_what_rows_that_never_meet_cost(r):
    names = list(BOUNDS)
    names.remove("Winograd 3")
    if not kernels.bf16_isa()[0]:
        names = names[:3]
    for name, error, known in zip(names, table_row(r, names), stated(TABLE)[str(r)], strict=False):
        assert 0.6 * known <= error <= 1.6 * known, name


# ---- bf16 under "auto" -----------------------------------------------------------------------------------------------

NAME = "Winograd bf16"


def allowed(w: Array, algorithm: str = "auto", build: Any = ops.convolution) -> bool:
    graph = dgo.Graph()
    x = graph.input("x", (1, 14, 14, w.shape[2]))
    order: dict[str, Any] = {} if build is ops.convolution else {"weights_format": "XOI"}
    y = build(x, graph.constant(w), pads_begin=1, pads_end=1, name="layer", **order)
    net = graph.compile(y, precision="bf16", algorithm=algorithm)
    return NAME in {info.name for info in net.algorithms("layer")}


def even(seed: int = 1, channels: int = 32, kernel: int = 3) -> Array:
    return np.random.default_rng(seed).standard_normal((kernel, kernel, channels, channels), np.float32)


@needs_bf16
@pytest.mark.parametrize("build", [ops.convolution, ops.conv_transpose])
def test_weights_of_a_large_range_take_no_winograd_in_bf16(build, seed):
    for axis in range(2):
        w = even(seed)
        larger = w[:1] if axis == 0 else w[:, :1]
        larger *= 30
        assert not allowed(w, build=build)
        # who asks for "fast" gets it
        assert allowed(w, "fast", build)
    w = even(seed)
    w[1, 1] *= 60
    assert not allowed(w, build=build)
    w = even(seed)
    w[2] = 0
    assert not allowed(w, build=build)


@needs_bf16
@pytest.mark.parametrize(("build", "axis"), [(ops.convolution, 3), (ops.conv_transpose, 2)])
def test_one_channel_of_results_with_a_large_range_is_enough(build, axis, seed):
    w = even(seed)
    at = [slice(None)] * 4
    at[0], at[axis] = slice(0, 1), slice(5, 6)
    w[tuple(at)] *= 50
    assert not allowed(w, build=build)


@needs_bf16
def test_weights_like_those_of_trained_models_keep_winograd(seed):
    """The centre three times the corners (12 times in a channel), channels of all magnitudes, and dead ones."""
    w = even(seed)
    assert allowed(w)
    w[1, 1] *= 3
    assert allowed(w)
    w[..., 3] *= 1e-30
    w[0, 0, :, 3] = 0
    w *= np.exp(np.random.default_rng(seed).standard_normal(32)).astype(np.float32)
    assert allowed(w)
    w[1, 1, :, 4] *= 4
    assert allowed(w)
    # bilinear enlarging by two: corners of 1/16, 9/16 in the middle
    taps = np.outer(*[np.array([1, 3, 3, 1], np.float32) / 4] * 2)
    graph = dgo.Graph()
    y = ops.conv_transpose(
        graph.input("x", (1, 14, 14, 32)), graph.constant(even(seed, 32, 4) * taps[..., None, None]), strides=2,
        pads_begin=1, pads_end=1, name="layer", weights_format="XOI",
    )  # fmt: skip
    assert NAME in {info.name for info in graph.compile(y, precision="bf16").algorithms("layer")}


@needs_bf16
def test_weights_that_vary_keep_it():
    graph = dgo.Graph()
    w = graph.input("w", (3, 3, 32, 32))
    y = ops.convolution(graph.input("x", (1, 14, 14, 32)), w, pads_begin=1, pads_end=1, name="layer")
    assert NAME in {info.name for info in graph.compile(y, precision="bf16").algorithms("layer")}
