"""A graph of ONNX Runtime: the nodes that a provider may claim, as the ONNX front end reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Error
from ..frontends.onnx.model import LARGE_BYTES, Model, assembled
from ..frontends.reading.node import Array, OnnxNode, Tensor
from ..frontends.reading.numpy_steps.pooling import windows
from ..frontends.reading.types import NUMPY
from ..graph.constants import from_piece
from ..graph.files import Pages, adjacent
from ..once import once

_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
# a node as native code describes it: name, operator, domain, inputs, inputs of subgraphs, outputs, attributes
Described = tuple[str, str, str, tuple[str, ...], tuple[str, ...], tuple[str, ...], Mapping[str, Any]]
# the facts of a value: ONNX's number of the element type, shape, and the elements of a constant
Facts = tuple[int, "tuple[int | None, ...] | None", "memoryview | bytes | None"]


def array_of(facts: Facts) -> Array:
    """Returns a copy of the elements of a constant."""
    return arrays_of([facts])[0]


def arrays_of(constants: Sequence[Facts]) -> list[Array]:
    """Returns copies of the elements of constants; they never change, so that graphs take them as they are."""
    data = [memoryview(data or b"").cast("B") for _, _, data in constants]
    large = [i for i, part in enumerate(data) if part.nbytes >= LARGE_BYTES]
    copies: list[Pages | bytes] = [b"" if part.nbytes >= LARGE_BYTES else bytes(part) for part in data]
    for i, pages in zip(large, adjacent(Pages, [data[i].nbytes for i in large]), strict=True):
        pages.write(data[i])
        copies[i] = pages
    return [
        from_piece(copy, NUMPY[code], tuple(dim or 0 for dim in shape or ()))
        for copy, (code, shape, _) in zip(copies, constants, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class SessionGraph:
    """Nodes in order, with positions as their numbers; valid while ONNX Runtime's call lasts.

    Attributes:
        nodes: as native code describes them.
        opsets: {domain: version of its operators}.
        outputs: names of the graph's outputs.
        values: the facts of every value.
        is_body: whether it is the body of an If, Loop or Scan.
    """

    nodes: Sequence[Described]
    opsets: Mapping[str, int]
    outputs: Sequence[str]
    values: Mapping[str, Facts]
    is_body: bool

    @once
    def producers(self) -> dict[str, int]:
        """The node that makes each value."""
        return {name: i for i, node in enumerate(self.nodes) for name in node[5] if name}

    @once
    def readers(self) -> dict[str, set[int]]:
        """The nodes that read each value; -1 for the graph's outputs."""
        found: dict[str, set[int]] = {name: {-1} for name in self.outputs}
        for i, node in enumerate(self.nodes):
            for name in filter(None, (*node[3], *node[4])):
                found.setdefault(name, set()).add(i)
        return found

    def is_known(self, name: str) -> bool:
        """Whether a value is a constant."""
        return self.values[name][2] is not None

    def is_readable(self, number: int) -> bool:
        """Whether the front end may read a node: it has no subgraph, and all its values are tensors of known types."""
        _, _, _, inputs, implied, outputs, attrs = self.nodes[number]
        return (
            not implied
            and None not in attrs.values()
            and all(self.values[name][0] in NUMPY for name in (*inputs, *outputs) if name)
        )

    def node(self, number: int) -> OnnxNode:
        """Returns a node as the front end reads it."""
        name, kind, domain, inputs, _, outputs, attrs = self.nodes[number]
        domain = "" if domain == "ai.onnx" else domain
        opset = self.opsets.get(domain) or self.opsets.get("", 1)
        read = {key: array_of(value) if isinstance(value, tuple) else value for key, value in attrs.items()}
        title = name or next(filter(None, outputs), kind)
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        while outputs and not outputs[-1]:
            outputs = outputs[:-1]
        return OnnxNode(title, kind, domain, "", opset, tuple(inputs), tuple(outputs), read)

    def produced(self, numbers: Iterable[int]) -> list[str]:
        """Returns the names of the values that nodes make."""
        return [name for i in numbers for name in self.nodes[i][5] if name]

    def results(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """Returns the values that nodes make for others, or for the graph's outputs."""
        inside = set(numbers)
        return tuple(name for name in self.produced(numbers) if not self.readers.get(name, set()) <= inside)

    @once
    def misjudged(self) -> set[str]:
        """The values whose inferred shapes calls contradict: of windows that begin beyond the data, and behind them."""
        names: set[str] = set()
        for i, (_, kind, _, inputs, implied, outputs, attrs) in enumerate(self.nodes):
            if not names.isdisjoint((*inputs, *implied)) or (
                kind in _POOLS and attrs.get("ceil_mode") and self._counts(i) not in (None, self.values[outputs[0]][1])
            ):
                names.update(filter(None, outputs))
        return names

    def _counts(self, number: int) -> tuple[int, ...] | None:
        """Returns the shape of what a pooling makes; None where it is unknown."""
        node = self.node(number)
        shape = self.values[node.inputs[0]][1] or ()
        sizes = tuple(dim for dim in shape if dim is not None)
        if len(sizes) < len(shape) or not sizes:
            return None
        try:
            return sizes[:2] + windows(node, sizes[2:], node.attrs["kernel_shape"]).counts
        except Error:
            return None

    def vague(self, numbers: Sequence[int]) -> set[int]:
        """Returns the nodes that read, of others, values of unknown shape.

        Values that may have any rank look like numbers of no axes. Where inference says 0, a call may have elements:
        NonZero of a number.
        """
        made = set(self.produced(numbers))

        def is_vague(name: str) -> bool:
            shape = self.values[name][1] if name else ()
            unknown = not shape or 0 in shape or name in self.misjudged
            return bool(name) and name not in made and not self.is_known(name) and unknown

        return {i for i in numbers if any(map(is_vague, self.nodes[i][3]))}

    def model(self, numbers: Sequence[int], outputs: Sequence[str], name: str) -> Model:
        """Returns nodes as a model whose inputs are what they read of others, and no constants.

        Raises:
            Error: as `from_onnx`.
        """
        nodes = [self.node(i) for i in numbers]
        made = set(self.produced(numbers))
        reads = dict.fromkeys(name for node in nodes for name in node.reads if name not in made)
        known = [name for name in reads if self.is_known(name)]
        arrays = dict(zip(known, arrays_of([self.values[name] for name in known]), strict=True))
        inputs = {name: Tensor(*self.values[name][:2]) for name in reads if name not in arrays}
        return assembled(name, nodes, arrays, inputs, outputs, self.opsets.get("", 1))
