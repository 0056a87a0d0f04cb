"""Every rewrite gives the same numbers where it fires, and declines where a condition does not hold."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.lowering.rewrites import REWRITES

from . import folds, groups, patterns, placement, quantized  # noqa: F401
from .harness import PROVERS, prove

EACH = (8, 50, 500)
CLAIMS = [(name, unmet) for name, rewrite in REWRITES.items() for unmet in (None, *rewrite.conditions)]


def test_every_rewrite_is_proved():
    assert set(PROVERS) == set(REWRITES)


@pytest.mark.choice
@pytest.mark.parametrize(("name", "unmet"), CLAIMS, ids=[f"{name}: {unmet or 'fires'}" for name, unmet in CLAIMS])
def test_same_numbers(name, unmet, seed, amount):
    prove(name, unmet, amount(*EACH), seed)


def test_explain_tells_what_fired_and_what_declined():
    graph = dgo.Graph()
    x, w = graph.input("x", (1, 4, 8, 8)), graph.constant(np.ones((4, 4, 3, 3), np.float32))
    padded = ops.pad(x, pads_begin=[0, 0, 1, 1], pads_end=[0, 0, 1, 1], mode="edge")
    net = graph.compile(ops.convolution(padded, w, data_format="NCX", weights_format="OIX") * 2.0)
    told = net.explain(rewrites=True)
    rows = {(row.rewrite, row.at): row.declined for row in told.rewrites}
    assert rows["fold_padding", "convolution_0"] == "it pads with zeros"
    assert rows["fold_affine", "multiply_0"] == ""
    assert "fold_padding" in str(told) and told.to_dict()["rewrites"][0]["rewrite"] == "fold_padding"
    assert net.explain().rewrites == ()
