"""Partitions with odd zero points are the library's where no sum of theirs lies halfway between two integers."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.onednn import exact_int8
from dnnl_graph_ops.onednn.exact_int8 import turns_ties

MEASURED = 0.0317042, [0.0041207, 0.0038116, 0.0051941], 0.0271003, 0.0193301


def layer(src, weights, dst, skip=None, zero=7, tail=None):
    """A product (5, 4) x (4, 3) between integers, and its graph."""
    graph = dgo.Graph()
    by = {"qtype": "per_channel", "axis": 1} if len(weights) > 1 else {}
    x = ops.dequantize(graph.input("x", (5, 4), "u8"), scales=[src], zps=[3])
    w = ops.dequantize(
        graph.constant(np.arange(12, dtype=np.int8).reshape(4, 3)), scales=weights, zps=[0] * len(weights), **by
    )
    y = ops.matmul(x, w)
    if skip is not None:
        y = y + ops.dequantize(graph.input("skip", (5, 3), "s8"), scales=[skip], zps=[0])
    if tail is not None:
        y = tail(y)
    return graph, ops.quantize(y, scales=[dst], zps=[zero], dtype="u8")


@pytest.mark.parametrize(
    ("scales", "more", "ties"),
    [
        (MEASURED, {}, False),
        (MEASURED, {"tail": ops.relu}, False),
        # ends of its own, which may be any number of steps
        (MEASURED, {"tail": ops.tanh}, True),
        ((1.0, [1.0], 2.0), {}, True),
        ((1.0, [1.0], 2.0), {"zero": 8}, False),
        ((2.0**-9, [2.0**-8], 2.0), {}, True),
        # decimals: 1 / 2, 1 / 6 and 1 / 300 of a step
        ((0.1, [0.02], 0.004), {}, True),
        ((0.05, [0.1], 0.03), {}, True),
        ((0.01, [0.1], 0.3), {}, True),
        # constants are multiples of a half
        ((*MEASURED[:2], 0.5), {}, True),
        ((*MEASURED[:3], MEASURED[2] / 2), {}, True),
    ],
)  # fmt: skip
def test_where_ties_may_be(scales, more, ties):
    graph, _ = layer(*scales, **more)
    assert turns_ties(graph.nodes) is ties


def test_scales_of_data_have_none(seed):
    rng = np.random.default_rng(seed)
    print(f"--seed={seed}")
    drawn = [
        layer(*values[:1], list(values[1:4]), *values[4:]) for values in np.exp(rng.uniform(-7, 0, (200, 6))).tolist()
    ]
    assert sum(turns_ties(graph.nodes) for graph, _ in drawn) <= 2


@pytest.mark.parametrize(("scales", "known"), [(MEASURED, True), ((1.0, [1.0], 2.0), False)])
def test_odd_zero_points_of_measured_scales_are_trusted(monkeypatch, scales, known):
    graph, _ = layer(*scales)
    row = exact_int8.features(graph.nodes)
    monkeypatch.setattr(exact_int8, "table", lambda *library: exact_int8.Table({}, [tuple({value} for value in row)]))
    assert exact_int8.trusted(graph.nodes, Env(dgo.engine("cpu"), 1)) is known
    # the literal graph has the library's rounding
    assert exact_int8.trusted(graph.nodes, Env(dgo.engine("cpu"), 1, "off"))


def test_scales_along_several_axes():
    """Of a source's rows and of columns of weights: such partitions ended in a ValueError."""
    graph = dgo.Graph()
    rows = {"qtype": "per_channel", "axis": 0, "scales": [0.5, 1.0], "zps": [0, 0]}
    columns = {"qtype": "per_channel", "axis": 1, "scales": [0.5, 1.0, 2.0], "zps": [0, 0, 0]}
    x, w = graph.input("x", (2, 4), "u8"), graph.constant(np.ones((4, 3), np.int8))
    y = ops.matmul(ops.dequantize(x, **rows), ops.dequantize(w, **columns))
    net = graph.compile(ops.quantize(y, scales=[0.25], zps=[1], dtype="u8"))
    found = net(np.full((2, 4), 3, np.uint8))
    np.testing.assert_array_equal(found, [[13, 25, 49], [25, 49, 97]])
