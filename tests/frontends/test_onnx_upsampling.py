"""Resize and Upsample in front of a Conv: folded where each element is repeated, in every mode; else as they are."""

from itertools import product

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="the reference")

import dnnl_graph_ops as dgo
from dnnl_graph_ops.ir import rewrites
from dnnl_graph_ops.passes.folding import layers

from .models import reference
from .one_node import node, proto_of

PLACES = ("half_pixel", "asymmetric", "align_corners")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@pytest.mark.choice
@pytest.mark.parametrize("places", PLACES)
def test_resize_is_folded_where_it_repeats(places, monkeypatch):
    monkeypatch.setattr(layers, "pays", lambda before, after: True)
    rng = np.random.default_rng(3)
    feeds = {"x": rng.integers(-2, 3, (1, 4, 5, 6)).astype(np.float32)}
    weights = rng.integers(-2, 3, (3, 4, 3, 3)).astype(np.float32)
    for rounding, scale in product(ROUNDINGS, (2, 3)):
        resize = node(
            "Resize", "x - scales", "u", mode="nearest", coordinate_transformation_mode=places, nearest_mode=rounding
        )
        constants = {"scales": np.array([1, 1, scale, scale], np.float32), "w": weights}
        proto = proto_of([resize, node("Conv", "u w", pads=[1, 1, 1, 1])], feeds, constants)
        with rewrites.listening() as reports:
            (result,) = dgo.from_onnx(proto).compile().run(feeds).values()
        (larger,) = reference(proto_of([resize], feeds, {"scales": constants["scales"]}), feeds)
        repeats = np.array_equal(larger, feeds["x"].repeat(scale, 2).repeat(scale, 3))
        fired = any(report.fired and report.rewrite == "fold_upsampling" for report in reports)
        assert fired == repeats, (rounding, scale)
        np.testing.assert_array_equal(result, reference(proto, feeds)[0], err_msg=f"{rounding}, {scale}")


@pytest.mark.choice
def test_upsample_and_a_skip_are_folded(monkeypatch):
    monkeypatch.setattr(layers, "pays", lambda before, after: True)
    rng = np.random.default_rng(4)
    shapes = {"x": (1, 4, 5, 6), "skip": (1, 2, 10, 12)}
    feeds = {name: rng.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()}
    constants = {
        "scales": np.array([1, 1, 2, 2], np.float32),
        "w": rng.integers(-2, 3, (3, 6, 3, 3)).astype(np.float32),
    }
    nodes = [
        node("Upsample", "x scales", "u"),
        node("Concat", "u skip", "c", axis=1),
        node("Conv", "c w", pads=[1] * 4),
    ]
    proto = proto_of(nodes, feeds, constants, opset=9)
    with rewrites.listening() as reports:
        (result,) = dgo.from_onnx(proto).compile().run(feeds).values()
    assert any(report.fired and report.rewrite == "fold_upsampled_part" for report in reports)
    np.testing.assert_array_equal(result, reference(proto, feeds)[0])
