"""Convolutions in bf16 that oneDNN 3.2 gets wrong in tiles of AMX.

The channels of several taps fill whole tiles, and those of one tap do not; or x of one tap is copied first, and blocks
of positions cross from depth to depth.
"""

from __future__ import annotations

import numpy as np
import pytest
from reference.data import integers
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops.onednn import workarounds

# channels, sizes of the source, kernel and strides
CASES = [
    (16, (20, 20), (4, 4), (4, 4)),
    (48, (20, 20), (2, 2), (2, 2)),
    (112, (20,), (2,), (4,)),
    (80, (17, 10), (3, 6), (3, 2)),
    (48, (8, 8, 8), (2, 2, 2), (2, 2, 2)),
    (48, (2, 2, 17), (1, 1, 1), (1, 1, 1)),
    (64, (5, 2, 17), (1, 1, 1), (2, 1, 1)),
]
BUILDERS = (dgo.ops.convolution, dgo.ops.conv_transpose_backward_data)


@pytest.mark.parametrize("tune", ["off", "heuristic"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize(("channels", "sizes", "kernel", "strides"), CASES)
def test_exact(builder, channels, sizes, kernel, strides, constant, tune, rng) -> None:
    graph = dgo.Graph()
    shapes = (1, *sizes, channels), (16, channels, *kernel)
    x, w = (integers(rng, shape, "bf16", limit=1) for shape in shapes)
    src = graph.input("x", x.shape, "bf16")
    weights = graph.constant(w) if constant else graph.input("w", w.shape, "bf16")
    order = "OIX" if builder is dgo.ops.convolution else "IOX"
    y = builder(src, weights, strides=strides, data_format="NXC", weights_format=order)
    given = {src: x} if constant else {src: x, weights: w}
    want = evaluate_built(graph, given)[y]
    net = graph.compile([y, dgo.ops.relu(y)], tune=tune)
    plain, positive = net(*given.values())
    np.testing.assert_array_equal(plain, want)
    np.testing.assert_array_equal(positive, np.maximum(want, 0))


@pytest.mark.parametrize(("channels", "taps"), [(32, 4), (64, 2), (16, 2), (16, 3), (48, 1), (3, 16), (20, 4)])
def test_others_stay_in_bf16(channels: int, taps: int) -> None:
    assert not workarounds.splits_tiles(channels, taps)


@pytest.mark.parametrize(
    ("channels", "kernel", "strides", "depth"),
    [
        (64, (1, 1, 1), (1, 1, 1), 5),
        (48, (1, 1), (1, 1), 5),
        (48, (1, 1, 1), (1, 2, 2), 1),
        (24, (1, 1, 1), (1, 1, 1), 5),
    ],
)
def test_other_layers_of_one_tap_stay_in_bf16(channels, kernel, strides, depth) -> None:
    assert not workarounds.crosses_depths(channels, kernel, strides, depth)
