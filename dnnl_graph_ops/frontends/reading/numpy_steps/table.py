"""The table of operators that NumPy computes: function, bound on bytes, inputs that determine shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import Error
from ....runtime.control_groups import process_limit
from ..node import OnnxNode

# a node and its inputs, None if left out; a result, or a tuple of results
Compute = Callable[[OnnxNode, Sequence[Any]], Any]
Size = Callable[[OnnxNode, Sequence[Any]], int]


def nothing(_: OnnxNode, __: Sequence[Any]) -> int:
    return 0


@dataclass(frozen=True)
class Row:
    """The NumPy step of an operator.

    Attributes:
        compute: returns the results; None: onnx.reference computes them.
        size: a bound of the bytes computed beyond a few times the inputs, or of all bytes if it `folds`; known before
            the step runs.
        sizing: inputs whose elements determine the shape of a result.
        folds: whether it is computed while the model is read if its inputs are known.
        moves: whether its result consists of elements of the first input.
        keeping: returns `compute` for constant operands, by their indices, which are packed once.
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
    """Enters a function into the table."""

    def enter(function: Compute) -> Compute:
        ROWS.update(dict.fromkeys(op_types, Row(function, **columns)))
        return function

    return enter


def row_of(node: OnnxNode) -> Row | None:
    return None if node.domain else ROWS.get(node.op_type)


def needed(node: OnnxNode, inputs: Sequence[Any]) -> int:
    """Returns the bytes beyond a few times the inputs."""
    row = row_of(node)
    return 0 if row is None else row.size(node, inputs)


def bound(node: OnnxNode, inputs: Sequence[Any]) -> None:
    """Raises for a result that exceeds the memory, before it is computed.

    Raises:
        Error: more bytes than the process may have.
    """
    size = needed(node, inputs)
    if size > process_limit():
        raise Error(f"{node.where}: needs {size} bytes, of which this process may have {process_limit()}")
