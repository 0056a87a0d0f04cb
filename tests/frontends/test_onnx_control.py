"""If, Loop and Scan as exporters write them, against ONNX Runtime: what is known of results, and what turns cost."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

import onnx
from onnx import TensorProto, helper, numpy_helper

import dnnl_graph_ops as dgo
from dnnl_graph_ops.runtime.control_groups import process_limit

from .models import reference
from .one_node import node, proto_of, run

F = TensorProto.FLOAT
X = np.float32([[-1, 2, 3], [4, -5, 6]])
W = np.float32([[1, 0, 2], [0, -1, 1], [3, 1, 0]])


def info(name, kind=F, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def body(nodes, inputs, outputs, known=()):
    arrays = [numpy_helper.from_array(array, name) for name, array in dict(known).items()]
    return helper.make_graph(nodes, "body", inputs, outputs, arrays)


def agree(proto, feeds):
    results = run(proto, feeds)
    for result, want in zip(results, reference(proto, feeds), strict=True):
        assert (result.shape, result.dtype) == (want.shape, want.dtype)
        np.testing.assert_array_equal(result, want)


def branches(first, second):
    """Of x (2, 3): squeezed where a condition of data says so, which changes the rank."""
    squeezed = body([node("Squeeze", "u axes", first)], [], [info(first, F, [None, None])], {"axes": np.int64([0])})
    return squeezed, body([node("Identity", "u", second)], [], [info(second, F, [None, None, None])])


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("way", ["sizes", "symbolic"])
def test_branches_of_other_ranks_have_one_type(condition, way):
    """PyTorch exports squeeze(dim) so; what is behind them is a graph's."""
    then, other = branches("a", "b")
    nodes = [
        node("Unsqueeze", "x zero", "u"),
        node("If", "c", "s", then_branch=then, else_branch=other),
        node("MatMul", "s w", "m"),
        node("Relu", "m"),
    ]
    feeds = {"x": X, "c": np.array(condition)}
    proto = proto_of(nodes, feeds, {"w": W, "zero": np.int64([0])}, way=way)
    agree(proto, feeds)
    net = dgo.from_onnx(proto).compile()
    net.run(feeds)
    assert not {"NumPy", "onnx.reference"} & {step.implementation for step in net.explain().steps}


def loop(nodes, states, results, known=(), counters=(), kind=F, **feeds):
    """A Loop of n turns, which a call tells, with states {inner: outer}; the body's own are nodes of i and goes."""
    own = [info("i", TensorProto.INT64, counters), info("goes", TensorProto.BOOL, counters)]
    outputs = [info("on", TensorProto.BOOL), *(info(name, kind) for name in results)]
    inputs = [*own, *(info(name, kind) for name in states)]
    inner = body([node("Identity", "goes", "on"), *nodes], inputs, outputs)
    outer = " ".join(f"y{i}" for i in range(len(results)))
    feeds = {"n": np.array(3), **feeds}
    made = node("Loop", " ".join(["n", "-", *states.values()]), outer, body=inner)
    return proto_of([made], feeds, known, way="symbolic"), feeds


CARRIED = [
    [node("MatMul", "h w", "h2"), node("Identity", "w", "w2"), node("Identity", "h2", "row")],
    [node("MatMul", "h w", "h2"), node("Identity", "w", "w1"), node("Identity", "w1", "w2"), node("Relu", "h2", "row")],
]


@pytest.mark.parametrize("nodes", CARRIED, ids=["an Identity", "two of them"])
def test_weights_that_no_turn_changes(nodes):
    """They are constants of the body's graph."""
    proto, feeds = loop(nodes, {"h": "h0", "w": "w0"}, ["h2", "w2", "row"], {"w0": W}, h0=X)
    agree(proto, feeds)
    net = dgo.from_onnx(proto).compile()
    net.run(feeds)
    assert [inner.input_names for inner in net._nets if "h" in inner.input_names] == [("goes", "h")]


def test_states_of_a_call_that_no_turn_changes():
    proto, feeds = loop(CARRIED[0], {"h": "h0", "w": "w0"}, ["h2", "w", "row"], h0=X, w0=W)
    agree(proto, feeds)
    agree(proto, {**feeds, "n": np.array(0)})


def test_a_state_that_two_results_share():
    """Two states change places each turn: both stay."""
    nodes = [node("Identity", "b", "a2"), node("Identity", "a", "b2"), node("Add", "a b", "row")]
    proto, feeds = loop(nodes, {"a": "a0", "b": "b0"}, ["a2", "b2", "row"], a0=X, b0=2 * X)
    agree(proto, feeds)


def test_states_of_scan_that_no_step_changes():
    inputs = [info("w"), info("h"), info("each")]
    nodes = [
        node("MatMul", "each w", "m"),
        node("Add", "h m", "h2"),
        node("Identity", "w", "w2"),
        node("Relu", "h2", "row"),
    ]
    inner = body(nodes, inputs, [info("w2"), info("h2"), info("row")])
    feeds = {"x": X, "h0": np.float32([1, 2, 3])}
    proto = proto_of(
        [node("Scan", "w0 h0 x", "a b c", body=inner, num_scan_inputs=1)], feeds, {"w0": W}, way="symbolic"
    )
    agree(proto, feeds)


@pytest.mark.parametrize("counters", [[], [1]], ids=["no axis", "one axis"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "of a call"])
def test_numbers_of_turns_have_the_declared_rank(counters, known):
    """keras2onnx and onnxmltools declare int64[1]."""
    first = node("Identity", "i", "k") if counters else node("Reshape", "i one", "k")
    nodes = [first, node("Concat", "k seven", "p", axis=0), node("Add", "h p", "h2"), node("Shape", "i", "row")]
    stored = {"one": np.int64([1]), "seven": np.int64([7])}
    states, results = {"h": "h0"}, ["h2", "row"]
    proto, feeds = loop(nodes, states, results, stored, counters, TensorProto.INT64, h0=np.int64([1, 2]))
    if known:
        proto.graph.input.remove(next(item for item in proto.graph.input if item.name == "n"))
        proto.graph.initializer.append(numpy_helper.from_array(np.array(3), "n"))
        del feeds["n"]
    agree(proto, feeds)


def test_rows_ask_for_the_limit_once():
    """It takes some 30 files."""
    proto, feeds = loop([node("Relu", "h", "h2"), node("Neg", "h", "row")], {"h": "h0"}, ["h2", "row"], h0=X)
    net = dgo.from_onnx(proto).compile()
    process_limit()
    before = process_limit.cache_info().misses
    net.run({**feeds, "n": np.array(20)})
    assert process_limit.cache_info().misses == before


def test_turns_of_other_shapes_and_types():
    """A net that was found for the turn before is not taken for granted."""
    nodes = [node("Concat", "h h", "h2", axis=0), node("ReduceSum", "h", "row", keepdims=0)]
    proto, feeds = loop(nodes, {"h": "h0"}, ["h2", "row"], h0=X)
    agree(proto, feeds)
    agree(proto, {**feeds, "n": np.array(5)})


def adding(kind, inputs, before=()):
    """A body that adds two tensors, and declares nothing of its results."""
    nodes = [*before, node("Add", inputs, "t"), node("Identity", "t", "row")]
    return nodes, [onnx.ValueInfoProto(name=name) for name in ("t", "row")]


KINDS = ["int32", "int64", "uint8", "float16", "float32", "float64"]


@pytest.mark.parametrize("way", ["sizes", "symbolic", "folded"])
@pytest.mark.parametrize("turns", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_loops_whose_bodies_declare_no_types(kind, turns, way):
    nodes, results = adding(kind, "s one", [node("Identity", "go_on", "d")])
    inputs = [info("i", TensorProto.INT64, []), info("go_on", TensorProto.BOOL, []), onnx.ValueInfoProto(name="s")]
    loop = node("Loop", "n go s0", "state rows", body=body(nodes, inputs, [onnx.ValueInfoProto(name="d"), *results]))
    feeds = {"s0": np.ones((2, 3), kind)}
    known = {"one": np.ones((), kind), "go": np.array(True), "n": np.array(turns)}
    if way == "symbolic":
        feeds["n"] = known.pop("n")
    proto = proto_of([loop], feeds, known, way=way)
    agree(proto, {} if way == "folded" else feeds)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_scans_of_no_turns(kind, axis):
    """The result by three turns, less these; ONNX Runtime refuses the scan of nothing."""
    nodes, results = adding(kind, "s x")
    inputs = [onnx.ValueInfoProto(name="s"), onnx.ValueInfoProto(name="x")]
    scan = node(
        "Scan", "s0 xs", "state rows", body=body(nodes, inputs, results), num_scan_inputs=1, scan_output_axes=[axis]
    )
    feeds = {"s0": np.ones(2, kind), "xs": np.ones((3, 2), kind)}
    proto = proto_of([scan], feeds, way="symbolic")
    _, rows = reference(proto, feeds)
    found = run(proto, {**feeds, "xs": np.ones((0, 2), kind)})
    assert (found[0].dtype, found[1].dtype) == (rows.dtype, rows.dtype)
    assert found[1].shape == np.delete(rows, range(3), axis).shape


@pytest.mark.parametrize("name", ["scan_input_axes", "scan_output_axes", "scan_input_directions"])
def test_scans_of_other_numbers_of_axes_are_refused(name):
    nodes, results = adding("float32", "s x")
    inputs = [onnx.ValueInfoProto(name="s"), onnx.ValueInfoProto(name="x")]
    attrs = {"num_scan_inputs": 1, name: [0, 0]}
    scan = node("Scan", "s0 xs", "state rows", body=body(nodes, inputs, results), **attrs)
    feeds = {"s0": np.ones(2, np.float32), "xs": np.ones((3, 2), np.float32)}
    with pytest.raises(dgo.InvalidArgumentError, match="not one for each of 1"):
        run(proto_of([scan], feeds), feeds)
