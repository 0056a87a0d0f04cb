"""What the cost model must get right on any machine: forms that are several times slower are not chosen."""

from __future__ import annotations

import dnnl_graph_ops as dgo
from dnnl_graph_ops.bench.fit import described
from dnnl_graph_ops.bench.problem import Problem
from dnnl_graph_ops.lowering import registry
from dnnl_graph_ops.lowering.env import Env
from dnnl_graph_ops.lowering.problem import FORWARD


def ranked(layer: Problem, layout: str) -> list[str]:
    """Forward formulations with variable weights, cheapest first."""
    env = Env(dgo.engine("cpu"), 2)
    problem = described(layer, FORWARD, layout, constant=False)
    return [form.name for form, _ in registry.candidates(problem, env)]


def test_one_product_for_each_image_needs_positions() -> None:
    """One position an image would read all weights again for each."""
    layer = Problem("DCGAN's first", 64, 100, 512, (1, 1), (4, 4), (1, 1), (0, 0))
    assert ranked(layer, "NCX").index("columns of images") >= 3


def test_one_tap_on_channels_first_is_one_product() -> None:
    layer = Problem("1x1", 1, 64, 128, (248, 216), (1, 1), (1, 1), (0, 0))
    assert ranked(layer, "NCX")[0] == "columns of images"
