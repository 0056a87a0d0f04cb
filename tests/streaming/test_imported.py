"""Streams of ONNX models: recurrences carry their state, and nodes that wait for sizes run where they can."""

import numpy as np
import pytest
from streaming.drawn import cuts_of, together

import dnnl_graph_ops as dgo

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
FLOAT = onnx.TensorProto.FLOAT
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def net_of(nodes, arrays, shape):
    """The net of a model with the input x and the output o."""
    helper = onnx.helper
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    inputs = [helper.make_tensor_value_info("x", FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("o", FLOAT, None)]
    graph = helper.make_graph(
        [helper.make_node(*node[:3], **node[3]) for node in nodes], "g", inputs, outputs, constants
    )
    return dgo.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])).compile()


def recurrent(kind, begin=(), size=4, **attrs):
    """A recurrence over the length of (batch, 3, length); `begin`: names of initial states."""
    rng = np.random.default_rng(3)
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    weights = {
        "w": rng.standard_normal((directions, GATES[kind] * size, 3)),
        "r": rng.standard_normal((directions, GATES[kind] * size, size)) / 3,
        "b": rng.standard_normal((directions, 2 * GATES[kind] * size)),
        "fixed": np.full((directions, 2, size), 0.5),
    }
    arrays = {name: array.astype(np.float32) for name, array in weights.items()} | {"one": np.array([1])}
    # a state of zeros by the batch's size, as PyTorch exports it
    arrays |= {"number": np.array(1), "zero": np.array([0]), "ends": np.array([directions, size])}
    made = [
        ("Shape", ["x"], ["sizes"], {}),
        ("Gather", ["sizes", "zero"], ["batch"], {}),
        ("Concat", ["head", "batch", "tail"], ["dims"], {"axis": 0}),
        ("ConstantOfShape", ["dims"], ["zeros"], {}),
    ]
    arrays |= {"head": np.array([directions]), "tail": np.array([size])}
    attrs = {"hidden_size": size, **attrs}
    nodes = [
        *(made if "zeros" in begin else ()),
        ("Transpose", ["x"], ["steps"], {"perm": [2, 0, 1]}),
        (kind, ["steps", "w", "r", "b", "", *begin], ["y"], attrs),
        ("Squeeze", ["y", "one"], ["z"], {}),
        ("Transpose", ["z"], ["o"], {"perm": [1, 2, 0]}),
    ]
    return nodes, arrays


@pytest.mark.parametrize("batch", [2, None])
@pytest.mark.parametrize(
    ("kind", "begin"), [("LSTM", ()), ("LSTM", ("zeros", "zeros")), ("GRU", ("zeros",)), ("RNN", ())]
)
def test_recurrences_go_on_from_step_to_step(kind, begin, batch):
    net, rng = net_of(*recurrent(kind, begin), [batch, 3, "length"]), np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 29)).astype(np.float32)
    stream = net.stream(chunk=4)
    results = [together(stream, x, cuts)[0] for cuts in ([29], [1] * 29, cuts_of(rng, 29))]
    for result in results:
        np.testing.assert_array_equal(result, results[0])
        np.testing.assert_allclose(result, net(x), rtol=1e-5, atol=1e-6)
    assert stream.latency == 0


def test_a_known_initial_state_is_that_of_the_first_step():
    net = net_of(*recurrent("GRU", ("fixed",)), [2, 3, "length"])
    x = np.ones((2, 3, 17), np.float32)
    np.testing.assert_allclose(together(net.stream(chunk=4), x, [3, 14])[0], net(x), rtol=1e-5, atol=1e-6)


def test_a_saved_recurrence_goes_on(tmp_path):
    net, x = net_of(*recurrent("LSTM"), [2, 3, "length"]), np.ones((2, 3, 30), np.float32)
    stream, other = net.stream(chunk=4), net.stream(chunk=4)
    parts = [stream.push(x[..., :13])]
    stream.save(tmp_path / "state")
    other.load(tmp_path / "state")
    parts += [other.push(x[..., 13:]), other.flush()]
    np.testing.assert_allclose(np.concatenate(parts, -1), net(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("way", "words"), [("reverse", "begins at the end"), ("bidirectional", "direction is bidirectional")]
)
def test_recurrences_from_the_end_are_refused(way, words):
    nodes, arrays = recurrent("GRU", direction=way)
    if way == "bidirectional":
        nodes[-2:] = [("ReduceSum", ["y", "one"], ["z"], {"keepdims": 0}), nodes[-1]]
    net = net_of(nodes, arrays, [2, 3, "length"])
    with pytest.raises(dgo.UnsupportedError, match=f"'y' .op 2 of .*{words}"):
        net.stream(chunk=4)


def test_recurrences_over_another_axis_are_refused():
    nodes, arrays = recurrent("GRU")
    nodes[0] = ("Transpose", ["x"], ["steps"], {"perm": [0, 2, 1]})
    nodes[2:] = [("Squeeze", ["y", "one"], ["o"], {})]
    net = net_of(nodes, arrays, [2, 3, "length"])
    with pytest.raises(dgo.UnsupportedError, match="its steps do not run along the axis"):
        net.stream(chunk=4)


def test_mirrored_pads_stand_at_the_true_ends():
    arrays = {"pads": np.array([0, 0, 3, 0, 0, 2]), "w": np.ones((2, 3, 6), np.float32)}
    nodes = [("Pad", ["x", "pads"], ["p"], {"mode": "reflect"}), ("Conv", ["p", "w"], ["o"], {})]
    net, x = net_of(nodes, arrays, [1, 3, "length"]), np.arange(90, dtype=np.float32).reshape(1, 3, 30)
    np.testing.assert_array_equal(together(net.stream(chunk=4), x, [11, 19])[0], net(x))


def test_nets_of_stages_are_refused():
    net = net_of([("NonZero", ["x"], ["i"], {}), ("Cast", ["i"], ["o"], {"to": FLOAT})], {}, [2, "length"])
    with pytest.raises(dgo.UnsupportedError, match="only nets of one graph"):
        net.stream(chunk=4)
