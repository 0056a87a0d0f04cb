"""Rankings from the cache are those that the layer itself would get."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import choice, table
from dnnl_graph_ops.bench.problem import Problem
from dnnl_graph_ops.bench.suite import quick_layers
from dnnl_graph_ops.bench.times import described
from dnnl_graph_ops.convolution.problem import DGRAD, FPROP, WGRAD
from dnnl_graph_ops.cost import nearest
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program.epilogue import EpilogueOp
from dnnl_graph_ops.program.program import Buffer, Place, View

# layers of which each two differ in a single property somewhere
SIZES = [(1, 16, 8, 8), (2, 16, 40, 40)]


def layer(shape, data_format, operand, varies):
    graph = dgo.Graph()
    n, c, h, w = shape
    order = (n, c, h, w) if data_format == "NCX" else (n, h, w, c)
    x = graph.input("x", (None, *order[1:]) if varies else order)
    weights = graph.constant(np.ones((c, c, 3, 3), np.float32))
    y = dgo.ops.convolution(x, weights, padding=1, data_format=data_format, weights_format="OIX")
    if operand:
        y = y + graph.input("z", order)
    net = graph.compile(dgo.ops.relu(y))
    if varies:
        net(*(np.ones([size or n for size in value.shape], np.float32) for value in net.inputs))


@pytest.mark.parametrize("varies", [False, True])
def test_kept_rankings_are_the_layers_own(varies, monkeypatch):
    kept, keys = choice._kept, []

    def compared(key, rank):
        ranking = list(kept(key, rank))
        keys.append(key)
        assert ranking == rank()
        return ranking

    monkeypatch.setattr(choice, "_rankings", {})
    monkeypatch.setattr(choice, "_kept", compared)
    for _ in range(2):
        for shape, data_format, operand in product(SIZES, ("NCX", "NXC"), (False, True)):
            layer(shape, data_format, operand, varies)
    assert len(set(keys)) < len(keys)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("direction", [DGRAD, FPROP, WGRAD])
def test_counts_and_features_depend_on_no_post_op(direction, dtype):
    """Layers that differ in the bias and in post-ops alone are counted once."""
    compared = set()
    for layer, layout, constant in product(quick_layers(), ("NCX", "NXC"), (False, True)):
        bare = described(layer, direction, layout, constant, dtype, run=False)
        bias = View(Buffer(Place.CONSTANT, dtype, bare.result.shape[1]), bare.result.shape[1:2], (1,))
        operand = replace(bare.result, buffer=Buffer(Place.SCRATCH, dtype, bare.result.size))
        epilogue = EpilogueOp("Add", {}, (0, operand)), EpilogueOp("Tanh", {}, (1,))
        full = bare if direction == WGRAD else bare.with_views(bias=bias, epilogue=epilogue)
        env = Env(dgo.engine("cpu"), 2)
        assert nearest.features(bare, env) == nearest.features(full, env)
        assert table.usable(bare, env) == table.usable(replace(full), env)
        for algorithm in table.usable(bare, env):
            compared.add(algorithm)
            sharing = replace(full)
            sharing.shares(bare.answers)
            assert algorithm.seconds(sharing, env) == algorithm.seconds(replace(full), env), algorithm.name
            assert algorithm.counts(bare, env) == algorithm.counts(replace(full), env), algorithm.name
            assert algorithm.seconds(replace(bare), env) == algorithm.seconds(bare, env)
    assert len(compared) > 5


@pytest.mark.parametrize(
    ("sizes", "library", "builtin", "clock", "first"),
    [
        ((4096,), 49, 52, 1, "builtin direct"),
        ((2048,), 182, 203, 1, "builtin direct"),  # of HiFi-GAN v2
        ((2048,), 181, 213, 1, "convolution"),
        ((2048,), 181, 213, 0.28, "builtin direct"),  # a run of these estimates saves 9 us
        ((4096,), 49, 60, 1, "convolution"),  # every run would take much longer
        ((4096,), 1000, 1050, 1, "convolution"),  # repays the compilation within fewer runs
        ((64, 64), 49, 52, 1, "convolution"),
    ],
)
def test_a_1d_layer_is_compiled_where_runs_repay_it(sizes, library, builtin, clock, first, monkeypatch):
    monkeypatch.setattr(table, "clock", lambda problem, env: clock)
    ones = (1,) * len(sizes)
    layer = Problem("vocoder", 1, 16, 16, sizes, tuple(3 * n for n in ones), ones, ones)
    names = {"convolution": library, "builtin direct": builtin}
    ranking = [(table.named(name, FPROP), 1e-6 * micros) for name, micros in names.items()]
    problem = described(layer, FPROP, "NCX", constant=True)
    assert choice._without_compiling(ranking, problem, Env(dgo.engine("cpu"), 1))[0][0].name == first


SLOW = [
    # the library multiplies and adds up columns
    (
        Problem("dilated", 2, 16, 192, (28, 28), (2, 2), (2, 2), (2, 2), (2, 2), (), (4, 4)),
        DGRAD,
        "f32",
        "deconvolution",
    ),
    (
        Problem("dilated", 2, 16, 192, (28, 28), (2, 2), (2, 2), (2, 2), (2, 2), (), (4, 4)),
        DGRAD,
        "bf16",
        "deconvolution",
    ),
    # few results for each source, or in a row
    (Problem("strided", 2, 160, 160, (28, 28), (5, 5), (2, 2), groups=10), FPROP, "f32", "builtin grouped"),
    (Problem("strided", 2, 160, 160, (28, 28), (5, 5), (2, 2), groups=10), DGRAD, "bf16", "builtin grouped"),
    (Problem("short", 1, 192, 192, (3, 3, 3), (3, 3, 3), (2, 2, 2), groups=12), DGRAD, "bf16", "builtin grouped"),
    # each sum adds up the lanes of a vector
    (Problem("narrow", 4, 8, 6, (64, 64), (1, 1), (2, 2)), DGRAD, "bf16", "im2col"),
]


@pytest.mark.constants("avx512_bf16")
@pytest.mark.parametrize(("layer", "direction", "dtype", "slow"), SLOW, ids=[f"{s[0].name} {s[2]}" for s in SLOW])
def test_kinds_of_layers_that_an_algorithm_is_slow_for(layer, direction, dtype, slow):
    """Times on a Zen 5: the slow one takes 1.4 to 12 times as long as the best."""
    problem = described(layer, direction, "NXC", constant=True, dtype=dtype, run=False)
    ranking = [algorithm.name for algorithm, _ in choice.ranked(problem, Env(dgo.engine("cpu"), 1))]
    assert slow in ranking and ranking[0] != slow


SLOW_IN_TILES = [
    # oneDNN pads few channels, in three axes to more than the layer has
    (Problem("2 channels", 1, 160, 2, (16,) * 3, (4,) * 3, pads_begin=(1,) * 3), "convolution"),
    (Problem("2 channels", 1, 2, 320, (14,) * 3, (3,) * 3, pads_begin=(1,) * 3, op="conv"), "convolution"),
    (Problem("2 channels", 1, 2, 32, (32,) * 3, (3,) * 3, (2,) * 3, (1,) * 3, op="conv"), "convolution"),
]


@pytest.mark.constants("amx")
@pytest.mark.parametrize(("layer", "slow"), SLOW_IN_TILES)
def test_kinds_of_layers_that_an_algorithm_is_slow_for_in_tiles(layer, slow, monkeypatch):
    """Times on a Xeon with AMX: the slow one takes 1.1 to 2 times as long as the best."""
    monkeypatch.setattr(Env, "compute_dtype", lambda env, dtype, *ops: dtype)
    layer = layer.adjoint if layer.op == "conv" else layer
    problem = described(layer, FPROP, "NXC", constant=True, dtype="bf16", run=False)
    ranking = [algorithm.name for algorithm, _ in choice.ranked(problem, Env(dgo.engine("cpu"), 1))]
    assert slow in ranking and ranking[0] != slow


def test_the_library_waits_for_the_weights_of_large_nets(monkeypatch):
    """Estimates of the library's ops grow by the constant weights where a net's constants leave the near caches."""
    env = Env(dgo.engine("cpu"), 1)
    for constant in (True, False):
        problem = described(
            Problem("1x1", 1, 512, 256, (7, 7), (1, 1), (1, 1)), FPROP, "NXC", constant=constant, run=False
        )
        warm, cold = (dict(choice._of_fixed_sizes(problem, replace(env, cold=is_cold))) for is_cold in (False, True))
        waited = {a for a in warm if cold[a] > warm[a]}
        assert waited == ({a for a in warm if a.ops(problem) and not a.converts(problem, env)} if constant else set())
        assert all(cold[a] == warm[a] for a in warm if a not in waited)


@pytest.mark.parametrize(("channels", "is_cold"), [(64, False), (1024, True)])
def test_nets_tell_whether_their_constants_leave_the_near_caches(channels, is_cold):
    graph = dgo.Graph()
    x = graph.input("x", (1, channels))
    weights = graph.constant(np.ones((channels, channels), np.float32))
    assert graph.compile(x @ weights)._env().cold is is_cold


@pytest.mark.parametrize(
    ("positions", "channels", "constant", "lying"),
    [(9, 24, True, True), (400, 24, True, False), (400, 4, True, True), (400, 24, False, True)],
)
def test_weights_of_one_tap_are_read_as_they_lie_for_few_positions(positions, channels, constant, lying):
    """Constant weights of one tap are packed once for many positions, except those of up to 4 channels."""
    graph = dgo.Graph()
    x = graph.input("x", (1, positions, 144))
    weights = np.ones((channels, 144, 1), np.float32)
    w = graph.constant(weights) if constant else graph.input("w", weights.shape)
    net = graph.compile(dgo.ops.convolution(x, w, weights_format="OIX"))
    assert ("builtin im2col" in dict(net.explain().partitions[0].candidates)) == lying
