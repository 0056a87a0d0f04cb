"""Every rewrite gives the same numbers where it fires, and declines where a condition does not hold."""

import numpy as np
import pytest
from constants import DEFAULT, SETS

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.ir.rewrites import REWRITES
from dnnl_graph_ops.passes import fold_affine

from .draw import Draw
from .harness import MOST_TRIES, PROVERS, judge, prove

EACH = (5, 12, 500)
CLAIMS = [(name, unmet) for name, rewrite in REWRITES.items() for unmet in (None, *rewrite.conditions)]


def test_every_rewrite_is_proved():
    assert set(PROVERS) == set(REWRITES)


@pytest.mark.choice
@pytest.mark.parametrize(("name", "unmet"), CLAIMS, ids=[f"{name}: {unmet or 'fires'}" for name, unmet in CLAIMS])
def test_same_numbers(name, unmet, seed, amount, pytestconfig):
    """One graph by the constants of each other CPU; no CPU, and no run of the rest, has another's graphs."""
    cpu, count, number = pytestconfig.getoption("--constants"), amount(*EACH), 0
    if cpu != DEFAULT:
        count, number = 1, MOST_TRIES * (EACH[-1] + 5 * [*SETS].index(cpu))
    elif pytestconfig.getoption("--rest"):
        count, number = count - EACH[0], MOST_TRIES * EACH[0]
    prove(name, unmet, count, seed, number)


def test_explain_tells_what_fired_and_what_declined():
    graph = dgo.Graph()
    x, w = graph.input("x", (1, 4, 8, 8)), graph.constant(np.ones((4, 4, 3, 3), np.float32))
    padded = ops.pad(x, pads_begin=[0, 0, 1, 1], pads_end=[0, 0, 1, 1], mode="edge")
    net = graph.compile(ops.convolution(padded, w, data_format="NCX", weights_format="OIX") * 2.0)
    told = net.explain(rewrites=True)
    rows = {(row.rewrite, row.at): row.declined for row in told.rewrites}
    assert rows["fold_padding", "convolution_0"] == "the Pad adds zeros"
    assert rows["fold_affine", "multiply_0"] == ""
    assert "fold_padding" in str(told) and told.to_dict()["rewrites"][0]["rewrite"] == "fold_padding"
    assert net.explain().rewrites == ()


def test_a_failure_is_told_by_the_smallest_graph(monkeypatch, capsys):
    """Of ten nodes the product that is wrong, as a script that runs."""
    wrong = lambda node, factor: (factor + 1, np.zeros_like(factor))  # noqa: E731
    monkeypatch.setitem(fold_affine.READERS, "Multiply", wrong)
    d = Draw(1)
    x = d.input((1, 2, 4, 4))
    y = ops.abs(ops.relu(x) + 1.0)
    y = ops.convolution(y, d.constant((2, 2, 1, 1)), data_format="NCX", weights_format="OIX") * 2.0
    d.outputs += [ops.relu(y) + x, ops.abs(x)]
    with pytest.raises(AssertionError) as told:
        judge(d, "here")
    where, *lines = str(told.value).splitlines()
    text = "\n".join(lines[: next(i for i, line in enumerate(lines) if line.startswith("print(")) + 1])
    assert where == "here" and "ReLU" not in text and sum(line.startswith("v") for line in lines) == 2
    exec(text, {})
    assert "out0" in capsys.readouterr().out
