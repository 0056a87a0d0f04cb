"""Layers that are alike share their kernels: a plan is the same as if each was lowered by itself."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms import alike
from dnnl_graph_ops.ir.rewrites import listening
from dnnl_graph_ops.symbolic import kernels

PADS = {"pads_begin": 1, "pads_end": 1, "data_format": "NCX", "weights_format": "OIX"}
# by layer; templates have no selected algorithms
DIRECT = {f"layer {number}": "builtin direct" for number in range(6)}


def net_of(rng, shape, layers=4, slopes=True, fixed=False):
    """A net of equal layers with weights, biases and slopes of their own, whose biases are every other element."""
    graph, c = dgo.Graph(), shape[1]
    first = y = graph.input("x", shape)
    for number in range(layers):
        w, b, s = (graph.constant(rng.integers(-2, 3, size).astype(np.float32)) for size in ((c, c, 3, 3), (c,), (c,)))
        y = ops.convolution(y, w, b, **PADS, name=f"layer {number}")
        y = ops.prelu(y, s, data_format="NCX") if slopes else ops.relu(y)
    return graph.compile(ops.add(y, first), algorithms=DIRECT if fixed else None)


def made(monkeypatch, *names):
    """Counts calls of kernels' factories."""
    counts = dict.fromkeys(names, 0)
    for name in names:
        factory = getattr(kernels, name)

        def counted(*args, _name=name, _factory=factory, **keywords):
            counts[_name] += 1
            return _factory(*args, **keywords)

        monkeypatch.setattr(kernels, name, counted)
    return counts


def apart(monkeypatch):
    monkeypatch.setattr(alike, "append", lambda program, shared, problem, algorithm, env, build: build())


@pytest.mark.parametrize("shape", [(1, 16, 9, 11), (2, 8, 96, 160), (1, 16, None, 40)], ids=["small", "bands", "sizes"])
def test_plans_are_the_same_as_of_layers_lowered_one_by_one(shape, monkeypatch):
    sizes = [tuple(40 if n is None else n for n in shape), tuple(56 if n is None else n for n in shape)]
    x = [np.random.default_rng(1).integers(-2, 3, size).astype(np.float32) for size in sizes]
    results, texts = [], []
    for separately in (False, True):
        with monkeypatch.context() as patch:
            if separately:
                apart(patch)
            net = net_of(np.random.default_rng(0), shape)
            results.append([net(one) for one in x])
            texts.append(str(net.explain()))
    assert texts[0] == texts[1]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_they_share_kernels(monkeypatch):
    counts = made(monkeypatch, "filter_fprop", "filter_pack")
    net_of(np.random.default_rng(0), (1, 16, 9, 11), layers=6, slopes=False, fixed=True)
    alone = dict(counts)
    counts.update(dict.fromkeys(counts, 0))
    apart(monkeypatch)
    net_of(np.random.default_rng(0), (1, 16, 9, 11), layers=6, slopes=False, fixed=True)
    # the last layer has another post-op, and the first reads the input
    assert all(alone[name] <= 3 < 6 <= counts[name] for name in counts), (alone, counts)


def test_a_copy_that_the_program_has_is_not_appended_again():
    graph, rng = dgo.Graph(), np.random.default_rng(0)
    x = graph.input("x", (1, 16, 9, 11))
    bias = graph.constant(np.arange(16, dtype=np.float32))
    w = [graph.constant(rng.integers(-2, 3, (16, 16, 3, 3)).astype(np.float32)) for _ in DIRECT]
    results = [ops.convolution(x, one, bias, **PADS, name=name) for name, one in zip(DIRECT, w, strict=True)]
    steps = str(graph.compile(results, algorithms=DIRECT).explain())
    assert steps.count("to channels last") <= 1, steps


def test_sigmoids_tell_of_themselves_in_each_layer():
    graph, rng = dgo.Graph(), np.random.default_rng(0)
    y = graph.input("x", (1, 16, 9, 11))
    for number in range(6):
        y = ops.convolution(y, graph.constant(rng.random((16, 16, 3, 3), np.float32)), **PADS, name=f"layer {number}")
        y = ops.multiply(y, ops.sigmoid(y))
    with listening() as reports:
        graph.compile(y, algorithms=DIRECT)
    assert sum(report.rewrite == "merge_swish" and report.fired for report in reports) == 6
