"""The fields of ONNX's messages that the reader needs, as named tuples; names are those of protobuf's messages.

Native code reads them from bytes in one pass, in a fraction of the time of protobuf's objects.

Source: onnx.proto of the ONNX specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..._core import Message
from ...errors import InvalidArgumentError

# subgraphs in subgraphs; and their messages, as each is in an attribute of a node
MOST_DEPTH = 40
_MOST_MESSAGES = 3 * (MOST_DEPTH + 1)


class Opset(NamedTuple):
    domain: str
    version: int


class Tensor(NamedTuple):
    """`whole`: the bytes of the message; b"" where it has `raw_data`."""

    name: str
    dims: Sequence[int]
    data_type: int
    raw_data: bytes
    data_location: int
    whole: bytes


class SparseTensor(NamedTuple):
    values: Tensor
    indices: Tensor
    dims: Sequence[int]


class Attribute(NamedTuple):
    name: str
    type: int
    f: float
    i: int
    s: str
    t: Tensor
    g: Graph
    floats: Sequence[float]
    ints: Sequence[int]
    strings: tuple[str, ...]
    sparse_tensor: SparseTensor
    ref_attr_name: str


class Node(NamedTuple):
    input: tuple[str, ...]
    output: tuple[str, ...]
    name: str
    op_type: str
    attribute: Sequence[Attribute]
    domain: str
    overload: str


class Info(NamedTuple):
    name: str
    type: Any


class Graph(NamedTuple):
    node: Sequence[Node]
    name: str
    initializer: Sequence[Tensor]
    input: Sequence[Info]
    output: Sequence[Info]
    sparse_initializer: Sequence[SparseTensor]


class Function(NamedTuple):
    name: str
    input: tuple[str, ...]
    output: tuple[str, ...]
    node: Sequence[Node]
    opset_import: Sequence[Opset]
    domain: str
    attribute_proto: Sequence[Attribute]
    overload: str


class Model(NamedTuple):
    graph: Graph
    opset_import: Sequence[Opset]
    functions: Sequence[Function]


def _type(data: bytes) -> Any:
    import onnx

    return onnx.TypeProto.FromString(data)


# by tuple: the number of each item's field, its form, and what it is made by
_FIELDS: dict[type[Any], list[tuple[int, str, Any]]] = {
    Model: [(7, "message", Graph), (8, "messages", Opset), (25, "messages", Function)],
    Opset: [(1, "text", None), (2, "int", None)],
    Graph: [
        (1, "messages", Node), (2, "text", None), (5, "messages", Tensor), (11, "messages", Info),
        (12, "messages", Info), (15, "messages", SparseTensor),
    ],
    Node: [
        (1, "texts", None), (2, "texts", None), (3, "text", None), (4, "text", None), (5, "messages", Attribute),
        (7, "text", None), (8, "text", None),
    ],
    Attribute: [
        (1, "text", None), (20, "int", None), (2, "float", None), (3, "int", None), (4, "text", None),
        (5, "message", Tensor), (6, "message", Graph), (7, "floats", None), (8, "ints", None), (9, "texts", None),
        (22, "message", SparseTensor), (21, "text", None),
    ],
    Tensor: [
        (8, "text", None), (1, "ints", None), (2, "int", None), (9, "bytes", None), (14, "int", None),
        (0, "whole", 9),
    ],
    SparseTensor: [(1, "message", Tensor), (2, "message", Tensor), (3, "ints", None)],
    Info: [(1, "text", None), (2, "made", _type)],
    Function: [
        (1, "text", None), (4, "texts", None), (5, "texts", None), (7, "messages", Node), (9, "messages", Opset),
        (10, "text", None), (11, "messages", Attribute), (13, "text", None),
    ],
}  # fmt: skip
_KINDS = {kind: Message(kind) for kind in _FIELDS}
for _kind, _fields in _FIELDS.items():
    _KINDS[_kind].take([(number, form, _KINDS.get(of, of)) for number, form, of in _fields])
_MODEL = _KINDS[Model]
# what a model has that lacks a graph
NO_GRAPH: Graph = _KINDS[Graph].absent


def read(data: bytes) -> Model:
    """Returns the model in bytes. ValueError, or an error of protobuf: these are no such bytes."""
    model: Model = _MODEL.read(data)
    return model


def of_proto(proto: Any, kind: type[Any] = Model, depth: int = 0) -> Any:
    """Returns the tuple of a protobuf object. InvalidArgumentError: subgraphs nested too deeply for recursion."""
    if depth > _MOST_MESSAGES:
        raise InvalidArgumentError(f"from_onnx: subgraphs in subgraphs, more than {MOST_DEPTH} deep")

    def item(name: str, form: str, of: Any) -> Any:
        if form == "whole":
            return b"" if proto.HasField("raw_data") else proto.SerializeToString()
        value = getattr(proto, name)
        if form == "message":
            return of_proto(value, of, depth + 1) if proto.HasField(name) else _KINDS[of].absent
        if form == "messages":
            return [of_proto(message, of, depth + 1) for message in value]
        if form.endswith("s") and form != "bytes":
            return tuple(map(text_of, value)) if form == "texts" else [*value]
        return text_of(value) if form == "text" else value

    return kind(*[item(name, form, of) for name, (_, form, of) in zip(kind._fields, _FIELDS[kind], strict=True)])


def text_of(value: str | bytes) -> str:
    """Returns a string, which protobuf returns as bytes if it is not UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
