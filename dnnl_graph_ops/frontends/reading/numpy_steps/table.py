"""The table of operators that NumPy computes: function, bound on bytes, inputs that tell shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import Error
from ....runtime.memory_limit import process_limit
from ..node import OnnxNode

# a node and its inputs, None for those left out; one result, or a tuple of several
Compute = Callable[[OnnxNode, Sequence[Any]], Any]
Size = Callable[[OnnxNode, Sequence[Any]], int]


def nothing(_: OnnxNode, __: Sequence[Any]) -> int:
    return 0


@dataclass(frozen=True)
class Row:
    """How an operator is computed.

    Attributes:
        compute: gives its results; None: onnx.reference does.
        size: a bound of the bytes that this makes beyond a few times the inputs, or all that it makes and reads where
            it `folds`; known beforehand.
        sizing: inputs whose numbers tell the shape of a result.
        folds: whether it is computed as the model is read wherever its inputs are known.
        moves: whether its result is made of elements of the first input.
        keeping: gives `compute` of the operands that never change, by their indices: what is made of them is made once.
    """

    compute: Compute | None
    size: Size = nothing
    sizing: tuple[int, ...] = ()
    folds: bool = False
    moves: bool = False
    keeping: Callable[[Sequence[int]], Compute] | None = None

    def run(self, node: OnnxNode, inputs: Sequence[Any]) -> Any:
        return self.compute(node, inputs)  # type: ignore[misc]


ROWS: dict[str, Row] = {}


def computes(*op_types: str, **columns: Any) -> Callable[[Compute], Compute]:
    """Enter a function into the table."""

    def enter(function: Compute) -> Compute:
        ROWS.update(dict.fromkeys(op_types, Row(function, **columns)))
        return function

    return enter


def row_of(node: OnnxNode) -> Row | None:
    return None if node.domain else ROWS.get(node.op_type)


def needed(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """Bytes, as far as they are more than what a few times the inputs take."""
    row = row_of(node)
    return 0 if row is None else row.size(node, inputs)


def bound(node: OnnxNode, inputs: Sequence[Any]) -> None:
    """Refuse what this machine cannot hold, before it is made.

    Raises:
        Error: it is more than the process may have.
    """
    size = needed(node, inputs)
    if size > process_limit():
        raise Error(f"{node.where}: needs {size} bytes, of which this process may have {process_limit()}")
