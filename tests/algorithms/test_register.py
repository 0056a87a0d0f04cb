"""An algorithm from outside: one file, and nothing else touched, is enough for it to be chosen, explained and saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.data import integers

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms import table
from dnnl_graph_ops.algorithms.algorithm import NOTHING, Algorithm, always, never
from dnnl_graph_ops.convolution.problem import FPROP, ConvProblem
from dnnl_graph_ops.cost.model import Counts
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program.program import Program

Array = np.ndarray[Any, Any]


def _applies(problem: ConvProblem, env: Env) -> bool:
    """A layer of one tap, on planes."""
    g = problem.geometry
    return problem.dtype == "f32" and set(g.kernel) == {1} == set(g.strides) and g.groups == 1 and g.x == g.y


def _sums(diff_dst: Array, weights: Array, result: Array) -> None:
    result[...] = np.einsum("no...,io->ni...", diff_dst, weights.reshape(weights.shape[1:3]))


def _build(program: Program, problem: ConvProblem, env: Env) -> None:
    program.host(_sums, [problem.x, problem.w], [problem.y], "einsum (NumPy)")


EINSUM = Algorithm(
    "einsum", FPROP, "einsum",
    applies=_applies,
    counts=lambda problem, env: Counts(problem.macs, 0, 0, 0, 0, calls=0),
    build=_build,
    spreads=NOTHING,
    converts=always,
    adds_bias=never,
    remark="for tests",
    # nothing is cheaper
    prices=(1e-18,),
)  # fmt: skip


@pytest.fixture
def registered() -> Iterator[None]:
    table.register(EINSUM)
    yield
    table.unregister(EINSUM)


def net_of(w: Array, bias: Array, **options: Any) -> dgo.Net:
    """A layer of one tap with a bias and a ReLU behind it."""
    graph = dgo.Graph()
    x = graph.input("x", (2, 6, 6, w.shape[1]))
    return graph.compile(ops.relu(ops.convolution(x, w, bias, data_format="NXC", weights_format="OIX")), **options)


@pytest.mark.parametrize("algorithm", ["auto", "direct"])
def test_it_is_right(registered: None, seed: int, algorithm: str) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    w, bias, x = integers(rng, (8, 16, 1, 1)), integers(rng, (8,)), integers(rng, (2, 6, 6, 16))
    net = net_of(w, bias, algorithm=algorithm)
    (part,) = net.explain().partitions
    assert part.formulation == "einsum"
    result = np.full((2, 6, 6, 8), np.nan, np.float32)
    net(x, out=result)
    np.testing.assert_array_equal(result, np.maximum(np.einsum("nhwi,oi->nhwo", x, w[..., 0, 0]) + bias, 0))


def test_it_is_chosen_explained_and_saved(registered: None, seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    w, bias, x = integers(rng, (8, 16, 1, 1)), integers(rng, (8,)), integers(rng, (2, 6, 6, 16))
    net = net_of(w, bias)
    want = net(x)
    net.save(tmp_path / "a.net")
    for one in (net, dgo.load(tmp_path / "a.net", verify=True)):
        (part,) = one.explain().partitions
        assert part.formulation == "einsum" and part.candidates[0][0] == "einsum" and part.remark == "for tests"
        assert part.steps[0].step == "einsum (NumPy)"
        # the constants may be another CPU's, which is told
        whose = f" from {part.estimated_from}" if part.estimated_from else ""
        assert f"    for tests; estimated{whose}: einsum (" in str(one.explain())
        np.testing.assert_array_equal(one(x), want)
    table.unregister(EINSUM)
    without = dgo.load(tmp_path / "a.net", verify=True)
    assert "einsum" not in dict(without.explain().partitions[0].candidates)
    np.testing.assert_array_equal(without(x), want)


def test_it_is_listed_and_selected(registered: None, seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    w, bias = integers(rng, (8, 16, 1, 1)), integers(rng, (8,))
    (op,) = net_of(w, bias).explain().partitions
    info = net_of(w, bias).algorithms(op.ops[0])[0]
    assert (info.name, info.error, info.deterministic) == ("einsum", frozenset(), True)
    net = net_of(w, bias, algorithms={op.ops[0]: "einsum"})
    net.save(tmp_path / "a.net")
    assert dgo.load(tmp_path / "a.net").explain().partitions[0].formulation == "einsum"
    table.unregister(EINSUM)
    with pytest.raises(dgo.errors.InvalidArgumentError, match="no algorithm of Convolution is named 'einsum'"):
        dgo.load(tmp_path / "a.net")


def test_nets_of_open_sizes_rank_it_from_then_on(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    w, x = integers(rng, (8, 16, 1, 1)), integers(rng, (2, 6, 6, 16))
    before = table.ALGORITHMS
    chosen = []
    for algorithms in (before, (*before, EINSUM), before):
        monkeypatch.setattr(table, "ALGORITHMS", algorithms)
        graph = dgo.Graph()
        given = graph.input("x", (None, None, None, 16))
        net = graph.compile(ops.convolution(given, w, data_format="NXC", weights_format="OIX"))
        net(x)
        chosen.append(net.explain().partitions[0].formulation)
    assert chosen[1] == "einsum" and chosen[0] == chosen[2] != "einsum"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "builtin direct"}, "'builtin direct' of fprop is in the table already"),
        ({"name": "naive"}, "'naive' of fprop is in the table already"),
        ({"prices": None}, "'einsum' needs prices: nothing was fitted for 'einsum'"),
    ],
)
def test_it_is_refused(changes: dict[str, Any], said: str) -> None:
    before = table.ALGORITHMS
    with pytest.raises(dgo.errors.InvalidArgumentError, match=said):
        table.register(replace(EINSUM, **changes))
    assert table.ALGORITHMS is before


def test_prices_are_of_one_algorithm_alone(registered: None) -> None:
    with pytest.raises(dgo.errors.InvalidArgumentError, match="'einsum of another' needs prices"):
        table.register(replace(EINSUM, name="einsum of another", prices=None))
