"""The library's partitions of a quantized graph are those of its pieces, of which alike ones are matched once."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.backends import partitions
from dnnl_graph_ops.ir.env import Env


def drawn(seed, number, layers):
    """A graph of layers on integers (1, 8, 6, 6), which read results of any layer before; and what it returns."""
    rng = np.random.default_rng([seed, number])
    graph = dgo.Graph()
    integers = [graph.input("x", (1, 8, 6, 6), "u8")]

    def step():
        return float(np.exp(rng.uniform(-6, 0)))

    def point():
        return int(rng.choice([0, 0, 3, 128]))

    def floats(value):
        return ops.dequantize(value, scales=[step()], zps=[point()])

    def weights():
        w = graph.constant(rng.integers(-8, 8, (8, 8, 3, 3)).astype(np.int8))
        if rng.random() < 0.5:
            return ops.dequantize(w, scales=[step()], zps=[0])
        return ops.dequantize(w, scales=[step() for _ in range(8)], zps=[0] * 8, qtype="per_channel", axis=0)

    def convolved(x):
        return ops.convolution(x, weights(), padding=1, data_format="NCX", weights_format="OIX")

    for _ in range(layers):
        x = floats(integers[rng.integers(max(len(integers) - 3, 0), len(integers))])
        y = rng.choice([convolved, convolved, ops.relu, lambda x: ops.max_pool(x, kernel=3, strides=1, padding=1)])(x)
        if rng.random() < 0.4:
            y = y + floats(integers[rng.integers(len(integers))])
        for after in (ops.relu, ops.hard_swish, ops.sigmoid):
            if rng.random() < 0.3:
                y = after(y)
        if rng.random() < 0.1:
            y = convolved(y) * y
        integers.append(ops.quantize(y, scales=[step()], zps=[point()], dtype="u8"))
        if rng.random() < 0.1:
            graph_output = ops.softmax(y, axis=1) if rng.random() < 0.3 else y
            integers.append(ops.quantize(graph_output, scales=[step()], zps=[0], dtype="u8"))
    return graph, [value for value in integers[1:] if rng.random() < 0.2] + integers[-1:]


def check(seed, number, layers=8):
    graph, outputs = drawn(seed, number, layers)
    env, nodes = Env(dgo.engine("cpu"), 1), graph.nodes
    structure = partitions._structure(nodes, outputs, env, [True] * len(nodes))
    whole = partitions._partitions(env.engine, env.fpmath_mode, "fusion", structure)
    found = partitions._partitioned(nodes, outputs, env, "fusion", [True] * len(nodes))
    assert sorted(found) == sorted(whole), f"check({seed}, {number}, {layers})"
    return len(partitions._pieces(structure))


@pytest.mark.parametrize("start", range(0, 20, 5))
def test_partitions_are_those_of_the_whole_graph(seed, start):
    pieces = [check(seed, number) for number in range(start, start + 5)]
    assert max(pieces) > 4


def test_alike_pieces_are_shown_once(seed, monkeypatch):
    graph, outputs = drawn(seed, 0, 24)
    shown = []
    asked = partitions._partitions
    monkeypatch.setattr(partitions, "_partitions", lambda *given: shown.append(given[-1]) or asked(*given))
    partitions._partitioned(graph.nodes, outputs, Env(dgo.engine("cpu"), 1), "fusion", [True] * len(graph.nodes))
    (structure,) = shown
    assert len(structure.ops) < len(graph.nodes)
