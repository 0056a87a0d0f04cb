"""Defines nodes, tensors and subgraphs of a model as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtypes
from ...graph import Value
from ...once import once
from ...record import record
from ...shapes import Meta
from .types import CODES, NUMBERS, TYPES

Array = np.ndarray[Any, Any]
# an operand for rules: a value of the graph, or an array known while the model is read
Operand = Value | Array


def is_fill(array: Array | None) -> bool:
    """Whether an array is a fill: a view of one number."""
    return array is not None and array.size > 1 and not any(array.strides)


@dataclass(frozen=True)
class Reference:
    """An attribute of a node in a function that refers to the call's attribute of this name."""

    name: str


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse tensor of shape `dims` with the nonzero `values` (n,).

    `indices`: positions of the values, (n,) in row-major order, or (n, axes).
    """

    values: Array
    indices: Array
    dims: tuple[int, ...]


@record(slots=False)
class OnnxNode:
    """A node. An attribute is an int, a float, a str, a list of these, an array, a Sparse tensor, a Body, a Traced
    call or a Reference; else None.

    `opset`: the version of its domain's operators.
    """

    name: str
    op_type: str
    domain: str
    overload: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    # the model's format, for messages
    source: str = "ONNX"

    @once
    def where(self) -> str:
        return f"{self.source} node {self.name[:80]!r} ({self.op_type[:80]})"

    @property
    def identity(self) -> tuple[str, str, str]:
        """The identity of the function that the node calls, if it calls one."""
        return self.domain, self.op_type, self.overload

    @once
    def bodies(self) -> dict[str, Body]:
        return {name: value for name, value in self.attrs.items() if isinstance(value, Body)}

    @once
    def reads(self) -> tuple[str, ...]:
        """Names of the tensors that the node reads, those of its subgraphs included."""
        free = [name for body in self.bodies.values() for name in body.free]
        return tuple(filter(None, (*self.inputs, *free)))


@dataclass(eq=False, slots=True)
class Tensor:
    """The facts of a tensor while a model is read: its type, shape and contents. Immutable.

    Attributes:
        code: onnx's number of the type; None: unknown; 0: no tensor, but a sequence or an optional.
        shape: None: the rank is unknown.
        kind: the TypeProto of a sequence or an optional.
        value: the value of the graph, if the tensor is one.
        numbers: the elements, ones instead of elements that depend on dynamic sizes.
        unknown: the mask of these elements; None: there are none.
        node: the node that computes elements from sizes, or an empty sequence.
        parts: the names of a sequence's tensors.
    """

    code: int | None = None
    shape: tuple[int | None, ...] | None = None
    kind: bytes = b""
    value: Value | None = None
    numbers: Array | None = None
    unknown: Array | None = None
    node: OnnxNode | None = None
    parts: tuple[str, ...] | None = None

    @property
    def is_tensor(self) -> bool:
        return bool(self.code)

    @property
    def is_stated(self) -> bool:
        """Whether the contents are unknown."""
        return self.value is None and self.numbers is None and self.parts is None

    @property
    def is_open(self) -> bool:
        """Whether the elements depend on sizes, and the shape does, too."""
        return self.unknown is not None and None in self.sizes

    def common(self, other: Tensor) -> Tensor:
        """Returns the facts that two tensors share."""
        if (self.code, self.shape, self.kind) == (other.code, other.shape, other.kind):
            return self
        if self.code != other.code or not self.is_tensor:
            return Tensor()
        if self.shape is None or other.shape is None or len(self.shape) != len(other.shape):
            return Tensor(self.code)
        return Tensor(self.code, tuple(a if a == b else None for a, b in zip(self.shape, other.shape, strict=True)))

    @property
    def sizes(self) -> tuple[int | None, ...]:
        return self.shape or ()

    @property
    def array(self) -> Array | None:
        """The elements, if all are known."""
        return self.numbers if self.unknown is None else None

    @property
    def operand(self) -> Any:
        """The operand for rules: a value or an array; the record itself if elements depend on sizes."""
        if self.value is not None:
            return self.value
        return self if self.array is None else self.array

    @property
    def dtype(self) -> str:
        """The package's name of the type, or NumPy's."""
        if self.value is not None:
            return self.value.dtype
        return dtypes.label(self.numbers.dtype if self.numbers is not None else TYPES[self.code or 0])

    @property
    def meta(self) -> Meta:
        return Meta(self.sizes, dtypes.canonical(self.dtype))


def tensor_of(item: Operand | Tensor) -> Tensor:
    """Returns the record of a value of the graph or of known elements."""
    if isinstance(item, Value):
        return Tensor(CODES.get(item.dtype), item.shape, value=item)
    return Tensor(NUMBERS.get(item.dtype), item.shape, numbers=item) if isinstance(item, np.ndarray) else item


def tensors_of(items: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: tensor_of(item) for name, item in items.items()}


@dataclass(frozen=True, eq=False)
class Body:
    """A subgraph of a node; `infos` and `input_infos`: declared facts of its outputs and inputs."""

    inputs: tuple[str, ...]
    arrays: Mapping[str, Array]
    nodes: tuple[OnnxNode, ...]
    outputs: tuple[str, ...]
    infos: tuple[Tensor, ...]
    input_infos: tuple[Tensor, ...]

    @once
    def local(self) -> frozenset[str]:
        return frozenset((*self.inputs, *self.arrays, *(name for node in self.nodes for name in node.outputs)))

    @once
    def free(self) -> tuple[str, ...]:
        """Names of outer tensors that the subgraph reads."""
        reads = (*(name for node in self.nodes for name in node.reads), *self.outputs)
        return tuple(dict.fromkeys(name for name in reads if name and name not in self.local))


def flat(nodes: Iterable[OnnxNode]) -> Iterator[OnnxNode]:
    """Yields the nodes and all nodes of their subgraphs."""
    for node in nodes:
        yield node
        for body in node.bodies.values():
            yield from flat(body.nodes)
