"""One node of a model, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...graph import Value

Array = np.ndarray[Any, Any]
# a tensor: of the graph, or known as the model is read
Operand = Value | Array


@dataclass(frozen=True)
class Reference:
    """An attribute of a node in a function: the attribute of the call that has this name."""

    name: str


@dataclass(frozen=True)
class OnnxNode:
    """One node. An attribute value is an int, a float, a str, a list of these, an array, or a Reference; else None.

    `opset` is the version of the standard operators that it was written for.
    """

    name: str
    op_type: str
    domain: str
    overload: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"ONNX node {self.name[:80]!r} ({self.op_type[:80]})"

    @property
    def identity(self) -> tuple[str, str, str]:
        """What a function must be named for the node to be a call of it."""
        return self.domain, self.op_type, self.overload


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


class NeedsSizes(UnsupportedError):
    """A node can be built when the sizes are known."""
