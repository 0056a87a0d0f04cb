"""The typed attributes of the convolution families: one record, parsed once, in place of nodes' plain mappings."""

import pickle
import sys
from collections import Counter

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops, schema, shapes
from dnnl_graph_ops.compile.specialise import known_values
from dnnl_graph_ops.shapes import Attributes, conv_transpose
from dnnl_graph_ops.shapes.attributes import WeightsShape, attributes

CONV = {"strides": 2, "pads_begin": 1, "pads_end": 0, "dilations": 1}


def operands(*shapes_):
    graph = dgo.Graph()
    return [graph.input(f"x{i}", shape) for i, shape in enumerate(shapes_)]


FAMILY = {
    "ConvTranspose": (ops.conv_transpose, (1, 5, 5, 4), (3, 3, 3, 4), {}),
    "ConvTransposeBackwardData": (ops.conv_transpose_backward_data, (1, 11, 11, 3), (3, 3, 3, 4), {}),
    "ConvTransposeBackwardWeights": (ops.conv_transpose_backward_weights, (1, 5, 5, 4), (1, 11, 11, 3), {}),
    "ConvTransposeBackpropFilters": (
        ops.conv_transpose_backprop_filters,
        (1, 5, 5, 4),
        (1, 10, 10, 3),
        CONV | {"output_padding": 0},
    ),
    "Convolution": (ops.convolution, (1, 8, 8, 4), (3, 3, 4, 6), CONV),
    "ConvolutionBackwardData": (ops.convolution_backward_data, (1, 4, 4, 6), (3, 3, 4, 6), CONV),
    "ConvolutionBackwardWeights": (
        ops.convolution_backward_weights,
        (1, 8, 8, 4),
        (1, 4, 4, 6),
        CONV | {"weights_shape": (3, 3, 4, 6)},
    ),
}


def node_of(kind):
    builder, first, second, attrs = FAMILY[kind]
    if kind.startswith("ConvTransposeBackward") or kind == "ConvTranspose":
        attrs = attrs | {"strides": 2}
    return builder(*operands(first, second), **attrs).node


@pytest.mark.parametrize("kind", FAMILY)
def test_nodes_of_both_families_hold_the_record(kind):
    attrs = node_of(kind).attrs
    assert isinstance(attrs, Attributes)
    assert attrs.strides == (2, 2) == attrs["strides"]
    assert attrs.auto_pad == "None"
    assert attrs.known.weights.kernel == (3, 3)
    assert attrs.known.weights == WeightsShape(4, 6 if kind.startswith("Convolution") else 3, (3, 3))


@pytest.mark.parametrize("kind", FAMILY)
def test_the_record_is_a_mapping_of_the_attributes_that_the_op_has(kind):
    attrs = node_of(kind).attrs
    plain = dict(attrs)
    assert attrs == plain and plain == attrs and list(attrs) == list(plain) and len(attrs) == len(plain)
    # the one attribute that the transposed family takes everywhere, and the library in one direction
    assert set(plain) <= {*schema.OPS.get(kind, schema.OPS["ConvTranspose"]).attrs, "output_padding"}
    assert ("output_padding" in attrs) == (kind.startswith("ConvTranspose") or kind == "ConvolutionBackwardData")
    assert "resolved" not in attrs and attrs.get("resolved") is None and "known" not in attrs
    with pytest.raises(KeyError):
        attrs["src_shape"]
    with pytest.raises(AttributeError):
        attrs.groups = 2
    again = pickle.loads(pickle.dumps(attrs))
    assert again == attrs and again.known == attrs.known
    assert repr(attrs).startswith("Attributes(strides=(2, 2), pads_begin=")


def test_every_keyword_is_an_attribute_of_the_record_and_every_format_of_the_library_a_choice():
    for words in schema.KEYWORDS.values():
        for word in words.values():
            assert word.attribute in Attributes.__dataclass_fields__
            assert word.choices or word.type != "string"
            if isinstance(word.default, str):
                assert word.default.lower() in [choice.lower() for choice in word.choices]
    for kind in ("ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights"):
        listed = schema.KEYWORDS["conv_transpose"]
        attrs = {name: attr for name, attr in schema.OPS[kind].attrs.items() if name != "weights_shape"}
        assert set(attrs) | {"output_padding"} == set(listed)
        for name, attr in attrs.items():
            assert set(attr.allowed) <= set(listed[name].choices)
            assert attr.required or str(attr.default).lower() == str(listed[name].default).lower() or attr.fill == 0


def test_a_grouped_shape_that_only_the_call_tells_is_read_anew():
    x, w = operands((1, 5, None), (2, 4, 3))
    made = ops.conv_transpose(x, w, groups=2, weights_format="IOX")
    assert not made.node.attrs.known.weights.documented and made.shape == (1, 7, 8)
    values = known_values([made.node], {x: (1, 5, 4), w: (2, 4, 3)})
    assert values[made].node.attrs.known.weights.documented and values[made].shape == (1, 7, 4)
    values = known_values([made.node], {x: (1, 5, 2), w: (2, 4, 3)})
    assert not values[made].node.attrs.known.weights.documented and values[made].shape == (1, 7, 8)


def test_known_shapes_are_not_resolved_twice():
    node = node_of("ConvTranspose")
    given = [value.shape for value in node.inputs]
    assert shapes.resolved(node.kind, given, node.attrs, "here") is node.attrs
    assert known_values([node], {v: v.shape for v in node.inputs})[node.outputs[0]].node.attrs is node.attrs


@pytest.mark.parametrize("name", ["conv_transpose", "conv_transpose_backward_data", "conv_transpose_backward_weights"])
def test_a_one_shot_call_parses_once_and_works_out_one_geometry(name):
    seen = Counter()

    def watch(frame, event, arg):
        if event == "call":
            seen[frame.f_code] += 1

    x, dst = np.ones((1, 5, 4), np.float32), np.ones((1, 9, 3), np.float32)
    first, second = {
        "conv_transpose": (x, np.ones((3, 3, 4), np.float32)),
        "conv_transpose_backward_data": (dst, np.ones((3, 3, 4), np.float32)),
        "conv_transpose_backward_weights": (x, dst),
    }[name]
    dgo.clear_caches()
    sys.setprofile(watch)
    try:
        getattr(dgo, name)(first, second, strides=2, pads_begin=1, pads_end=1)
    finally:
        sys.setprofile(None)
    assert seen[attributes.__code__] == seen[conv_transpose._geometry.__code__] == 1
