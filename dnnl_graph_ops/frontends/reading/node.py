"""One node of a model, as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...graph import Value
from ...once import once

Array = np.ndarray[Any, Any]
# a tensor: of the graph, or known as the model is read
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
    """One node. An attribute value is an int, a float, a str, a list of these, an array, a Sparse tensor, a Body
    or a Reference; else None.

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

    @property
    def bodies(self) -> dict[str, Body]:
        return {name: value for name, value in self.attrs.items() if isinstance(value, Body)}

    @property
    def reads(self) -> tuple[str, ...]:
        """Tensors that it needs, those of its subgraphs included."""
        return tuple(filter(None, (*self.inputs, *(name for body in self.bodies.values() for name in body.free))))


class Info(NamedTuple):
    """What is known of a tensor before it is: its type by onnx's number, and its shape.

    No code: nothing is known; 0: it is none, but a sequence or an optional, and `kind` the TypeProto.
    No shape: not even the number of its axes.
    """

    code: int | None = None
    shape: tuple[int | None, ...] | None = None
    kind: bytes = b""

    @property
    def is_tensor(self) -> bool:
        return bool(self.code)


@dataclass(frozen=True, eq=False)
class Body:
    """A subgraph of a node; `infos` and `input_infos` are what it says of its outputs and inputs."""

    inputs: tuple[str, ...]
    arrays: Mapping[str, Array]
    nodes: tuple[OnnxNode, ...]
    outputs: tuple[str, ...]
    infos: tuple[Info, ...]
    input_infos: tuple[Info, ...]

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


@dataclass(frozen=True, eq=False)
class Measured:
    """What a node computes of sizes that are known at the call only.

    Attributes:
        numbers: those that are known, and ones in place of the others.
        unknown: where these are.
        is_open: its own sizes are not known either, only the number of its axes.
    """

    node: OnnxNode
    numbers: Array
    unknown: Array
    is_open: bool

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (None,) * self.numbers.ndim if self.is_open else self.numbers.shape

    @property
    def dtype(self) -> Any:
        return self.numbers.dtype


# a tensor: also what is computed of sizes
Item = Operand | Measured
