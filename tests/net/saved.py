"""Nets to save, and comparisons of a net with what a file gives back."""

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.graph.constants import owner_of
from dnnl_graph_ops.graph.files import Mapped


def random_arrays(rng, values, **sizes):
    shapes = [[sizes.get("size", 2) if n is None else n for n in value.shape] for value in values]
    return [
        rng.integers(-3, 4, shape).astype(dgo.dtypes.numpy_dtype(value.dtype))
        for shape, value in zip(shapes, values, strict=True)
    ]


def results(net, given):
    found = net(*given)
    return found if isinstance(found, tuple) else (found,)


def check_same(net, loaded, given):
    for one, other in zip(results(net, given), results(loaded, given), strict=True):
        assert (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
        assert one.tobytes() == other.tobytes()


def through(net, path):
    net.save(path)
    return dgo.load(path, verify=True)


def called(net, size=20):
    """The net with a plan."""
    results(net, random_arrays(np.random.default_rng(0), net.inputs, size=size))
    return net


def deep(size=None):
    """Some layers of an unknown size, whose constants are larger than what lies around them."""
    rng = np.random.default_rng(0)
    graph = dgo.Graph(name="deep")
    value = graph.input("x", (1, 64, size))
    for number in range(3):
        weights = graph.constant(rng.standard_normal((64, 64, 7), dtype=np.float32), f"w{number}")
        value = ops.relu(
            ops.convolution(value, weights, data_format="NCX", weights_format="OIX", pads_begin=3, pads_end=3)
        )
    return called(graph.compile(value), 50)


def mapped(net):
    """The packed arrays of all plans, and whether each lies in a file."""
    return [
        isinstance(owner_of(array)[0], Mapped)
        for array in {id(array): array for array in net._constants_read()}.values()
    ]


def scaled(rng):
    """A layer whose constant weights take over what comes behind them."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 48, None))
    weights = graph.constant(rng.integers(-2, 3, (48, 32, 4)).astype(np.float32))
    y = ops.conv_transpose(x, weights, data_format="NCX", weights_format="IOX", strides=2)
    y = y * rng.integers(1, 4, (1, 32, 1)).astype(np.float32) + rng.integers(-2, 3, (1, 32, 1)).astype(np.float32)
    return graph.compile(ops.relu(y))
