"""Messages of a model as named tuples: what native code reads from bytes is what protobuf's objects say."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")

from google.protobuf.message import DecodeError  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402
from dnnl_graph_ops._core import Message, thinned  # noqa: E402
from dnnl_graph_ops.frontends.onnx import messages  # noqa: E402

from .onnx_mutations import mutated, originals  # noqa: E402


def check_equal(read, stated):
    """Compares tuples item by item; a NaN equals a NaN."""
    assert type(read) is type(stated) or (isinstance(read, list | tuple) and isinstance(stated, list | tuple))
    if isinstance(read, messages.Tensor):
        # messages of fields in another order, or with fields that nobody knows
        read, stated = (tensor._replace(whole=bool(tensor.whole)) for tensor in (read, stated))
    for name in ("type", "data_location"):
        # protobuf leaves out numbers that no name stands for
        if getattr(stated, name, None) == 0:
            assert getattr(read, name) not in range(1, 15) or name == "data_location"
            read = read._replace(**{name: 0})
    if isinstance(read, list | tuple):
        assert len(read) == len(stated)
        for item, wanted in zip(read, stated, strict=True):
            check_equal(item, wanted)
    else:
        assert read == stated or read != read


@pytest.mark.cases(16, 32, 400, each=1)
def test_bytes_mean_what_protobuf_says(seed, start):
    rng = np.random.default_rng([seed, start])
    content = list(originals())[start % 8].SerializeToString()
    for _ in range(20):
        damaged = mutated(rng, content)
        try:
            proto = onnx.ModelProto.FromString(damaged)
        except DecodeError:
            # native code reads no more of a message than it needs, so that it may find no fault
            continue
        try:
            read = messages.read(damaged)
        except ValueError as error:
            # groups, which no model has
            assert str(error).startswith("a field of kind")
            continue
        check_equal(read, messages.of_proto(proto))


def field(number, content):
    head = bytes([number << 3 | 2]) if number < 16 else bytes([(number << 3 | 2) & 127 | 128, number >> 4])
    assert len(content) < 128
    return head + bytes([len(content)]) + content


def test_lists_of_numbers_in_both_forms_and_parts_of_messages():
    attribute = onnx.AttributeProto(name="a", ints=[3, -1, 300], floats=[0.5, -2.0], strings=[b"\xff", b"b"])
    # packed, and fields of another kind than the message has
    packed = field(1, b"a") + field(8, bytes([5, 6])) + field(7, np.float32([1.5]).tobytes()) + bytes([1 << 3, 7])
    node = field(5, attribute.SerializeToString()) + field(5, packed)
    # a message may come in parts
    model = field(7, field(1, node)) + field(7, field(2, b"name"))
    proto = onnx.ModelProto.FromString(model)
    check_equal(messages.read(model), messages.of_proto(proto))
    first, second = messages.read(model).graph.node[0].attribute
    assert first.ints == [3, -1, 300]
    assert first.strings == ("\ufffd", "b")
    assert (second.name, second.ints, second.floats) == ("a", [5, 6], [1.5])
    assert messages.read(model).graph.name == "name"


def test_absent_messages():
    assert messages.read(b"").graph is messages.NO_GRAPH
    assert messages.of_proto(onnx.ModelProto()).graph is messages.NO_GRAPH
    assert messages.read(field(7, b"")).graph is not messages.NO_GRAPH
    tensor = messages.read(field(7, field(5, field(8, b"w")))).graph.initializer[0]
    assert tensor == ("w", (), 0, b"", 0, field(8, b"w"))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\x80", "a number without end"),
        (b"\xff" * 12, "a number without end"),
        (bytes([7 << 3 | 2, 5, 1]), "a field beyond the end"),
        (bytes([7 << 3 | 2]) + b"\xff" * 9 + b"\x01", "a field beyond the end"),
        (bytes([7 << 3 | 3]), "a field of kind 3"),
        (bytes([1 << 3 | 5, 1, 2]), "a field beyond the end"),
        (field(7, field(1, field(5, field(7, b"abc")))), "floats of other sizes"),
    ],
    ids=["key", "long key", "length", "huge length", "group", "fixed", "floats"],
)
def test_what_is_no_message(content, text, tmp_path):
    with pytest.raises(ValueError, match=text):
        messages.read(content)
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    for source in (content, path):
        with pytest.raises(dgo.InvalidArgumentError, match=f"is not an ONNX model: {text}"):
            dgo.from_onnx(source)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([], "needs a class of named tuples with 0 items"),
        ([(1, "text", None), (2, "number", None)], "there is no form number"),
        ([(1, "text", None), (256, "int", None)], "no field of number 256"),
        ([(1, "text", None), (0, "whole", 2)], "no field instead"),
    ],
)
def test_wrong_forms(fields, text):
    kind = Message(messages.Opset)
    with pytest.raises(ValueError, match=text):
        kind.take(fields)
    with pytest.raises(ValueError, match="no fields are taken"):
        kind.read(b"")


def test_wrong_classes_and_routes(tmp_path):
    with pytest.raises(ValueError, match="needs a class"):
        Message(int).take([])
    with pytest.raises(TypeError):
        Message(messages.Opset).take([(1, "text", None), (2, "message", None)])
    with pytest.raises(ValueError, match="route of two fields"):
        thinned(0, 10, 0, [], 1000)


def test_tensors_of_any_form():
    """Data as numbers of a type, or of none that NumPy has."""
    values = np.arange(-3, 3).reshape(2, 3)
    tensors = [
        *(helper.make_tensor("w", kind, (2, 3), values.ravel().tolist()) for kind in (1, 3, 6, 7, 10, 11)),
        numpy_helper.from_array(values.astype(np.int8), "w"),
        numpy_helper.from_array(np.zeros((0, 3), np.float32), "w"),
        helper.make_tensor("w", onnx.TensorProto.INT4, (2, 3), values.ravel().tolist()),
        helper.make_tensor("w", onnx.TensorProto.INT4, (2, 3), b"\x21\x43\x05", raw=True),
    ]
    from dnnl_graph_ops.frontends.onnx.model import array_of

    for proto in tensors:
        wanted = numpy_helper.to_array(proto)
        graph = onnx.GraphProto(initializer=[proto])
        tensor = messages.read(onnx.ModelProto(graph=graph).SerializeToString()).graph.initializer[0]
        # a place of the data that no name stands for is none
        for source in (tensor, tensor._replace(data_location=5), messages.of_proto(proto, messages.Tensor)):
            np.testing.assert_array_equal(array_of(onnx, source, None, "w"), wanted)


def test_a_file_without_its_large_tensors(tmp_path):
    path = tmp_path / "model.onnx"
    arrays = {"a": np.arange(5000.0), "b": np.arange(3.0), "c": np.ones(6000)}
    graph = helper.make_graph([], "g", [], [], [numpy_helper.from_array(array, name) for name, array in arrays.items()])
    content = helper.make_model(graph).SerializeToString()
    path.write_bytes(content)
    with path.open("rb") as file:
        copy, ranges = thinned(file.fileno(), len(content), 0, (7, 5, 9), 1000)
        assert thinned(file.fileno(), len(content), len(content) + 1, (7, 5, 9), 1000) == (content, [])
    assert len(copy) < 500
    assert {number: content[at : at + nbytes] for number, at, nbytes in ranges} == {
        0: arrays["a"].tobytes(), 2: arrays["c"].tobytes()
    }  # fmt: skip
    read = messages.read(copy).graph.initializer
    assert [(tensor.name, len(tensor.raw_data)) for tensor in read] == [("a", 0), ("b", 24), ("c", 0)]


def test_a_descriptor_of_no_file():
    with pytest.raises(OSError, match="Bad file descriptor"):
        thinned(1 << 20, 10, 0, (7, 5, 9), 1000)
