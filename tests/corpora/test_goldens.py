"""Literal results: ConvTranspose and ReLU with and without bias, and two groups."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo

from .cases import named, needed, read_json

CASES = read_json("relu_group_goldens.json")
ATTRIBUTES = (
    "data_format",
    "weights_format",
    "strides",
    "dilations",
    "pads_begin",
    "pads_end",
    "groups",
)

pytestmark = [needed, pytest.mark.corpus]


@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("case", named(CASES, "source"))
def test_literal_result(case, with_bias):
    key = "dst_with_bias" if with_bias else "dst_no_bias"
    if key not in case:
        pytest.skip("the case has no bias")
    src, weights, expected = (
        np.array(case[name], np.float32).reshape(case[shape])
        for name, shape in (("src", "src_shape"), ("wei", "wei_shape"), (key, "dst_shape"))
    )
    attributes = {name: case[name] for name in ATTRIBUTES}
    graph = dgo.Graph()
    inputs = [graph.input("src", src.shape), graph.input("weights", weights.shape)]
    arrays = [src, weights]
    if with_bias:
        arrays.append(np.array(case["bias"], np.float32))
        inputs.append(graph.input("bias", arrays[-1].shape))
    value = dgo.ops.conv_transpose(*inputs, **attributes)
    if "ReLU" in case["ops"]:
        value = dgo.ops.relu(value)
    net = graph.compile(value, tune="off")
    np.testing.assert_array_equal(net(*arrays), expected)
    assert len(net.partitions) == case["expected_partitions"]
    if "ReLU" not in case["ops"]:
        np.testing.assert_array_equal(dgo.conv_transpose(*arrays, **attributes), expected)


def test_all_goldens_are_there():
    assert len(CASES) == 2
