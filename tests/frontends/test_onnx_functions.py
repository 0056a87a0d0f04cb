"""Local functions: bodies in place of calls, with the tensors and attributes of each call."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from onnx import AttributeProto, helper  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402

from .hostile_models import branches, call, function, model, relu  # noqa: E402
from .models import reference  # noqa: E402


def referring(kind, name, to, type_=AttributeProto.FLOAT):
    """A node whose attribute is that of the call."""
    node = helper.make_node(kind, ["a"], ["b"])
    node.attribute.append(AttributeProto(name=name, ref_attr_name=to, type=type_))
    return node


def agree(proto, shape=(2, 3)):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    net = dgo.from_onnx(proto).compile()
    found, expected = net.run({"x": x}), reference(proto, {"x": x})
    for a, b in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return net


def test_calls_in_calls():
    twice = function("Twice", call("Half", "a", "t"), call("Half", "t", "b"))
    constant = helper.make_node("Constant", [], ["t"], value_float=0.5)
    half = function("Half", constant, helper.make_node("Mul", ["a", "t"], ["b"]))
    nodes = [call("Twice", "x", "t"), call("Twice", "t", "t__1"), call("Half", "t__1", "y")]
    assert len(agree(model(nodes, functions=[twice, half])).graph.nodes) == 5


def test_attributes_of_the_call_its_defaults_and_none():
    leaky = function("Leaky", referring("LeakyRelu", "alpha", "slope"), attributes=["slope"])
    usual = function(
        "Usual", referring("LeakyRelu", "alpha", "slope"), attribute_protos=[helper.make_attribute("slope", 0.75)]
    )
    outer = helper.make_node("Leaky", ["a"], ["b"], domain="f")
    outer.attribute.append(AttributeProto(name="slope", ref_attr_name="s", type=AttributeProto.FLOAT))
    passed = function("Passed", outer, attributes=["s"])
    nodes = [
        call("Leaky", "x", "t0", slope=0.5),
        call("Leaky", "t0", "t1"),
        call("Usual", "t1", "t2"),
        call("Usual", "t2", "t3", slope=0.25),
        call("Passed", "t3", "y", s=0.125),
    ]
    net = agree(model(nodes, functions=[leaky, usual, passed]))
    slopes = [node.attrs["alpha"] for node in net.graph.nodes]
    assert slopes == pytest.approx([0.5, 0.01, 0.75, 0.25, 0.125])


def test_inputs_and_outputs_that_are_left_out():
    names = ("a", "low", "high")
    body = helper.make_node("Clip", names, ["b"]), helper.make_node("Relu", ["a"], ["c"])
    clip = function("Clip2", *body, inputs=names, outputs=("b", "c"))
    nodes = [
        helper.make_node("Clip2", ["x", "", "top"], ["t"], domain="f"),
        helper.make_node("Clip2", ["t"], ["", "y"], domain="f"),
    ]
    x = np.float32([[-1, 0.25, 2]])
    found = dgo.from_onnx(model(nodes, {"top": np.float32(0.5)}, functions=[clip], shape=(1, 3))).compile()(x)
    # ONNX Runtime wants the outputs that are left out at the end written as empty names
    np.testing.assert_array_equal(found, [[0, 0.25, 0.5]])


def test_overloads():
    halves = [function("Half", relu()), function("Half", helper.make_node("Neg", ["a"], ["b"]))]
    halves[1].overload = "negative"
    nodes = [call("Half", "x", "t"), call("Half", "t", "y")]
    nodes[0].overload = "negative"
    graph = dgo.from_onnx(model(nodes, functions=halves))
    assert [node.kind for node in graph.nodes] == ["Multiply", "ReLU"]
    nodes[0].overload = "no such"
    with pytest.raises(dgo.UnsupportedError, match=r"no op for f\.Half"):
        dgo.from_onnx(model(nodes, functions=halves))


def test_a_function_has_its_own_version_of_the_operators():
    """Softmax runs over all axes from the given one on until version 12."""
    made = helper.make_function(
        "f", "Old", ["a"], ["b"], [helper.make_node("Softmax", ["a"], ["b"], axis=1)], [helper.make_opsetid("", 11)]
    )
    old = dgo.from_onnx(model([call("Old", "x", "y")], functions=[made], shape=(2, 3, 4))).compile()
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    wide = np.exp(x.reshape(2, 12))
    np.testing.assert_allclose(old(x).reshape(2, 12), wide / wide.sum(1, keepdims=True), rtol=1e-5)


def test_what_is_unsupported_inside_is_named_with_its_call():
    block = helper.make_node("F0", ["x"], ["y"], name="block", domain="f")
    with pytest.raises(dgo.UnsupportedError, match=r"'block/q' \(F9\): no op for f\.F9"):
        dgo.from_onnx(model([block], functions=[function("F0", branches("F9"))]))


def test_a_circle_is_named():
    proto = model([call("F0", "x", "y")], functions=[function("F0", call("F1")), function("F1", call("F0"))])
    with pytest.raises(dgo.InvalidArgumentError, match=r"f\.F0: calls itself"):
        dgo.from_onnx(proto)


def test_names_inside_do_not_meet_names_outside():
    """Also where the model uses the names that a call would be given."""
    pair = function("Pair", helper.make_node("Neg", ["a"], ["t"]), helper.make_node("Relu", ["t"], ["b"]))
    taken = [helper.make_node("Abs", ["x"], [f"t__{i}"]) for i in range(1, 4)]
    calls = [call("Pair", "t__2", "t"), call("Pair", "t", "u"), helper.make_node("Add", ["u", "t__1"], ["y"])]
    agree(model([*taken, *calls], functions=[pair]))


def test_a_body_sees_no_tensor_of_the_caller():
    leak = function("Leak", helper.make_node("Add", ["a", "x"], ["b"]))
    with pytest.raises(dgo.InvalidArgumentError, match="nothing makes"):
        dgo.from_onnx(model([call("Leak", "x", "y")], functions=[leak]))
