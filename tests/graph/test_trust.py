"""Int8 graphs whose fused partitions crash, are refused or wrong: parts of them are right."""

import re

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, ops
from dnnl_graph_ops.lowering import trust

from .int8_cases import CASES, error_of


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize("limit", ["DEFAULT", "AVX2"])
def test_what_the_library_gets_wrong(tune, limit):
    done = child("-m", "graph.int8_cases", tune, ONEDNN_MAX_CPU_ISA=limit)
    off = dict(re.findall(r"^(.*): (.*)$", done.stdout, re.M))
    assert done.returncode == 0, f"exit {done.returncode} in {list(off)[-1:]}\n{done.stderr[-2000:]}"
    assert list(off) == list(CASES)
    assert {name: error for name, error in off.items() if error.startswith(("I", "U", "E")) or float(error) > 1} == {}


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize(
    "name", ["means of u8 to s8", "maxima of u8 to s8", "data scaled along the sum", "weights of u8"]
)
def test_what_the_library_refuses_runs_op_by_op(monkeypatch, name, tune):
    monkeypatch.setattr(trust, "trusted", lambda nodes, env: True)
    assert error_of(CASES[name], tune) <= 1


def refuse(*arguments, **keywords):
    raise dgo.Error("status 7")


def test_an_op_that_the_library_refuses_runs_in_numpy(monkeypatch, rng):
    monkeypatch.setattr(_core.Partition, "compile", refuse)
    graph = dgo.Graph()
    x = graph.input("x", (3, 5), "f32")
    net = graph.compile(ops.softmax(ops.exp(x) - x, axis=1), tune="off")
    data = rng.standard_normal((3, 5), np.float32)
    values = np.exp(np.exp(data) - data)
    np.testing.assert_allclose(net(data), values / values.sum(1, keepdims=True), rtol=1e-5)
    assert {step.step for step in net.explain().steps} == {"Exp (NumPy)", "Subtract (NumPy)", "SoftMax (NumPy)"}


def test_what_nothing_runs_is_named(monkeypatch):
    monkeypatch.setattr(_core.Partition, "compile", refuse)
    graph = dgo.Graph()
    y = ops.convolution(graph.input("x", (1, 5, 5, 3), "f32"), graph.input("w", (3, 3, 3, 4), "f32"))
    text = r"Convolution of f32: oneDNN 3\.\S+ on .* refuses it .*; use f32 there, or .*: status 7\)"
    with pytest.raises(dgo.UnsupportedError, match=text):
        graph.compile(y, tune="off")
