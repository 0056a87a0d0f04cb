"""Pooling fused with what follows, and pads that leave elements out."""

import numpy as np
import pytest
from reference import windows as truth
from reference.data import integers

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

WINDOW = {"kernel": (3, 3), "strides": (2, 1), "pads_begin": (1, 0), "pads_end": (0, 1)}


@pytest.mark.sweep
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("follows", ["add", "multiply", "maximum"])
@pytest.mark.parametrize("operand", ["full", "channels", "one"])
@pytest.mark.parametrize("kind", ["avg_pool", "max_pool"])
def test_pooling_before_a_binary_op(kind, operand, follows, data_format):
    """oneDNN 3.2, fused, reads one element of each vector of the operand for all."""
    shape, channel = ((2, 20, 6, 5), 1) if data_format == "NCX" else ((2, 6, 5, 20), 3)
    graph = dgo.Graph()
    src = graph.input("src", shape)
    average = {"exclude_pad": True} if kind == "avg_pool" else {}
    pooled = getattr(ops, kind)(src, **WINDOW, **average, data_format=data_format)
    other_shape = {"full": pooled.shape, "one": (1,) * 4}.get(operand) or tuple(
        20 if axis == channel else 1 for axis in range(4)
    )
    net = graph.compile(ops.relu(getattr(ops, follows)(pooled, graph.input("other", other_shape))))
    rng = np.random.default_rng(7)
    x, other = integers(rng, shape, "f32"), integers(rng, other_shape, "f32")
    expected = np.maximum(
        getattr(np, follows)(getattr(truth, kind)(x, **WINDOW, **average, data_format=data_format), other), 0
    )
    np.testing.assert_allclose(net(x, other), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("exclude_pad", [True, False])
@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@pytest.mark.parametrize(("stride", "begin", "end"), [(1, 0, -1), (2, 1, -1), (2, 0, -2), (3, 1, -3)])
def test_negative_pads_leave_elements_out(stride, begin, end, rounding, exclude_pad):
    window = {"kernel": (2, 1), "strides": (stride, 1), "pads_begin": (begin, 0), "pads_end": (end, 0)}
    window |= {"data_format": "NCX", "rounding_type": rounding}
    x = integers(np.random.default_rng(3), (1, 3, 9, 4), "f32")
    for kind, more in (("max_pool", {}), ("avg_pool", {"exclude_pad": exclude_pad})):
        graph = dgo.Graph()
        net = graph.compile(getattr(ops, kind)(graph.input("src", x.shape), **window, **more))
        np.testing.assert_allclose(net(x), getattr(truth, kind)(x, **window, **more), rtol=1e-6)


def test_dilated_windows_of_an_earlier_position_reach_further():
    window = {"kernel": (3, 4), "strides": 1, "pads_begin": (0, 3), "pads_end": (0, 3), "dilations": (1, 2)}
    # of zeros in memory that nobody wrote one would be the largest
    x = -1 - np.abs(integers(np.random.default_rng(5), (2, 8, 9, 3), "f32"))
    graph = dgo.Graph()
    net = graph.compile(ops.max_pool(graph.input("src", x.shape), **window, data_format="NXC"))
    window["strides"] = (1, 1)
    np.testing.assert_array_equal(net(x), truth.max_pool(x, **window, data_format="NXC"))


def test_pads_below_the_strides_are_refused():
    graph = dgo.Graph()
    src = graph.input("src", (1, 3, 9, 9))
    with pytest.raises(dgo.InvalidArgumentError, match="at least"):
        ops.max_pool(src, kernel=(2, 2), strides=(2, 2), pads_begin=(0, 0), pads_end=(-3, 0), data_format="NCX")
