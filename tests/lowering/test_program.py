"""The small language of steps."""

from __future__ import annotations

import numpy as np

import dnnl_graph_ops as dgo


def test_a_training_step_transposes_diff_dst_once() -> None:
    """Both backward ops of channels-first data read the same channels-last copy."""
    graph = dgo.Graph()
    src, weights = graph.input("src", (2, 64, 9, 9), "f32"), graph.input("weights", (64, 64, 4, 4), "f32")
    diff = graph.input("diff", (2, 64, 18, 18), "f32")
    attrs = {"strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "data_format": "NCX", "weights_format": "IOX"}
    one = dgo.ops.conv_transpose_backward_data(diff, weights, **attrs)
    two = dgo.ops.conv_transpose_backward_weights(src, diff, weights_shape=(64, 64, 4, 4), **attrs)
    net = graph.compile(outputs=[one, two])
    arrays = [np.ones(v.shape, np.float32) for v in (src, weights, diff)]
    net(*arrays)
    text = str(net.explain())
    assert text.count("diff_dst to channels last") == 1, text
