"""One node of a model, as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtypes
from ...graph import Value
from ...once import once
from ...shapes import Meta
from .types import CODES, NUMBERS, TYPES

Array = np.ndarray[Any, Any]
# an operand as rules have it: a value of the graph, or known as the model is read
Operand = Value | Array


def is_fill(array: Array | None) -> bool:
    """Whether an array is a view of one number."""
    return array is not None and array.size > 1 and not any(array.strides)


@dataclass(frozen=True)
class Reference:
    """An attribute of a node in a function: the attribute of the call that has this name."""

    name: str


@dataclass(frozen=True, eq=False)
class Sparse:
    """A tensor of shape `dims` that is zero but for `values` (n,).

    `indices` are their places: (n,) in row-major order, or (n, axes).
    """

    values: Array
    indices: Array
    dims: tuple[int, ...]


@dataclass(frozen=True)
class OnnxNode:
    """One node. An attribute value is an int, a float, a str, a list of these, an array, a Sparse tensor, a Body,
    a Traced call or a Reference; else None.

    `opset` is the version of its domain's operators that it was written for.
    """

    name: str
    op_type: str
    domain: str
    overload: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    # of what kind of model, in messages
    source: str = "ONNX"

    @property
    def where(self) -> str:
        return f"{self.source} node {self.name[:80]!r} ({self.op_type[:80]})"

    @property
    def identity(self) -> tuple[str, str, str]:
        """What a function must be named for the node to be a call of it."""
        return self.domain, self.op_type, self.overload

    @once
    def bodies(self) -> dict[str, Body]:
        return {name: value for name, value in self.attrs.items() if isinstance(value, Body)}

    @once
    def reads(self) -> tuple[str, ...]:
        """Tensors that it needs, those of its subgraphs included."""
        return tuple(filter(None, (*self.inputs, *(name for body in self.bodies.values() for name in body.free))))


@dataclass(eq=False, slots=True)
class Tensor:
    """What is known of a tensor as a model is read: its type, its shape, its contents. It is not changed.

    Attributes:
        code: onnx's number of its type; None: it is not known; 0: it is no tensor, but a sequence or an optional.
        shape: None: not even the number of its axes is known.
        kind: the TypeProto of what is no tensor.
        value: the value of the graph that it is.
        numbers: its elements, ones in place of those that depend on sizes which a call tells.
        unknown: where these are; None: there are none.
        node: what computes elements of sizes, or an empty sequence.
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
        """Whether nothing is known of its contents."""
        return self.value is None and self.numbers is None and self.parts is None

    @property
    def is_open(self) -> bool:
        """Whether the sizes of what depends on sizes do so, too."""
        return self.unknown is not None and None in self.sizes

    def common(self, other: Tensor) -> Tensor:
        """What of it holds of another one as well."""
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
        """Its elements, where all are known."""
        return self.numbers if self.unknown is None else None

    @property
    def operand(self) -> Any:
        """It as rules have it: a value or an array; itself where elements depend on sizes."""
        if self.value is not None:
            return self.value
        return self if self.array is None else self.array

    @property
    def dtype(self) -> str:
        """The package's name of its type, or NumPy's."""
        if self.value is not None:
            return self.value.dtype
        return dtypes.label(self.numbers.dtype if self.numbers is not None else TYPES[self.code or 0])

    @property
    def meta(self) -> Meta:
        return Meta(self.sizes, dtypes.canonical(self.dtype))


def tensor_of(item: Operand | Tensor) -> Tensor:
    """A value of the graph or known elements as such a record."""
    if isinstance(item, Value):
        return Tensor(CODES.get(item.dtype), item.shape, value=item)
    return Tensor(NUMBERS.get(item.dtype), item.shape, numbers=item) if isinstance(item, np.ndarray) else item


def tensors_of(items: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: tensor_of(item) for name, item in items.items()}


@dataclass(frozen=True, eq=False)
class Body:
    """A subgraph of a node; `infos` and `input_infos` are what it says of its outputs and inputs."""

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
        """Tensors around it that it reads."""
        reads = (*(name for node in self.nodes for name in node.reads), *self.outputs)
        return tuple(dict.fromkeys(name for name in reads if name and name not in self.local))


def flat(nodes: Iterable[OnnxNode]) -> Iterator[OnnxNode]:
    """The nodes and all those of their subgraphs."""
    for node in nodes:
        yield node
        for body in node.bodies.values():
            yield from flat(body.nodes)
