"""Plans of sizes that are new, by templates: equal to plans that are compiled for the sizes, and right in all nets."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from compile import drawn_sizes
from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms import table
from dnnl_graph_ops.compile import bands, tile_rows
from dnnl_graph_ops.compile.evaluate import Kernels
from dnnl_graph_ops.compile.template import Refused, Template
from dnnl_graph_ops.compile.traced_tiles import Tiled
from dnnl_graph_ops.symbolic import Size, Trace, tracing

EACH = 3
LENGTHS = (40, 50, 31, 64, 77, 29, 55)


@pytest.mark.cases(9, 150, 3000, each=EACH)
def test_plans_of_drawn_nets(start, seed):
    outcomes: Counter[str] = Counter()
    for number in range(start, start + EACH):
        print(f"--seed={seed}, net {number}: python -m compile.drawn_sizes 1 {seed} {number}")
        outcomes += drawn_sizes.judge(seed, number)
    assert outcomes["equal plans"] or start


def layers(graph: dgo.Graph, x: dgo.Value, channels: int = 8, count: int = 3) -> dgo.Value:
    """Convolutions of one length, each with a ReLU and a sum with its source, and one of twice the length."""
    rng = np.random.default_rng(3)

    def weights(*shape: int) -> dgo.Value:
        return graph.constant(rng.integers(-1, 2, shape).astype(np.float32))

    attrs = {"data_format": "NCX", "pads_begin": 1, "pads_end": 1}
    for _ in range(count):
        w = weights(channels, channels, 3)
        x = x + ops.relu(ops.convolution(x, w, weights_format="OIX", **attrs))
    up = weights(channels, 4, 4)
    return ops.conv_transpose(x, up, strides=2, weights_format="IOX", **attrs)


def vocoder(*shape: int | None) -> dgo.Net:
    graph = dgo.Graph()
    return graph.compile(layers(graph, graph.input("x", shape or (1, 8, None))))


def data(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).integers(-2, 3, shape).astype(np.float32)


def expected(x: np.ndarray) -> np.ndarray:
    return vocoder(*x.shape)(x)


def served(net: dgo.Net) -> int:
    return net._templates._served


def test_new_sizes_are_served_by_one_template():
    net = vocoder()
    for length in LENGTHS:
        x = data(1, 8, length)
        np.testing.assert_array_equal(net(x), expected(x))
    assert (net._templates._traced, served(net), net._templates.refusal) == (1, len(LENGTHS) - 2, "")
    assert net.plan_count() == len(LENGTHS)


def test_a_size_far_away_gets_a_template_of_its_own():
    net = vocoder()
    for length in (40, 50, 500, 600):
        x = data(1, 8, length)
        np.testing.assert_array_equal(net(x), expected(x))
    assert (net._templates._traced, served(net)) == (2, 1)


def test_few_templates_are_made_where_none_serves_other_sizes():
    net = vocoder()
    for length in (3, 20, 120, 720, 4320):
        x = data(1, 8, length)
        np.testing.assert_array_equal(net(x), expected(x))
    assert (net._templates._traced, served(net)) == (2, 0)


def residual(height=None, width=None):
    """A net whose last layer, by builtin direct sums, may write its results over the sum's other operand."""
    rng = np.random.default_rng(3)
    graph = dgo.Graph()
    x = graph.input("x", (1, height, width, 16))
    first, last = (graph.constant(rng.integers(-2, 3, (3, 3, 16, 16)).astype("f4")) for _ in range(2))
    pads = {"pads_begin": [1, 1], "pads_end": [1, 1]}
    there = ops.relu(ops.convolution(x, first, **pads))
    return graph.compile(ops.relu(ops.add(there, ops.convolution(ops.abs(there), last, **pads))))


@pytest.fixture
def traced(monkeypatch):
    """The shapes that templates were traced at, and whether they exploit these."""
    traced = []
    init = Template.__init__

    def made(self, net, shapes, exploits=True):
        init(self, net, shapes, exploits)
        traced.append((shapes, exploits))

    monkeypatch.setattr(Template, "__init__", made)
    return traced


@pytest.mark.parametrize("first", [60, 16])
def test_results_overwrite_operands_where_their_sizes_allow_it(monkeypatch, traced, first):
    """Kernels may overwrite what they add where lines are long; a template shares memory as each size allows."""
    direct = tuple(one for one in table.ALGORITHMS if one.name == "builtin direct")
    monkeypatch.setattr(table, "ALGORITHMS", direct)
    net = residual()
    for height, width in ((9, first), (9, 64), (10, 50), (9, 16), (10, 17), (8, 70), (9, 20)):
        x, fixed = data(1, height, width, 16), residual(height, width)
        np.testing.assert_array_equal(net(x), fixed(x))
        assert net._plans.latest().arena_bytes == fixed._plans.latest().arena_bytes
    assert traced == [([(1, 9, first, 16)], True)]
    assert served(net) == net.plan_count() - 2 and net._templates.refusal == ""


def depthwise(height=None, width=None):
    weights = np.random.default_rng(5).integers(-2, 3, (3, 3, 1, 24)).astype("f4")
    graph = dgo.Graph()
    x = graph.input("x", (1, height, width, 24))
    return graph.compile(ops.relu(ops.convolution(x, weights, groups=24, pads_begin=1, pads_end=1)))


def test_weights_of_depthwise_layers_are_packed_alike_for_all_sizes(monkeypatch):
    own = tuple(one for one in table.ALGORITHMS if one.name == "builtin depthwise")
    monkeypatch.setattr(table, "ALGORITHMS", own)
    net = depthwise()
    for height, width in ((12, 20), (9, 30), (9, 50), (7, 70), (14, 14)):
        x = data(1, height, width, 24)
        np.testing.assert_array_equal(net(x), depthwise(height, width)(x))
    assert (net._templates._traced, served(net)) == (1, 3)


def dilated(length=None):
    """A net whose outer taps meet nothing but padding where the length is at most 8."""
    rng = np.random.default_rng(3)
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, length))
    for dilation in (1, 8):
        attrs = {"pads_begin": dilation, "pads_end": dilation, "dilations": dilation, "data_format": "NCX"}
        w = graph.constant(rng.integers(-1, 2, (8, 8, 3)).astype(np.float32))
        x = ops.prelu(ops.convolution(x, w, weights_format="OIX", **attrs), graph.constant(data(8)), data_format="NCX")
    return graph.compile(x)


@pytest.mark.parametrize(
    ("lengths", "templates"), [((20, 15, 7, 5, 4, 40, 30), [True]), ((6, 7, 5, 9, 2, 20, 8), [True, False])]
)
def test_taps_in_padding_are_left_out_where_all_sizes_may(traced, lengths, templates):
    net = dilated()
    for length in lengths:
        x = data(1, 8, length)
        np.testing.assert_array_equal(net(x), dilated(length)(x))
    assert [exploits for _, exploits in traced] == templates
    assert served(net) == len(lengths) - 1 - len(templates) and net._templates.refusal == ""


def test_sizes_of_0_and_1_and_of_several_dims():
    net = vocoder(None, 8, None)
    for batch, length in ((2, 40), (3, 50), (1, 50), (2, 60), (4, 31), (1, 1), (0, 40), (3, 44)):
        x = data(batch, 8, length)
        result = net(x)
        assert result.shape == (batch, 4, 2 * length)
        if x.size:
            np.testing.assert_array_equal(result, expected(x))
    assert served(net) > 0


@pytest.mark.parametrize(("shape", "format"), [((1, None, None, 16), "NXC"), ((1, 16, None, None), "NCX")])
def test_the_nearest_elements_need_no_op_of_the_library(shape, format):
    graph = dgo.Graph()
    net = graph.compile(ops.interpolate(graph.input("x", shape), mode="nearest", scales=[2.0, 2.0], data_format=format))
    axes = [axis for axis, size in enumerate(shape) if size is None]
    for sizes in ((4, 6), (5, 7), (8, 3)):
        rest = iter(sizes)
        x = data(*(next(rest) if size is None else size for size in shape))
        np.testing.assert_array_equal(net(x), x.repeat(2, axes[0]).repeat(2, axes[1]))
    assert isinstance(net._templates._all[0]._parts, Kernels)


def test_strides_and_arrays_for_results():
    net = vocoder()
    for length in LENGTHS:
        net(data(1, 8, length))
    x = data(1, 8, 90)[..., ::2]
    np.testing.assert_array_equal(net(x), expected(np.ascontiguousarray(x)))
    out = np.full((4, 1, 2 * 47), np.nan, np.float32).transpose(1, 0, 2)
    x = data(1, 8, 47)
    assert net(x, out=out) is out
    np.testing.assert_array_equal(out, expected(x))
    out = np.full((1, 4, 2 * 49), np.nan, np.float32)
    x = data(1, 8, 49)
    assert net(x, out=out) is out
    np.testing.assert_array_equal(out, expected(x))


def test_what_is_told_of_a_plan():
    net = vocoder()
    for length in LENGTHS:
        net(data(1, 8, length))
    assert served(net)
    before = net(data(1, 8, 61))
    assert "Convolution" in str(net.explain()) and str(net.explain(passes=True, rewrites=True))
    assert net.algorithms(net._nodes[0].name)
    np.testing.assert_array_equal(net(data(1, 8, 61)), before)
    assert net.benchmark(data(1, 8, 61), repeat=2).times
    assert net.plan_count() == len(LENGTHS) + 1


def test_cleared_plans_and_another_number_of_threads():
    net = vocoder()
    threads = dgo.get_num_threads()
    for length in LENGTHS:
        net(data(1, 8, length))
    net.clear_plans()
    assert net.plan_count() == 0
    for length in LENGTHS:
        np.testing.assert_array_equal(net(data(1, 8, length)), expected(data(1, 8, length)))
    try:
        dgo.set_num_threads(3 - min(threads, 2))
        for length in LENGTHS:
            np.testing.assert_array_equal(net(data(1, 8, length)), expected(data(1, 8, length)))
    finally:
        dgo.set_num_threads(threads)


def test_plans_of_many_sizes_stay_in_the_limit(limit):
    limit(400_000)
    net = vocoder(1, 8, None)
    for length in range(40, 75):
        x = data(1, 8, length)
        np.testing.assert_array_equal(net(x), expected(x))
    assert net.plan_count() < 35 and served(net) > 20


def test_weights_are_kept_by_plans_alone():
    """Where plans of other nets drive all of a net's plans out, its template is of no use, and drops no plan's data."""
    net = vocoder()
    for length in LENGTHS:
        net(data(1, 8, length))
    template = net._templates._all[0]
    assert template.alive
    net._plans.clear()
    gc.collect()
    assert not template.alive and template.executor([45]) is None
    x = data(1, 8, 45)
    np.testing.assert_array_equal(net(x), expected(x))


def test_a_template_keeps_no_trace():
    gc.collect()
    # each size refers to its type
    before = sys.getrefcount(Size)
    net = vocoder()
    for length in LENGTHS:
        net(data(1, 8, length))
    with tracing() as trace:
        n = trace.dim(6, 1, 24)
        assert sys.getrefcount(Size) > before
    del trace, n
    gc.collect()
    assert served(net) and sys.getrefcount(Size) == before
    assert not [one for one in gc.get_objects() if isinstance(one, Trace)]


def test_threads_that_call_with_different_sizes():
    net, results = vocoder(), {}
    wanted = {length: expected(data(1, 8, length)) for length in range(30, 62)}

    def call(first: int) -> None:
        for length in range(30 + first, 62, 4):
            results[length] = net(data(1, 8, length))

    threads = [threading.Thread(target=call, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert served(net) > 20
    for length, result in wanted.items():
        np.testing.assert_array_equal(results[length], result)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_run_band_by_band(monkeypatch, threads):
    """Layers run a few rows at a time; the last band of a size has fewer rows than that of another."""
    monkeypatch.setattr(tile_rows, "saving", lambda chain, env: float(len(chain)))
    monkeypatch.setattr(bands, "NEAR", 1 << 14)
    before = dgo.get_num_threads()
    try:
        dgo.set_num_threads(threads)
        net = banded(1, 8, None)
        for length in (1000, 1403, 1501, 1777, 999, 1002):
            x = data(1, 8, length)
            np.testing.assert_array_equal(net(x), banded(*x.shape)(x))
            assert any("|" in step["label"] for step in net._plans.latest().describe())
    finally:
        dgo.set_num_threads(before)
    assert served(net) == 4


@pytest.mark.parametrize("near", [1 << 12, 1 << 15])
def test_a_size_by_bands_takes_as_many_threads_as_when_it_is_compiled(monkeypatch, near):
    """The estimate of a template counted the scratch of bands of its trace's size."""
    monkeypatch.setattr(tile_rows, "saving", lambda chain, env: float(len(chain)))
    monkeypatch.setattr(bands, "NEAR", near)
    before = dgo.get_num_threads()
    try:
        dgo.set_num_threads(2)
        assert drawn_sizes.judge(88002, 1014)["equal plans"]
    finally:
        dgo.set_num_threads(before)


def test_a_part_that_no_formula_holds_for_is_lowered_again(monkeypatch):
    monkeypatch.setattr(tile_rows, "saving", lambda chain, env: float(len(chain)))
    monkeypatch.setattr(bands, "NEAR", 1 << 14)
    net = banded(1, 8, None)
    for length in (1000, 1403):
        net(data(1, 8, length))
    monkeypatch.setattr(Tiled, "_evaluated", lambda *values: None)
    x = data(1, 8, 1501)
    np.testing.assert_array_equal(net(x), banded(*x.shape)(x))
    assert served(net) == 1


def banded(*shape: int | None) -> dgo.Net:
    """Convolutions behind each other, with and without strides and dilations."""
    graph = dgo.Graph()
    x = graph.input("x", shape)
    for strides, dilations in ((1, 1), (1, 3), (2, 1), (1, 1)):
        w = graph.constant(np.random.default_rng(5).integers(-1, 2, (8, 8, 3)).astype(np.float32))
        x = ops.relu(
            ops.convolution(
                x, w, strides=strides, dilations=dilations, pads_begin=dilations, pads_end=dilations,
                data_format="NCX", weights_format="OIX",
            )
        )  # fmt: skip
    return graph.compile(x)


@pytest.mark.parametrize(
    "options", [{"tune": "off"}, {"algorithm": "direct"}, {"policy": "debug"}, {"precision": "bf16"}]
)
def test_other_options(options):
    graph = dgo.Graph()
    net = graph.compile(layers(graph, graph.input("x", (1, 8, None))), **options)
    for length in LENGTHS:
        graph = dgo.Graph()
        x = data(1, 8, length)
        fixed = graph.compile(layers(graph, graph.input("x", x.shape)), **options)
        np.testing.assert_allclose(net(x), fixed(x), rtol=1e-2, atol=8)


def test_sizes_that_do_not_fit_are_refused_as_before():
    graph = dgo.Graph()
    a, b = graph.input("a", (1, None)), graph.input("b", (1, None))
    net = graph.compile(a + b)
    for n in (5, 6, 7, 8):
        np.testing.assert_array_equal(net(data(1, n), data(1, n)), 2 * data(1, n))
    with pytest.raises(dgo.ShapeError):
        net(data(1, 5), data(1, 7))
    np.testing.assert_array_equal(net(data(1, 6), data(1, 1)), data(1, 6) + data(1, 1))


def test_numpy_functions_refuse_a_template():
    graph = dgo.Graph()
    x = graph.input("x", (None, 4))
    net = graph.compile(ops.gen_index(x, axis=1))
    with pytest.raises(Refused, match="NumPy"):
        Template(net._traceable(), [(3, 4)])
    for n in (3, 4, 5):
        np.testing.assert_array_equal(net(data(n, 4)), np.tile(np.arange(4), (n, 1)))


def test_an_empty_batch_before_a_mean():
    """The estimate of a layer that computes nothing decides whether the mean is folded into the layer."""

    def empty(*shape: int | None) -> dgo.Net:
        graph = dgo.Graph()
        x = ops.slice(graph.input("x", shape), starts=[1], ends=[2**31], axes=[0])
        y = ops.convolution(x, graph.constant(data(17, 3, 1, 1)), weights_format="OIX")
        return graph.compile(ops.reduce_mean(y, axes=[0], keep_dims=True))

    x = data(1, 9, 18, 3)
    np.testing.assert_array_equal(empty(1, None, 18, 3)(x), empty(*x.shape)(x))


def test_a_slice_without_an_end():
    graph = dgo.Graph()
    x = ops.slice(graph.input("x", (1, 4, None)), starts=[1], ends=[2**63 - 1], axes=[2])
    net = graph.compile(ops.relu(x) + ops.slice(x, starts=[0], ends=[2**63 - 1], axes=[2]))
    for length in LENGTHS:
        x = data(1, 4, length)[..., 1:]
        np.testing.assert_array_equal(net(data(1, 4, length)), np.maximum(x, 0) + x)
    assert (served(net), net._templates.refusal) == (len(LENGTHS) - 2, "")
