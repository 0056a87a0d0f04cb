"""Last axes of one position and one tap are left out of a problem, for all algorithms."""

import numpy as np
import pytest
from reference import conv_transpose as truth

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms import table
from dnnl_graph_ops.convolution.nodes import make_problem
from dnnl_graph_ops.program.program import Buffer, Place, View
from dnnl_graph_ops.strides import dense_strides


def test_the_first_axis_stays_and_padded_ones_do():
    def rank(x, w, **attrs):
        result = ops.convolution(
            *map(dgo.Graph().input, "xw", (x, w)), data_format="NXC", weights_format="XIO", **attrs
        )
        node = result.node
        views = [
            View(Buffer(Place.INPUT, "f32", int(np.prod(s)), i), s, dense_strides(s))
            for i, s in enumerate((x, w, result.shape))
        ]
        return make_problem(node.kind, node.attrs, views[:2], views[2]).geometry.rank

    assert rank((1, 9, 1, 4), (3, 1, 4, 4)) == 1
    assert rank((1, 9, 1, 1, 4), (3, 1, 1, 4, 4)) == 1
    assert rank((1, 1, 1, 4), (1, 1, 4, 4)) == 1
    assert rank((1, 9, 2, 4), (3, 1, 4, 4)) == 2
    assert rank((1, 1, 9, 4), (1, 3, 4, 4)) == 2
    assert rank((1, 9, 1, 4), (3, 1, 4, 4), pads_begin=[0, 1], pads_end=[0, 0]) == 2


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("name", sorted({a.name for a in table.ALGORITHMS}))
def test_same_numbers(name, groups, data_format, rng):
    """A transposed convolution with an operand behind it, by each algorithm that there is for it."""
    attrs = {"strides": [2, 1], "pads_begin": [1, 0], "pads_end": [0, 0], "groups": groups}
    x = rng.integers(-2, 3, (2, 4, 7, 1)).astype(np.float32)
    w = rng.integers(-2, 3, (4, 4 // groups, 5, 1)).astype(np.float32)
    wanted = truth.forward(x, w, data_format="NCX", weights_format="IOX", **attrs).astype(np.float32)
    other = rng.integers(-2, 3, wanted.shape).astype(np.float32)
    order = (0, 2, 3, 1) if data_format == "NXC" else (0, 1, 2, 3)
    graph = dgo.Graph()
    given, added = (np.ascontiguousarray(a.transpose(order)) for a in (x, other))
    y = ops.conv_transpose(
        graph.input("x", given.shape), graph.constant(w), data_format=data_format, weights_format="IOX", **attrs
    )
    outputs = y + graph.input("other", added.shape)
    try:
        net = graph.compile(outputs, algorithms={y.node.name: name})
    except dgo.Error as error:
        assert name in str(error)
        return
    out = np.full(added.shape, np.nan, np.float32)
    net(given, added, out=out)
    np.testing.assert_array_equal(out, (wanted + other).transpose(order))
