"""The graph after each pass: told, printed, and as the pipeline lists them."""

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile import plan, specialise
from dnnl_graph_ops.passes.pipeline import PASSES

STAGES = [stage.name for stage in (*PASSES, *specialise.STAGES, *plan.STAGES)]


def scaled():
    g = dgo.Graph()
    w = g.constant(np.ones((3, 3, 4, 4), np.float32))
    y = dgo.ops.convolution(g.input("x", (1, 8, 8, 4)), w, name="conv") * 2.0
    return g.compile(y, algorithms={"conv": "builtin direct"})


def test_each_pass_is_told_in_its_order():
    said = scaled().explain(passes=True)
    names = [name for name, _ in said.passes]
    assert names == ["as given", *(f"after {name}" for name in STAGES)]
    before, after = (dict(said.passes)[name] for name in ("as given", "after fold_affine"))
    assert "Multiply" in before and "Multiply" not in after
    assert "graph after fold_affine:" in str(said)
    told = dict(said.passes)
    assert told["after fuse_groups"] == "convolution: Convolution conv"
    packing = "transform weights"
    assert packing in told["after lower"] and packing not in told["after pack_weights"]
    assert not scaled().explain().passes


def test_telling_changes_nothing():
    net = scaled()
    x = np.ones((1, 8, 8, 4), np.float32)
    first, told = net(x), str(net.explain())
    net.explain(passes=True)
    assert str(net.explain()) == told
    np.testing.assert_array_equal(net(x), first)


def test_the_variable_prints_them(monkeypatch, capsys):
    monkeypatch.setenv("DNNL_GRAPH_OPS_DUMP", "passes")
    scaled()
    printed = capsys.readouterr().err
    assert all(f"after {name}:" in printed for name in STAGES)
    monkeypatch.delenv("DNNL_GRAPH_OPS_DUMP")
    scaled()
    assert capsys.readouterr().err == ""
