"""Narrow groups as fewer, wider ones: exact in f32 on any CPU, and chosen where bf16 is multiplied in tiles."""

from __future__ import annotations

import numpy as np
import pytest
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import choice, joined_groups, lower, table
from dnnl_graph_ops.bench.problem import Problem
from dnnl_graph_ops.bench.times import described
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.convolution.nodes import make_problem
from dnnl_graph_ops.convolution.problem import DGRAD, FPROP
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program.program import Place, Program

from .test_algorithms import external

JOINED, FLIPPED = joined_groups.ALGORITHMS
GROUPED = table.named("builtin grouped", FPROP)


@pytest.mark.isa
@pytest.mark.parametrize(("width", "groups"), [(8, 4), (4, 8), (8, 3), (12, 4), (6, 4), (4, 3)])
@pytest.mark.parametrize("formats", [("NXC", "OIX"), ("NCX", "OIX"), ("NXC", "XIO")])
@pytest.mark.parametrize(("kernel", "strides"), [((3, 3), (1, 1)), ((2, 1, 3), (2, 1, 2))])
def test_exact_and_the_same_at_every_run(width, groups, formats, kernel, strides, seed):
    rng, channels, size = np.random.default_rng(seed), width * groups, (5, 6, 7)[: len(kernel)]
    data_format, weights_format = formats
    shape = (2, *size, channels) if data_format == "NXC" else (2, channels, *size)
    weights_shape = (channels, width, *kernel) if weights_format == "OIX" else (*kernel, width, channels)
    arrays = [rng.integers(-3, 4, s).astype(np.float32) for s in (shape, weights_shape, (channels,))]
    ones = (1,) * len(kernel)
    attrs = {
        "strides": strides, "pads_begin": ones, "pads_end": ones, "dilations": ones, "groups": groups,
        "auto_pad": "None", "data_format": data_format, "weights_format": weights_format,
    }  # fmt: skip
    graph = dgo.Graph()
    values = [graph.input(name, array.shape) for name, array in zip(("x", "w", "bias"), arrays, strict=True)]
    y = dgo.ops.convolution(*values, **attrs)
    want = evaluate_built(graph, dict(zip(values, arrays, strict=True)))[y]

    views = [external(Place.INPUT, array, index) for index, array in enumerate(arrays)]
    results = [np.full(want.shape, np.nan, np.float32) for _ in range(2)]
    output = external(Place.OUTPUT, results[0], 0)
    problem, program, env = make_problem("Convolution", attrs, views, output), Program(), Env(dgo.engine("cpu"), 1)
    lower.build(program, problem, JOINED, env)
    executor = assemble(program, views, [output], env.engine, threads=1).executor
    for result in results:
        executor.run(arrays, [result])
        np.testing.assert_array_equal(result, want)


KINDS = [
    (Problem("8 of 5x5x5", 1, 384, 384, (16,) * 3, (5,) * 3, (2,) * 3, groups=48, op="conv"), True),
    (Problem("8 of 3x3", 1, 128, 128, (28, 28), (3, 3), pads_begin=(1, 1), groups=16, op="conv"), True),
    (Problem("4 of 3x3x3", 1, 192, 192, (12,) * 3, (3,) * 3, pads_begin=(1,) * 3, groups=48, op="conv"), True),
    (Problem("16 of 3x3", 1, 128, 128, (28, 28), (3, 3), pads_begin=(1, 1), groups=8, op="conv"), False),
    (Problem("12 of 3x3", 1, 144, 144, (28, 28), (3, 3), pads_begin=(1, 1), groups=12, op="conv"), True),
    (Problem("3 groups", 1, 24, 24, (28, 28), (3, 3), pads_begin=(1, 1), groups=3, op="conv"), True),
    (Problem("3 groups of 4", 2, 12, 12, (28, 28), (7, 7), pads_begin=(3, 3), groups=3, op="conv"), True),
    (Problem("2 groups of 3", 2, 6, 6, (28, 28), (3, 3), pads_begin=(1, 1), groups=2, op="conv"), False),
    (Problem("11 groups", 1, 88, 88, (28, 28), (3, 3), pads_begin=(1, 1), groups=11, op="conv"), False),
    (Problem("depthwise", 1, 32, 32, (28, 28), (3, 3), pads_begin=(1, 1), groups=32, op="conv"), False),
]


@pytest.mark.constants("amx")
@pytest.mark.parametrize(("layer", "chosen"), KINDS, ids=[layer.name for layer, _ in KINDS])
def test_chosen_in_tiles(layer, chosen, monkeypatch):
    """Times on a Xeon with AMX: builtin grouped takes 2 to 10 times as long as the joined groups."""
    monkeypatch.setattr(Env, "compute_dtype", lambda env, dtype, *ops: dtype)
    env = Env(dgo.engine("cpu"), 1)
    problem = described(layer.adjoint, FPROP, "NXC", constant=True, dtype="bf16", run=False)
    assert JOINED.applies(problem, env) == chosen
    if chosen:
        assert choice.ranked(problem, env)[0][0] is JOINED
    assert not JOINED.applies(described(layer.adjoint, FPROP, "NXC", constant=True, run=False), env)
    dgrad = described(layer.adjoint, DGRAD, "NXC", constant=True, dtype="bf16", run=False)
    assert FLIPPED.applies(dgrad, env) == (chosen and max(layer.strides) == 1)
    if "12" in layer.name:
        assert choice.ranked(dgrad, env)[0][0] is FLIPPED
