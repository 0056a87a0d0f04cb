"""Sections of a model: nodes as a function of tensors, built once the tensors' sizes are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...graph.array_file import field
from ...graph.constants import Constant
from . import records
from .budget import Budget
from .node import Array, OnnxNode, flat

_FEW_BYTES = 4096


@dataclass(eq=False)
class Section:
    """Nodes in order and known arrays; `budget`: bytes that may be computed while they are built."""

    name: str
    inputs: tuple[str, ...]
    arrays: Mapping[str, Array]
    nodes: tuple[OnnxNode, ...]
    outputs: tuple[str, ...]
    budget: int

    def record(self, keep: records.Keep) -> dict[str, Any]:
        """Returns the section as a record for JSON; `keep` numbers arrays that are stored next to it."""
        return {
            "name": self.name,
            "inputs": self.inputs,
            "arrays": records.of_items(self.arrays, keep),
            "nodes": records.of_nodes(self.nodes, keep),
            "outputs": self.outputs,
        }


class Lent(Mapping[str, Array]):
    """Arrays by name; large arrays of a file are released once they were asked for, and read again when needed."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._held = {name: Constant(array) if array.nbytes > _FEW_BYTES else array for name, array in arrays.items()}

    def __getitem__(self, name: str) -> Array:
        held = self._held[name]
        if not isinstance(held, Constant):
            return held
        array = held.array
        held.let_go()
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def section_of(record: Any, kept: records.Kept, where: str) -> Section:
    """Returns the section of a record; `kept` returns a numbered array by dtype and shape.

    Raises:
        InvalidArgumentError: another record.
    """
    nodes = records.nodes_of(field(record, "nodes", list, where), kept, where)
    arrays = records.arrays_of(record.get("arrays"), kept, where)
    inputs, outputs = (records.names_of(record, key, where) for key in ("inputs", "outputs"))
    budget = Budget(own_bytes(arrays, nodes)).total
    return Section(field(record, "name", str, where), inputs, arrays, nodes, outputs, budget)


def own_bytes(arrays: Mapping[str, Array], nodes: Iterable[OnnxNode]) -> int:
    """Returns the bytes of arrays, including arrays in nodes and their subgraphs."""
    parts = [arrays]
    for node in flat(nodes):
        parts += [node.attrs, *[body.arrays for body in node.bodies.values()]]
    return sum([item.nbytes for part in parts for item in part.values() if isinstance(item, np.ndarray)])
