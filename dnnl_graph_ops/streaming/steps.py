"""Graphs of single steps: a net on a chunk of its inputs and on what the step before has kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compile import selection
from ..errors import UnsupportedError
from ..graph import Graph, Node, Value
from ..graph.value import Late
from ..net.net import made
from ..schema import OPS
from ..shapes import Meta, checked
from .flow import Flow, State
from .motion import Motion

if TYPE_CHECKING:
    from ..net.net import Net

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Step:
    """A compiled step.

    Attributes:
        net: computes it; None if nothing is left to compute.
        reads: names of the net's inputs in order: of the chunk's inputs, of the others, and of what was kept.
        gives: for each output of the streamed net whether there are new samples, which the net returns first.
        keeps: names of what the net returns after these, for the next step.
    """

    net: Net | None
    reads: tuple[str, ...]
    gives: tuple[bool, ...]
    keeps: tuple[str, ...]

    def run(self, arrays: Mapping[str, Array]) -> tuple[list[Array | None], dict[str, Array]]:
        """Returns the new samples of each output, and what to keep, of arrays by name."""
        if self.net is None:
            return [None] * len(self.gives), {}
        results = self.net(*(arrays[name] for name in self.reads))
        rest = iter(results if isinstance(results, tuple) else (results,))
        new = [next(rest) if given else None for given in self.gives]
        return new, dict(zip(self.keeps, rest, strict=True))


def name_of_kept(value: Value) -> str:
    return f"kept {value.name}"


def step(net: Net, flow: Flow, shapes: Mapping[Value, Sequence[int]], before: State | None, after: State) -> Step:
    """Compiles the step that leads from one state to another; None: from the begin of the stream.

    `shapes`: of all values, for any length of the stream.
    """
    return _Builder(net, flow, shapes, before, after).built()


@dataclass
class _Builder:
    net: Net
    flow: Flow
    shapes: Mapping[Value, Sequence[int]]
    before: State | None
    after: State
    graph: Graph = field(init=False)
    # new samples of values that run along the axis; other values of the net as values of the graph
    new: dict[Value, Value] = field(default_factory=dict)
    fixed: dict[Value, Value] = field(default_factory=dict)
    # what there is of values that run along the axis, and the position of its begin
    full: dict[Value, tuple[Value, int]] = field(default_factory=dict)
    cuts: dict[tuple[Value, int, int, int], Value] = field(default_factory=dict)
    carried: dict[str, Value] = field(default_factory=dict)

    def built(self) -> Step:
        net, flow = self.net, self.flow
        graph = self.graph = Graph(net.engine, fpmath_mode=net.graph.fpmath_mode, name=net.graph.name)
        graph._promise(node.name for node in net._nodes)
        for value in flow.inputs:
            if size := self.end(value) - self.begin(value):
                self.new[value] = graph.input(value.name, self.sized(value, size), value.dtype)
        for node, motion in flow.motions.items():
            result = node.outputs[0]
            begin, end = self.begin(result), self.end(result)
            if end > begin:
                part = _Part(self, node, motion, begin, end, self.before is None, self.after.ended)
                self.new[result] = motion.build(part)[0]
        returned = [self.new.get(value) for value in net.outputs.values()]
        results = {f"{i}": value for i, value in enumerate(returned) if value is not None}
        count = len(results)
        if not self.after.ended:
            results |= {name_of_kept(value): self.edge(value) for value in flow.axes if self.keeps(self.after, value)}
            results |= self.carried
        compiled = self.compiled(results) if results else None
        return Step(
            compiled,
            () if compiled is None else compiled.input_names,
            tuple(value is not None for value in returned),
            tuple(results)[count:],
        )

    def compiled(self, results: Mapping[str, Value]) -> Net:
        options = self.net._options
        return made(
            self.graph,
            dict(results),
            replace(options, algorithms=selection.of_nodes(options.algorithms, self.graph.nodes)),
        )

    # -- values along the axis ------------------------------------------------------------------------------

    def begin(self, value: Value) -> int:
        """Returns the position of the first new sample of a value."""
        return 0 if self.before is None else self.before.made[value]

    def end(self, value: Value) -> int:
        return self.after.made[value]

    @staticmethod
    def keeps(state: State, value: Value) -> bool:
        return state.kept[value] < state.made[value]

    def sized(self, value: Value, samples: int) -> list[int]:
        """Returns the shape of this many samples of a value."""
        shape = list(self.shapes[value])
        shape[self.flow.axes[value]] = samples
        return shape

    def whole(self, value: Value) -> tuple[Value, int]:
        """Returns what there is of a value, kept and new, and the position of its begin."""
        if value not in self.full:
            parts, begin, before = [], self.begin(value), self.before
            if before is not None and self.keeps(before, value):
                begin = before.kept[value]
                shape = self.sized(value, before.made[value] - begin)
                parts.append(self.graph.input(name_of_kept(value), shape, value.dtype))
            if value in self.new:
                parts.append(self.new[value])
            axis = self.flow.axes[value]
            self.full[value] = (parts[0] if len(parts) == 1 else self.op("Concat", parts, {"axis": axis})[0], begin)
        return self.full[value]

    def read(self, value: Value, begin: int, end: int) -> tuple[Value, int, int]:
        """Returns what there is of these samples, and how many are missing before it and after it."""
        whole, start = self.whole(value)
        stop = self.end(value)
        left, right = max(start - begin, 0), max(end - stop, 0)
        if begin + left >= end - right:
            raise UnsupportedError(
                f"{self.net!r}.stream: needs samples {begin} to {end} of {value.name!r}, and has none"
            )
        return self.cut(whole, self.flow.axes[value], begin + left - start, end - right - start), left, right

    def edge(self, value: Value) -> Value:
        """Returns the samples of a value that the next step needs; zeros before the begin of the stream."""
        kept, left, _ = self.read(value, self.after.kept[value], self.end(value))
        if not left:
            return kept
        before = [left * (axis == self.flow.axes[value]) for axis in range(value.ndim)]
        pads = {"pads_begin": before, "pads_end": [0] * value.ndim, "mode": "constant", "value": 0.0}
        return self.op("Pad", [kept], pads)[0]

    def cut(self, value: Value, axis: int, begin: int, end: int) -> Value:
        if (begin, end) == (0, value.shape[axis]):
            return value
        key = value, axis, begin, end
        if key not in self.cuts:
            attrs = {"starts": [begin], "ends": [end], "axes": [axis], "steps": [1]}
            (self.cuts[key],) = self.op("Slice", [value], attrs)
        return self.cuts[key]

    # -- other values -----------------------------------------------------------------------------------------

    def value(self, value: Value) -> Value:
        """Returns a value that is the same for all chunks."""
        if value not in self.fixed:
            if value._held is not None:
                self.fixed[value] = self.graph._keep(value._held, value.name)
            elif value.node is None:
                self.fixed[value] = self.graph.input(value.name, self.shapes[value], value.dtype)
            else:
                node = value.node
                inputs = [self.value(one) for one in node.inputs]
                if node.late is not None:
                    metas = [Meta(tuple(self.shapes[one]), one.dtype) for one in node.outputs]
                    results = self.late(node, node.late, inputs, metas)
                else:
                    results = self.op(node.kind, inputs, node.attrs, node)
                self.fixed |= zip(node.outputs, results, strict=True)
        return self.fixed[value]

    def op(
        self, kind: str, inputs: Sequence[Value], attrs: Mapping[str, Any], node: Node | None = None
    ) -> tuple[Value, ...]:
        """Appends an op, one for `node` if it is passed."""
        label = kind if node is None else f"{node.kind} {node.name!r}"
        dtype, count = (None, None) if node is None else (node.outputs[0].dtype, len(node.outputs))
        metas = [value._meta for value in inputs]
        known, results = checked(kind, metas, attrs, label, dtype=dtype, outputs=count)
        slots = [slot.name for slot in OPS[kind].outputs[: len(results)]]
        name = OPS[kind].builder if node is None else node.name
        return self.graph._add_node(kind, label, inputs, known, results, slots, None, name)

    def late(self, node: Node, late: Late, inputs: Sequence[Value], metas: Sequence[Meta]) -> tuple[Value, ...]:
        slots = [f"dst_{i}" for i in range(len(metas))]
        return self.graph._add_node(
            "Wildcard", f"Wildcard {node.name!r}", inputs, {}, metas, slots, None, node.name, late
        )


@dataclass(frozen=True)
class _Part:
    """An op of a step, as its motion sees it."""

    builder: _Builder
    node: Node
    motion: Motion
    begin: int
    end: int
    first: bool
    last: bool

    @property
    def count(self) -> int:
        return len(self.node.inputs)

    def known(self, index: int) -> int:
        return self.builder.end(self.node.inputs[index])

    def read(self, index: int, begin: int, end: int) -> tuple[Value, int, int]:
        return self.builder.read(self.node.inputs[index], begin, end)

    def window(self, index: int, begin: int, end: int) -> Value:
        value, left, right = self.read(index, begin, end)
        if left or right:
            raise UnsupportedError(
                f"{self.builder.net!r}.stream: {self.node.kind} {self.node.name!r} needs samples {begin} to {end} of "
                f"{self.node.inputs[index].name!r}, of which {left + right} are not there"
            )
        return value

    def operand(self, index: int) -> Value:
        return self.builder.value(self.node.inputs[index])

    def add(
        self, inputs: Sequence[Value], attrs: Mapping[str, Any] | None = None, kind: str | None = None
    ) -> tuple[Value, ...]:
        if kind is not None:
            return self.builder.op(kind, inputs, attrs or {})
        return self.builder.op(self.node.kind, inputs, self.node.attrs if attrs is None else attrs, self.node)

    def late(self, late: Late, inputs: Sequence[Value], metas: Sequence[Meta]) -> tuple[Value, ...]:
        return self.builder.late(self.node, late, inputs, metas)

    def cut(self, value: Value, axis: int, begin: int, end: int) -> Value:
        return self.builder.cut(value, axis, begin, end)

    def shape(self, samples: int) -> list[int]:
        return self.builder.sized(self.node.outputs[0], samples)

    def sizes(self) -> Sequence[Sequence[int]]:
        return [self.builder.shapes[value] for value in self.node.inputs]

    def carried(self, metas: Sequence[Meta]) -> Sequence[Value]:
        if self.first:
            return ()
        graph = self.builder.graph
        return [graph.input(self._state(i), meta.shape, meta.dtype) for i, meta in enumerate(metas)]

    def carry(self, values: Sequence[Value]) -> None:
        self.builder.carried |= {self._state(i): value for i, value in enumerate(values)}

    def _state(self, index: int) -> str:
        return f"state {index} of {self.node.name}"
