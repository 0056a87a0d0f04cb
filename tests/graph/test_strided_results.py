"""Strides that a graph file states for its results: the arrays that come back have them."""

import json
import pickle

import numpy as np
import pytest

import dnnl_graph_ops as dgo

from .test_json import DECONV, X, file, op, tensor

RESULT = np.maximum(X, 0)
UNKNOWN = -(2**63)


def relu(**output):
    return file(op(0, "ReLU", [tensor(0)], [tensor(1, **output)]))


def elements(array) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


@pytest.mark.parametrize("strides", [(1, 2), (5, 1), (1, 4), (2, 3), (3, 1)])
def test_results_have_the_strides_of_the_file(strides):
    net = dgo.Graph.from_json(relu(stride=list(strides))).compile()
    for call in (net, net, lambda x: net.run({"0": x})["1"], pickle.loads(pickle.dumps(net))):
        result = call(X)
        np.testing.assert_array_equal(result, RESULT)
        assert elements(result) == strides
    assert len(net.benchmark(X, repeat=2).times) == 2
    assert str(net.explain())


def test_a_given_array_keeps_its_own_strides():
    net = dgo.Graph.from_json(relu(stride=[1, 2])).compile()
    for out in (np.empty((2, 3), np.float32), np.empty((2, 8), np.float32)[:, 1:4]):
        before = out.strides
        assert net(X, out=out) is out
        assert out.strides == before
        np.testing.assert_array_equal(out, RESULT)
    assert elements(net(X)) == (1, 2)


def test_only_the_stated_one_of_two_results():
    data = file(*relu(stride=[1, 2])["graph"], op(1, "Abs", [tensor(0)], [tensor(2)]))
    net = dgo.Graph.from_json(data).compile()
    first, second = net(X)
    assert (elements(first), elements(second)) == ((1, 2), (3, 1))
    mine = np.empty((2, 3), np.float32)
    results = net.run({"0": X}, out={"2": mine})
    assert elements(results["1"]) == (1, 2)
    np.testing.assert_array_equal(results["1"], RESULT)
    np.testing.assert_array_equal(mine, np.abs(X))


@pytest.mark.parametrize("tune", ["off", "heuristic"])
def test_channels_last_behind_conv_transpose(tune):
    data = json.loads(json.dumps(file(DECONV)))
    data["graph"][0]["outputs"][0]["stride"] = [144, 1, 24, 4]
    net = dgo.Graph.from_json(data).compile(tune=tune)
    x, w = np.ones((1, 2, 3, 3), np.float32), np.ones((2, 4, 2, 2), np.float32)
    result = net(x, w)
    assert elements(result) == (144, 1, 24, 4)
    np.testing.assert_array_equal(result, np.full((1, 4, 6, 6), 2, np.float32))


def test_an_input_that_is_returned():
    for stride, expected in (([1, 2], (1, 2)), ([1, 0], (3, 1))):
        step = op(0, "ReLU", [tensor(0, stride=stride)], [tensor(1)])
        net = dgo.Graph.from_json(file(step, output_ports=[1, 0])).compile()
        result, same = net(X)
        np.testing.assert_array_equal(result, RESULT)
        np.testing.assert_array_equal(same, X)
        assert (elements(result), elements(same)) == ((3, 1), expected)


def test_strides_between_ops_are_planned_here():
    data = file(*relu(stride=[1, 0])["graph"], op(1, "Abs", [tensor(1, stride=[1, 0])], [tensor(2)]))
    np.testing.assert_array_equal(dgo.Graph.from_json(data).compile()(X), RESULT)


@pytest.mark.parametrize(
    "stated", [{"stride": [UNKNOWN, UNKNOWN]}, {"layout_type": "any", "stride": [7, 7]}, {"stride": []}]
)
def test_strides_that_are_not_stated(stated):
    result = dgo.Graph.from_json(relu(**stated)).compile()(X)
    assert elements(result) == (3, 1)
    np.testing.assert_array_equal(result, RESULT)


def test_unknown_dims_come_row_major():
    data = relu(shape=[UNKNOWN, 3], stride=[1, UNKNOWN])
    data["graph"][0]["inputs"] = [tensor(0, shape=[UNKNOWN, 3], stride=[UNKNOWN, UNKNOWN])]
    assert elements(dgo.Graph.from_json(data).compile()(X)) == (3, 1)


def test_elements_that_share_memory_are_refused():
    graph = dgo.Graph.from_json(relu(stride=[1, 1]))
    assert json.loads(graph.to_json())["graph"][0]["outputs"][0]["stride"] == [1, 1]
    with pytest.raises(dgo.InvalidArgumentError, match=r"output '1'.*\(1, 1\).*share memory"):
        graph.compile()


@pytest.mark.parametrize(
    ("stride", "error"),
    [([-3, 1], dgo.InvalidArgumentError), ([2**62, 1], dgo.ShapeError), ([2**40, 1], dgo.ShapeError)],
)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_impossible_strides(stride, error, side):
    data = relu()
    data["graph"][0][side][0]["stride"] = stride
    with pytest.raises(error, match="stride"):
        dgo.Graph.from_json(data)


def test_what_is_added_to_a_loaded_graph_is_row_major():
    graph = dgo.Graph.from_json(relu(stride=[1, 2]))
    net = graph.compile({"twice": graph.outputs["1"] * 2, "1": graph.outputs["1"]})
    twice, once = net(X)
    assert (elements(twice), elements(once)) == ((3, 1), (1, 2))
