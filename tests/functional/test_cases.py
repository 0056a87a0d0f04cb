"""Chosen cases against the NumPy truth: each one was wrong, refused or unclear somewhere else."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import integers
from reference.rounding import DTYPES, ulp_error

import dnnl_graph_ops as dgo

pytestmark = pytest.mark.isa

Setting = tuple[Sequence[int], Sequence[int], dict[str, Any]]

# name: src (NCX), weights (IOX), attributes
CASES: dict[str, Setting] = {
    "kernel below stride": ((2, 3, 4, 3), (3, 2, 2, 1), {"strides": (3, 4)}),
    "output padding beyond stride": ((1, 4, 3), (4, 5, 2), {"strides": 2, "output_padding": 5}),
    "output padding beyond pads": ((1, 4, 3), (4, 5, 3), {"strides": 2, "pads_end": 1, "output_padding": 4}),
    "dilated below stride": ((1, 4, 5, 5), (4, 2, 2, 2), {"strides": 3, "dilations": 2}),
    "dilated beyond stride": ((1, 4, 5, 5), (4, 2, 3, 3), {"strides": 2, "dilations": 3, "pads_begin": 2}),
    "same, source not a multiple": ((1, 2, 5, 7), (2, 3, 3, 4), {"strides": 2, "auto_pad": "same_upper"}),
    "same lower": ((1, 2, 5, 7), (2, 3, 4, 4), {"strides": (3, 1), "auto_pad": "SAME_LOWER"}),
    "same, kernel below stride": ((1, 2, 3), (2, 3, 2), {"strides": 5, "auto_pad": "Same_Upper"}),
    "pads cut everything but one": ((1, 2, 2, 2), (2, 2, 3, 3), {"pads_begin": 2, "pads_end": 1}),
    "no image": ((0, 4, 5), (4, 2, 3), {"strides": 2}),
    "depthwise": ((2, 16, 6, 5), (16, 1, 4, 4), {"strides": 2, "pads_begin": 1, "pads_end": 1, "groups": 16}),
    "depthwise, two per channel": ((1, 8, 6), (8, 2, 5), {"strides": 3, "groups": 8, "dilations": 2}),
    "groups in three axes": ((1, 6, 3, 2, 3), (6, 2, 2, 3, 1), {"strides": (2, 1, 3), "groups": 3}),
    "depthwise, unlike in three axes": (
        (3, 8, 3, 4, 3),
        (8, 2, 2, 3, 2),
        {"groups": 8, "auto_pad": "Same_Upper"},
    ),
    "one position, large kernel": ((2, 20, 1, 1), (20, 12, 4, 4), {}),
    "one output channel": ((1, 56, 6, 6), (56, 1, 9, 9), {"strides": 3, "pads_begin": 4, "pads_end": 2}),
    "long kernel in one axis": ((1, 18, 9), (18, 1, 64), {"strides": 16}),
    # a kernel so large that the library works through it in parts
    "wide, 4x4": ((1, 512, 4, 4), (512, 16, 4, 4), {"strides": 2, "pads_begin": 1, "pads_end": 1}),
    "wide, 8x8": ((1, 256, 3, 3), (256, 16, 8, 8), {"strides": 2, "pads_begin": 3, "pads_end": 3}),
    "large kernel": ((1, 64, 4, 4), (64, 16, 12, 12), {"strides": 8, "pads_begin": 2, "pads_end": 2}),
    "wide, three axes": ((1, 128, 2, 3, 2), (128, 8, 4, 4, 4), {"strides": 2}),
}
LAYOUTS = [("NXC", "XOI"), ("NCX", "IOX")]


def prepared(name: str, data_format: str, weights_format: str, dtype: str):
    """src, weights, bias and diff_dst in `dtype`, keyword arguments, exact results."""
    source, shape, attributes = CASES[name]
    rng = np.random.default_rng(len(name))
    src, weights = integers(rng, source, dtype, 2), integers(rng, shape, dtype, 2)
    s = ct.setting(shape[2:], **attributes)
    output = (source[0], shape[1] * s.groups, *ct.output_spatial(source[2:], shape[2:], s))
    bias, diff = integers(rng, output[1:2], dtype), integers(rng, output, dtype, 2)
    keywords = {"data_format": data_format, "weights_format": weights_format, **attributes}
    src, diff = (np.ascontiguousarray(ct.from_channels_first(a, data_format)) for a in (src, diff))
    return src, np.ascontiguousarray(ct.from_iox(weights, weights_format)), bias, diff, keywords


def agrees(actual: np.ndarray, exact: np.ndarray, dtype: str) -> None:
    assert (actual.dtype, actual.shape) == (DTYPES[dtype], exact.shape)
    error = ulp_error(actual, exact, dtype)
    assert error <= (dtype != "f32")


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(("data_format", "weights_format"), LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_three_directions(name, data_format, weights_format, dtype):
    src, weights, bias, diff, keywords = prepared(name, data_format, weights_format, dtype)
    kernel, spatial = ct.to_iox(weights, weights_format).shape[2:], CASES[name][0][2:]
    agrees(dgo.conv_transpose(src, weights, bias, **keywords), ct.forward(src, weights, bias, **keywords), dtype)
    agrees(
        dgo.conv_transpose_backward_data(diff, weights, src_shape=src.shape, **keywords),
        ct.backward_data(diff, weights, src_spatial=spatial, **keywords),
        dtype,
    )
    agrees(
        dgo.conv_transpose_backward_weights(src, diff, weights.shape, **keywords),
        ct.backward_weights(src, diff, kernel, **keywords),
        dtype,
    )
    agrees(
        dgo.conv_transpose_backward_bias(diff, data_format=data_format),
        ct.backward_bias(diff, data_format=data_format),
        dtype,
    )


@pytest.mark.sweep
@pytest.mark.parametrize("tune", ["off", "heuristic"])
@pytest.mark.parametrize("constant", [False, True], ids=["variable", "constant"])
@pytest.mark.parametrize("name", CASES)
def test_fused_block(name, constant, tune):
    """ConvTranspose, bias, addition of a tensor, ReLU: rows that no tap reaches get them too."""
    src, weights, bias, other, keywords = prepared(name, "NXC", "XOI", "f32")
    graph = dgo.Graph()
    x, y = graph.input("x", src.shape), graph.input("y", other.shape)
    w = graph.constant(weights) if constant else graph.input("w", weights.shape)
    value = dgo.ops.bias_add(dgo.ops.conv_transpose(x, w, **keywords), graph.constant(bias))
    net = graph.compile(dgo.ops.relu(value + y), tune=tune)
    fed = {"x": src, "y": other} | ({} if constant else {"w": weights})
    exact = np.maximum(ct.forward(src, weights, bias, **keywords) + other, 0)
    agrees(net(**fed), exact, "f32")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_additions_behind_one_position(count):
    """Per-channel operands keep their channels where every spatial size is 1."""
    src, weights = np.ones((2, 4, 1), np.float32), np.ones((4, 3, 1), np.float32)
    graph = dgo.Graph()
    value = dgo.ops.conv_transpose(
        graph.input("src", src.shape), graph.constant(weights), data_format="NCX", weights_format="IOX"
    )
    exact = np.full((2, 3, 1), 4.0)
    for power in range(count):
        operand = np.arange(1, 4, dtype=np.float32).reshape(3, 1) * 2**power
        value, exact = value + graph.constant(operand), exact + operand
    agrees(graph.compile(value)(src), exact, "f32")
