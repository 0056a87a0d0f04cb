"""First and last taps that meet nothing but padding are left out of a problem, for all algorithms."""

import numpy as np
import pytest
from reference import conv_transpose, convolution

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms import table
from dnnl_graph_ops.convolution.problem import ConvProblem, Sizes, without_idle_taps
from dnnl_graph_ops.program.program import Buffer, Place, View
from dnnl_graph_ops.strides import dense_strides


def cut(direction, x, y, kernel, stride, begin, end, dilation):
    """Kernel, pads and the offset of weights behind the cut, along one axis."""
    sizes = Sizes(1, 1, 1, 1, (y,), (kernel,), (x,), (stride,), (begin,), (end,), (dilation,), (0,))
    views = (
        View(Buffer(Place.INPUT, "f32", shape[-1]), shape, dense_strides(shape))
        for shape in ((1, 1, y), (1, 1, 1, kernel), (1, 1, x))
    )
    problem = without_idle_taps(ConvProblem(direction, sizes, *views))
    g = problem.geometry
    assert problem.w.shape[3:] == g.kernel
    return g.kernel[0], g.pads_begin[0], g.pads_end[0], problem.w.offset


def test_what_is_cut():
    for direction in ("dgrad", "fprop"):
        assert cut(direction, 1, 1, 3, 1, 1, 1, 1) == (1, 0, 0, 1)
        assert cut(direction, 2, 2, 5, 1, 2, 2, 1) == (3, 1, 1, 1)
        assert cut(direction, 2, 1, 3, 2, 1, 0, 1) == (2, 0, 0, 1)
        assert cut(direction, 4, 4, 3, 1, 6, 6, 6) == (1, 0, 0, 1)
        assert cut(direction, 2, 2, 3, 1, 1, 1, 1) == (3, 1, 1, 0)
        # the last one is idle as well, but no pad may get below 0
        assert cut(direction, 2, 1, 3, 3, 2, 1, 2) == (2, 0, 1, 1)
        # nothing but padding: a tap stays
        assert cut(direction, 1, 1, 1, 2, 3, 0, 1)[0] == 1
    assert cut("wgrad", 1, 1, 3, 1, 1, 1, 1) == (3, 1, 1, 0)


@pytest.mark.sweep
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 5)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", sorted({a.name for a in table.ALGORITHMS}))
def test_same_numbers(name, transposed, size, constant, groups, rng):
    attrs = {"pads_begin": [2, 1], "pads_end": [2, 1], "groups": groups, "data_format": "NCX", "weights_format": "OIX"}
    by, op = (conv_transpose, ops.conv_transpose) if transposed else (convolution, ops.convolution)
    x, w = (rng.integers(-2, 3, s).astype(np.float32) for s in ((2, 8, *size), (8, 8 // groups, 5, 3)))
    w = w.reshape(8 // groups, 8, 5, 3) if transposed else w
    wanted = by.forward(x, w, **attrs)
    graph = dgo.Graph()
    source = graph.input("x", x.shape)
    y = op(source, graph.constant(w) if constant else graph.input("w", w.shape), **attrs)
    try:
        net = graph.compile(y, algorithms={y.node.name: name})
    except dgo.Error as error:
        assert name in str(error)
        return
    out = np.full(wanted.shape, np.nan, np.float32)
    net(x, *([] if constant else [w]), out=out)
    np.testing.assert_array_equal(out, wanted)


def test_layers_of_one_constant(rng):
    """Each size of image has its own taps; NaN in those that are cut reaches no result."""
    w = rng.integers(-2, 3, (32, 16, 3, 3)).astype(np.float32)
    w[:, :, 0, 0] = np.nan
    attrs = {"pads_begin": [1, 1], "pads_end": [1, 1], "data_format": "NCX", "weights_format": "OIX"}
    graph = dgo.Graph()
    weights = graph.constant(w)
    xs = [rng.integers(-2, 3, (1, 16, *size)).astype(np.float32) for size in ((1, 1), (1, 4), (4, 4))]
    outputs = [ops.convolution(graph.input(f"x{i}", x.shape), weights, **attrs) for i, x in enumerate(xs)]
    results = graph.compile(outputs, algorithm="direct")(*xs)
    finite = np.nan_to_num(w)
    for x, y in zip(xs[:2], results[:2], strict=True):
        np.testing.assert_array_equal(y, convolution.forward(x, finite, **attrs))
    assert np.isnan(results[2]).any()
