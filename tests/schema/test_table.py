"""The op table against the enumerators of the C headers, and its own consistency."""

import numpy as np
import pytest

from bindings import headers
from dnnl_graph_ops import _core, dtypes, schema
from dnnl_graph_ops.onednn import broadcasts

THEIRS = [op for op in schema.OPS.values() if not op.own]
OWN = {kind for kind, op in schema.OPS.items() if op.own}


def test_every_op_kind_has_the_value_of_the_headers():
    """The extension's own enums are held against the headers of both releases in bindings/test_parity.py."""
    known = {name: int(member) for name, member in _core.OpKind.__members__.items()}
    assert {op.builder: op.value for op in THEIRS} == known


def test_every_attribute_has_the_code_of_the_headers():
    assert {name: int(member) for name, member in _core.OpAttr.__members__.items()} == schema.ATTR_CODES


def test_what_came_after_the_oldest_release_says_so():
    first = headers.declared("3.2")["enumerators"]
    late = {op.kind for op in schema.OPS.values() if op.since > (3, 2)}
    assert late == {op.kind for op in THEIRS if f"dnnl_graph_op_{op.builder}" not in first}
    assert {name for name in schema.ATTR_CODES if f"dnnl_graph_op_attr_{name}" not in first} == {
        "group_shape",
        "accumulation_mode",
    }


def test_88_kinds_with_distinct_values_and_builders():
    assert sorted(op.value for op in THEIRS) == list(range(88))
    assert len(schema.BUILDERS) == 88 + len(OWN)
    assert schema.BUILDERS["batch_norm_backward"] == "BatchNormTrainingBackward"


def test_builders_have_python_names_and_no_argument_twice():
    for op in schema.OPS.values():
        names = [slot.name for slot in op.inputs] + list(op.attrs)
        assert all(name.isidentifier() for name in [op.builder, *names])
        assert len(set(names)) == len(names), op.kind


def test_dtypes_and_defaults_of_the_table_are_usable():
    for op in schema.OPS.values():
        for slot in op.inputs + op.outputs:
            assert set(slot.dtypes) <= set(dtypes.CODES), op.kind
        for attr in op.attrs.values():
            if attr.type == "string":
                assert attr.allowed, (op.kind, attr.name)
            if attr.default is not None and attr.allowed:
                assert attr.default in attr.allowed


def test_optional_slots_follow_the_required_ones():
    for op in schema.OPS.values():
        for slots in (op.inputs, op.outputs):
            required = [slot.required for slot in slots if not slot.variadic]
            assert required == sorted(required, reverse=True), op.kind


def test_inputs_that_say_what_an_attribute_says():
    stated = {op.kind: op.stated for op in schema.OPS.values() if op.stated is not None}
    reductions = {f"Reduce{name}" for name in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum")}
    shapes = {
        "AvgPoolBackward": "src_shape",
        "ConvTransposeBackwardWeights": "weights_shape",
        "ConvolutionBackwardData": "dst_shape",
        "ConvolutionBackwardWeights": "weights_shape",
    }
    assert {kind: one.attribute for kind, one in stated.items() if one.is_shape} == shapes
    assert {kind for kind, one in stated.items() if one.attribute == "axes"} == reductions
    assert set(stated) == {*shapes, *reductions, "Interpolate", "InterpolateBackward"}
    for kind, one in stated.items():
        slot = schema.OPS[kind].inputs[one.position]
        assert not slot.required and slot.dtypes == ("s32",)
        assert one.position == len(schema.OPS[kind].inputs) - 1


def test_post_ops_have_one_result_in_the_shape_of_their_first_operand():
    for kind in schema.POST_OPS:
        op = schema.OPS[kind]
        assert op.output_counts == (1,) and len(op.inputs) in (1, 2)
        assert op.cpu_since is not None and op.cpu_since <= (3, 2)
    binary = {op.kind for op in schema.OPS.values() if op.binary}
    assert binary == {"Add", "BiasAdd", "Divide", "Maximum", "Minimum", "Multiply", "Subtract"}


def test_outputs_on_request_are_optional_and_last():
    found = {op.kind: op.outputs[-1].name for op in schema.OPS.values() if any(slot.on_request for slot in op.outputs)}
    assert found == {"Dropout": "mask", "SoftMax": "stats"}
    for kind in found:
        assert [slot.on_request for slot in schema.OPS[kind].outputs] == [False, True]
        assert not schema.OPS[kind].outputs[-1].required


def test_wide_and_packed_integers():
    assert [op.kind for op in schema.OPS.values() if op.has_wide_integers] == ["Dropout", "Gather"]


def test_own_ops_are_none_of_the_library():
    assert {"Cos", "Erf", "Gather", "Pad", "Sin", "Slice"} == OWN
    for kind in OWN:
        op = schema.OPS[kind]
        assert op.value == -1 and op.cpu_since is None and not op.post_op
        assert f"dnnl_graph_op_{op.builder}" not in headers.declared("3.13")["enumerators"]
        reason = schema.availability(kind, ["f32"], (99, 0))
        assert reason == f"{kind} is an op of this package, which oneDNN does not have"
    foreign = {name for op in THEIRS for name in op.attrs}
    assert {name for kind in OWN for name in schema.OPS[kind].attrs} - foreign == {"starts", "ends", "steps", "value"}
    assert set(schema.ATTR_CODES) == foreign
    assert {"s4", "u4"} == dtypes.PACKED


def test_each_trait_is_said_of_some_kinds_and_explained():
    said = {trait for op in schema.OPS.values() for trait in op.traits}
    assert said == set(schema.TRAITS)
    assert all(schema.kinds(trait) for trait in schema.TRAITS)
    with pytest.raises(KeyError):
        schema.kinds("pretty")


def test_columns_of_words_say_known_ones():
    ops = schema.OPS.values()
    assert {op.reference for op in ops if op.reference} == set(schema.REFERENCE)
    assert {word for op in ops for word in op.behind} == {
        broadcasts.ONE,
        broadcasts.AXIS_1,
        broadcasts.LAST,
        broadcasts.FULL,
    }
    assert {op.keywords for op in ops if op.keywords} == set(schema.KEYWORDS) - {"conv_transpose_backprop_filters"}
    assert {op.pytorch for op in ops if op.pytorch} == {"IOX", "OIX"}


def test_a_function_behind_a_layer_has_a_time_for_each_who_computes_it():
    timed = {op.kind: op.nanoseconds for op in schema.OPS.values() if op.nanoseconds}
    assert timed.keys() < schema.POST_OPS and all(len(row) == 3 and min(row) > 0 for row in timed.values())


def test_reductions_of_no_elements_give_what_numpy_gives():
    numpy = {"ReduceL1": 0, "ReduceL2": 0, "ReduceMax": -np.inf, "ReduceMean": np.nan, "ReduceMin": np.inf}
    empty = {op.kind: op.empty for op in schema.OPS.values() if op.empty is not None}
    np.testing.assert_equal(empty, numpy | {"ReduceProd": np.prod([]), "ReduceSum": np.sum([])})
