"""Operators of ONNX that are built of several ops: in f16, magnitudes beyond what f16 squares, sums and scores."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo

from .one_node import node, proto_of

RANDOM = np.random.default_rng(4)
SMALL, LARGE = (RANDOM.standard_normal((2, 3, 4, 60)) * scale for scale in (1e-3, 3e2))


def standardized(x):
    deviation = np.sqrt(np.square(x - x.mean((0, 2, 3), keepdims=True)).mean((0, 2, 3), keepdims=True))
    return (x - x.mean((0, 2, 3), keepdims=True)) / (deviation + 1e-9)


CASES = {
    "MeanVarianceNormalization": (standardized, (SMALL, LARGE, LARGE + 3e3), {}),
    "ReduceSumSquare": (lambda x: np.square(x).sum((2, 3), keepdims=True), (SMALL, SMALL * 1e4), {"axes": [2, 3]}),
    "ReduceLogSum": (lambda x: np.log(x.sum((2, 3), keepdims=True)), (np.abs(LARGE) + 9e3,), {"axes": [2, 3]}),
    "ReduceLogSumExp": (
        lambda x: np.log(np.exp(x).sum((2, 3), keepdims=True)), (SMALL, SMALL * 1e4 + 300), {"axes": [2, 3]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("op_type", CASES)
def test_operators(op_type):
    function, tensors, attrs = CASES[op_type]
    for given in tensors:
        feeds = {"x": given.astype(np.float16)}
        proto = proto_of([node(op_type, "x", "y", **attrs)], feeds, {}, opset=13)
        (made,) = dgo.from_onnx(proto).compile().run(feeds).values()
        want = function(feeds["x"].astype(np.float64))
        assert made.dtype == np.float16
        # a unit in the last place
        np.testing.assert_allclose(made.astype(np.float64), want, rtol=2**-10, atol=2**-24)


def test_attention_whose_scores_are_beyond_f16():
    pytest.importorskip("onnx", "1.18")
    q = k = (np.eye(4) * 512)[None, None].astype(np.float16)
    feeds = {"q": q, "k": k, "v": np.arange(32).reshape(1, 1, 4, 8).astype(np.float16)}
    proto = proto_of([node("Attention", "q k v", "y")], feeds, {}, opset=23)
    (made,) = dgo.from_onnx(proto).compile().run(feeds).values()
    np.testing.assert_array_equal(made, feeds["v"])


def test_resize_by_a_scale_near_one():
    """At the end of the axis the scale reads a quarter of an element before the place that sizes alone give."""
    x = np.arange(48000, dtype=np.float32)[None, None]
    scale = np.float32(1.000005)
    scales = {"scales": np.array([1, 1, scale], np.float32)}
    proto = proto_of([node("Resize", "x - scales", "y", mode="linear")], {"x": x}, scales, opset=13)
    (made,) = dgo.from_onnx(proto).compile().run({"x": x}).values()
    want = np.clip((np.arange(made.shape[2]) + 0.5) / np.float64(scale) - 0.5, 0, x.shape[2] - 1)
    np.testing.assert_allclose(made[0, 0], want, rtol=0, atol=0.01)
