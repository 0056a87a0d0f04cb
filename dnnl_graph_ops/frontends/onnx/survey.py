"""Defines Survey, the report of which backend runs each node of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ...graph import Node
from ...words import counted
from ..reading.deferred import Late
from ..reading.node import Tensor


class Fate(Enum):
    """The backend that runs a node."""

    GRAPH = "ops of a graph"
    KNOWN = "known when the model is read"
    SIZES = "built of sizes, at the first call of each shape"
    LATER = "built at a call, which tells the ranks"
    BODIES = "a graph for each subgraph"
    NUMPY = "NumPy"
    REFERENCE = "onnx.reference"
    BEHIND = "unknown, after what is missing"
    NOTHING = "nothing"


# remarks next to the names
_REMARKS = {Fate.NUMPY: ", on the host", Fate.REFERENCE: ", on the host: slow"}


def fate_of(nodes: Sequence[Node], found: Sequence[Tensor]) -> Fate:
    """Returns the fate of a model's node from its graph nodes and results."""
    late = [node.late for node in nodes if isinstance(node.late, Late)]
    for one in late:
        if one.by:
            return Fate(one.by)
    if late or any(item.unknown is not None for item in found):
        return Fate.SIZES
    return Fate.KNOWN if all(item.numbers is not None for item in found) else Fate.GRAPH


@dataclass(frozen=True)
class Survey:
    """The backends of a model's nodes by operator, and the unsupported operators. `str()` is a table."""

    nodes: tuple[tuple[str, Fate], ...]
    problems: tuple[str, ...]

    def __str__(self) -> str:
        counts = Counter(fate for _, fate in self.nodes)
        lines = [f"ONNX model of {counted(len(self.nodes), 'node')}"]
        width = max((len(_title(fate)) for fate in counts), default=0)
        for fate in filter(counts.get, Fate):
            kinds = Counter(kind for kind, one in self.nodes if one is fate)
            listed = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
            lines.append(f"  {_title(fate):{width}} {counts[fate]:6}  {listed}")
        if self.problems:
            lines += ["missing:", *(f"  {problem}" for problem in self.problems)]
        return "\n".join(lines)


def _title(fate: Fate) -> str:
    return fate.value + _REMARKS.get(fate, "")
