"""Ops as plain data: kinds, attributes by type, tensors, copies."""

import copy
import pickle

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import engine, graph, op, status

from .common import LT, relu, strided


def deconv(**attrs):
    o = op(0, op.kind.ConvTranspose, "up")
    o.add_inputs([strided(0, [1, 4, 4, 3]), strided(1, [2, 2, 5, 3])])
    o.add_output(strided(2, [1, 8, 8, 5]))
    values = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]} | attrs
    for name, value in values.items():
        o.set_attr(op.attr[name], value)
    return o


def add(o, **more):
    return graph(engine.cpu).add_op(o, **more)


def test_two_forms():
    a, b = strided(0, [4]), strided(1, [4])
    first = op(3, op.ReLU, [a], [b], "r")
    second = op(3, op.kind.ReLU, "r")
    second.add_input(a)
    second.add_output(b)
    third = op(id=3, akind=op.ReLU, inputs=(a,), outputs=(b,), verbose_name="r")
    for o in (first, second, third):
        assert (o.get_id(), o.get_kind(), o.get_name()) == (3, op.kind.ReLU, "r")
        assert repr(o) == "<op 3 (ReLU 'r'): 0 -> 1>"
    assert op(3, op.ReLU).get_name() == ""


def test_kinds_are_those_of_the_table():
    kinds = dict.fromkeys(op.kind)
    assert len(kinds) == 88 and op.kind.Abs == 0 and op.ConvTranspose is op.kind.ConvTranspose
    assert op.kind.ConvTransposeBackpropFilters is op.kind.ConvTransposeBackwardWeights
    assert op.attr.filter_shape is op.attr.weights_shape and op.attr.undef == 0


@pytest.mark.parametrize(
    ("attr", "value"),
    [
        ("strides", [2, 2]),
        ("strides", (2,)),
        ("strides", np.array([2, 2])),
        ("strides", [np.int32(2)]),
        ("strides", [-(2**63), 2**63 - 1]),
        ("groups", 1),
        ("groups", np.int64(1)),
        ("epsilon", 1e-5),
        ("epsilon", 1),
        ("epsilon", np.float32(0.5)),
        ("min", float("-inf")),
        ("scales", [1, 2.5]),
        ("scales", np.float32([1, 2])),
        ("transpose_a", True),
        ("transpose_a", np.False_),
        ("auto_pad", "None"),
    ],
)
def test_values_by_type(attr, value):
    o = op(0, op.End)
    assert o.set_attr(op.attr[attr], value) is o
    assert o.set_attr(getattr(op, attr), value) is o


@pytest.mark.parametrize(
    ("attr", "value"),
    [
        ("strides", 2),
        ("strides", "22"),
        ("strides", [2.0]),
        ("strides", [True]),
        ("strides", np.ones((1, 1), np.int64)),
        ("strides", None),
        ("groups", 1.0),
        ("groups", [1]),
        ("groups", True),
        ("groups", "1"),
        ("epsilon", "1"),
        ("epsilon", True),
        ("epsilon", [1.0]),
        ("scales", 1.0),
        ("scales", ["1"]),
        ("transpose_a", 1),
        ("transpose_a", "True"),
        ("auto_pad", b"None"),
        ("auto_pad", 1),
    ],
)
def test_values_of_other_types(attr, value):
    with pytest.raises(TypeError, match=rf"op 7 \(End\): attribute '{attr}'") as caught:
        op(7, op.End).set_attr(op.attr[attr], value)
    assert str(caught.value).count("must be") == 1


@pytest.mark.parametrize(
    ("attr", "value"),
    [
        ("strides", []),
        ("strides", [2**63]),
        ("groups", -(2**63) - 1),
        ("epsilon", 1e300),
        ("epsilon", float("nan")),
        ("scales", [1e300]),
        ("undef", 1),
    ],
)
def test_values_out_of_range(attr, value):
    with pytest.raises(dgo.InvalidArgumentError, match="op 7"):
        op(7, op.End).set_attr(op.attr[attr], value)


@pytest.mark.parametrize("name", ["strides", None, op.Add, LT.f32, True, 1.0])
def test_names_of_other_types(name):
    with pytest.raises(TypeError, match=r"op\.attr"):
        op(0, op.ReLU).set_attr(name, [1])


def test_a_number_that_no_attribute_has():
    with pytest.raises(dgo.InvalidArgumentError, match=r"op\.attr"):
        op(0, op.ReLU).set_attr(0xFE, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        (0,),
        ("0", op.ReLU),
        (True, op.ReLU),
        (op.ReLU, op.ReLU),
        (0, "ReLU"),
        (0, op.attr.strides),
        (0, op.ReLU, [1]),
        (0, op.ReLU, strided(0, [1])),
        (0, op.ReLU, [], "name"),
        (0, op.ReLU, [], [], 5),
        (0, op.ReLU, 5),
    ],
)
def test_wrong_types(arguments):
    with pytest.raises(TypeError):
        op(*arguments)


@pytest.mark.parametrize("arguments", [(-1, op.ReLU), (2**64, op.ReLU), (0, 88), (0, -1), (0, op.ReLU, "a\0b")])
def test_wrong_values(arguments):
    with pytest.raises(dgo.InvalidArgumentError):
        op(*arguments)


@pytest.mark.parametrize("method", ["add_input", "add_output"])
def test_tensors_one_by_one(method):
    o = op(0, op.ReLU)
    with pytest.raises(TypeError, match="logical_tensor"):
        getattr(o, method)([strided(0, [1])])
    with pytest.raises(TypeError, match="list or tuple"):
        getattr(o, method + "s")(strided(0, [1]))
    getattr(o, method + "s")((strided(0, [1]), strided(1, [1])))
    getattr(o, method)(strided(2, [1]))
    assert repr(o) in ("<op 0 (ReLU): 0, 1, 2 -> >", "<op 0 (ReLU):  -> 0, 1, 2>")


def test_the_last_value_counts():
    o = deconv(strides=[7, 7])
    o.set_attr(op.attr.strides, [2, 2])
    assert add(o) == 0


def test_strings_in_any_case():
    for auto_pad in ("none", "NONE", "same_upper", "Valid"):
        assert add(deconv(auto_pad=auto_pad)) == 0


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"auto_pad": "both"}, "auto_pad"),
        ({"data_format": "NHCW"}, "NXC"),
        ({"weights_format": "HWIO"}, "weights_format.*conv_transpose"),
        ({"axis": 1}, "ConvTranspose has no attribute 'axis'"),
        ({"kernel": [1, 1]}, "no attribute 'kernel'"),
        ({"weights_shape": [1]}, "no attribute"),
    ],
)
def test_attributes_are_held_against_the_page(attrs, message):
    with pytest.raises(dgo.InvalidArgumentError, match=message):
        add(deconv(**attrs))


def test_required_attributes():
    o = op(0, op.ConvTranspose, [strided(0, [1, 4, 4, 3]), strided(1, [2, 2, 5, 3])], [strided(2, [1, 8, 8, 5])])
    with pytest.raises(dgo.InvalidArgumentError, match="'strides' of ConvTranspose is required"):
        add(o)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ([], [strided(1, [4])]),
        ([strided(0, [4])], []),
        ([strided(0, [4]), strided(2, [4])], [strided(1, [4])]),
        ([strided(0, [4], LT.s8)], [strided(1, [4], LT.s8)]),
        ([strided(0, [4], LT.dt_undef)], [strided(1, [4])]),
        ([strided(0, [4], LT.f64)], [strided(1, [4], LT.f64)]),
    ],
)
def test_tensors_are_held_against_the_page(inputs, outputs):
    with pytest.raises(dgo.InvalidArgumentError, match="op 0"):
        add(op(0, op.ReLU, inputs, outputs))


def test_later_ops_and_attributes():
    norm = op(0, op.RMSNorm, [strided(0, [2, 4])], [strided(1, [2, 4])])
    with pytest.raises(dgo.UnsupportedError, match=r"3\.11"):
        add(norm)
    soft = op(0, op.SoftMax, [strided(0, [2, 4])], [strided(1, [2, 4])]).set_attr(op.attr.mode, "inf_as_zero")
    with pytest.raises(dgo.UnsupportedError, match=r"3\.8"):
        add(soft)


def test_types_that_later_versions_mix():
    a, b = strided(0, [2, 3], LT.bf16), strided(1, [3, 4], LT.bf16)
    item = op(5, op.MatMul, [a, b], [strided(2, [2, 4])], "mixed")
    with pytest.raises(dgo.UnsupportedError, match=r"op 5 \(MatMul 'mixed'\): .*needs oneDNN 3\.8"):
        add(item)
    assert add(item, allow_exception=False) is status.unimplemented


def test_the_copy_that_a_graph_takes():
    g = graph(engine.cpu)
    o = relu()
    g.add_op(o)
    o.add_output(strided(7, [4]))
    o.set_attr(op.attr.strides, [1])
    g.finalize()
    assert len(g.get_partitions()) == 1


def test_pickling():
    o = deconv()
    other = pickle.loads(pickle.dumps(o))
    assert repr(other) == repr(o) and other.get_name() == "up" and add(other) == 0


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_are_of_their_own(copied):
    o = relu()
    other = copied(o)
    other.add_input(strided(9, [4]))
    other.set_attr(op.attr.strides, [1])
    assert repr(o) == "<op 0 (ReLU): 0 -> 1>" and add(o) == 0
