"""Convolutions by builtin code write their results over what post-ops read beside them, if nobody else needs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference.data import integers
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms import choice
from dnnl_graph_ops.program.program import KernelStep


@pytest.fixture
def own_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer by builtin direct sums."""
    before = choice.candidates

    def first(problem: Any, env: Any) -> Any:
        return sorted(before(problem, env), key=lambda item: item[0].name != "builtin direct")

    monkeypatch.setattr(choice, "candidates", first)


@pytest.mark.parametrize("channels", [8, 20, 32, 72])
@pytest.mark.parametrize("size", [(300,), (9, 70)])
def test_residual_blocks(
    own_direct: None, channels: int, size: tuple[int, ...], seed: int, rng: np.random.Generator
) -> None:
    graph, rank = dgo.Graph(), len(size)
    x = graph.input("x", (2, *size, channels))

    def layer(src: Any) -> Any:
        weights = integers(rng, (*(3,) * rank, channels, channels), "f32", limit=1)
        weights[rng.random(weights.shape) < 0.9] = 0
        return ops.convolution(src, graph.constant(weights), pads_begin=[1] * rank, pads_end=[1] * rank)

    first = ops.relu(layer(x))
    second = ops.relu(ops.add(first, layer(ops.abs(first))))
    last = layer(ops.add(layer(second), second))
    data = integers(rng, x.shape, "f32", limit=2)
    net = graph.compile(last)
    want = evaluate_built(graph, {x: data})[last]
    np.testing.assert_array_equal(net(data), want, err_msg=f"seed {seed}")
    parts = [part for part in net._latest().plan.parts if isinstance(part, KernelStep)]
    assert any(part.in_place and part.kernel.name.startswith("filter_") for part in parts)
