"""Which nodes run together: the library's own partitioning of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .. import _core, dtypes, schema
from ..graph import Node, Value
from ..lowering.env import Env
from ..lowering.family import DIRECTIONS, literal_op
from ..lowering.program import Buffer, Place, View
from ..runtime.engines import KINDS, Engine
from ..shapes import native_attrs
from ..strides import dense_strides
from .native import FPMATH, fresh_id, native_op

POLICIES = {"fusion": _core.PartitionPolicy.fusion, "debug": _core.PartitionPolicy.debug}

_END = schema.OPS["End"].inputs[0].dtypes
_NATIVE_KIND = {"ConvTransposeBackpropFilters": "ConvTransposeBackwardWeights"}


@dataclass(frozen=True)
class Group:
    """Nodes that run together, in topological order; not supported: none of the library's kernels runs them."""

    nodes: tuple[Node, ...]
    supported: bool = True

    @property
    def outputs(self) -> tuple[Value, ...]:
        return tuple(value for node in self.nodes for value in node.outputs)


def reachable(outputs: Sequence[Value]) -> tuple[list[Node], list[Value]]:
    """Nodes in topological order and the graph inputs and constants that the outputs depend on."""
    nodes: list[Node] = []
    leaves: dict[Value, None] = {}
    seen: set[Node] = set()
    stack: list[tuple[Value, bool]] = [(value, False) for value in reversed(outputs)]
    while stack:
        value, done = stack.pop()
        node = value.node
        if node is None:
            leaves.setdefault(value)
        elif done:
            if node not in seen:
                seen.add(node)
                nodes.append(node)
        elif node not in seen:
            stack.append((value, True))
            stack.extend((item, False) for item in reversed(node.inputs))
    return nodes, list(leaves)


@dataclass(frozen=True)
class _Op:
    """A node as the pattern matcher sees it: kinds, attributes and edges count, sizes do not."""

    kind: str
    attrs: tuple[tuple[str, Any], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class _Structure:
    """A graph without sizes: ops on numbered tensors, (dtype, constant) of each, and those that leave the graph."""

    ops: tuple[_Op, ...]
    tensors: tuple[tuple[str, bool], ...]
    ends: tuple[int, ...]


def group(nodes: Sequence[Node], outputs: Sequence[Value], env: Env, policy: str, runs: Any) -> list[Group]:
    """Partition the nodes as the library does. `runs(node)` tells whether the library has a kernel for it."""
    supported = [runs(node) for node in nodes]
    if len(nodes) == 1:
        return [Group((nodes[0],), supported[0])]
    structure = _structure(nodes, outputs, env, supported)
    return ordered(
        [
            Group(tuple(nodes[i] for i in members), all(supported[i] for i in members))
            for members in _partitions(env.engine, env.fpmath_mode, policy, structure)
        ]
    )


def _structure(nodes: Sequence[Node], outputs: Sequence[Value], env: Env, supported: Sequence[bool]) -> _Structure:
    numbers: dict[Value, int] = {}

    def number(value: Value) -> int:
        return numbers.setdefault(value, len(numbers))

    ops = []
    for node, native in zip(nodes, supported, strict=True):
        kind = _NATIVE_KIND.get(node.kind, node.kind) if native else "Wildcard"
        attrs = tuple(sorted(_proxy_attributes(node, env).items())) if native else ()
        ops.append(_Op(kind, attrs, tuple(map(number, node.inputs)), tuple(map(number, node.outputs))))
    tensors = tuple((env.compute_dtype(value.dtype), value.constant is not None) for value in numbers)
    leaving = [v for v in dict.fromkeys(outputs) if v.node is not None and env.compute_dtype(v.dtype) in _END]
    return _Structure(tuple(ops), tensors, tuple(map(number, leaving)))


@lru_cache(256)
def _partitions(engine: Engine, fpmath_mode: str, policy: str, structure: _Structure) -> tuple[tuple[int, ...], ...]:
    """The members of each partition by number. The matcher takes 4 ms in oneDNN 3.2 whatever the graph, hence once."""
    graph = _core.Graph(engine.runtime.library, KINDS[engine.kind], FPMATH[fpmath_mode])
    tensors = [
        _core.LogicalTensor(
            fresh_id(),
            dtypes.CODES[dtype],
            None,
            property=_core.TensorProperty.constant if constant else _core.TensorProperty.variable,
        )
        for dtype, constant in structure.tensors
    ]
    by_id: dict[int, int] = {}
    for index, item in enumerate(structure.ops):
        ins, outs = ([tensors[i] for i in some] for some in (item.inputs, item.outputs))
        op = native_op(engine, item.kind, dict(item.attrs), item.kind, ins, outs)
        by_id[op.id] = index
        graph.add_op(op)
    for index in structure.ends:
        graph.add_op(native_op(engine, "End", {}, "end", [tensors[index]], []))
    graph.finalize()
    graph.filter(POLICIES[policy])
    found = (tuple(sorted(by_id[i] for i in partition.op_ids if i in by_id)) for partition in graph.partitions())
    return tuple(members for members in found if members)


def ordered(groups: Sequence[Group]) -> list[Group]:
    """Groups in an order in which every value is made before it is used; as given where that is free."""
    producer = {value: i for i, item in enumerate(groups) for value in item.outputs}
    placed: list[Group] = []
    state: dict[int, int] = {}
    for start in range(len(groups)):
        stack = [start]
        while stack:
            i = stack[-1]
            if state.get(i) == 2:
                stack.pop()
                continue
            state[i] = 1
            needed = {
                producer[value]
                for node in groups[i].nodes
                for value in node.inputs
                if value in producer and producer[value] != i and state.get(producer[value]) != 2
            }
            if needed:
                if any(state.get(n) == 1 for n in needed):
                    raise RuntimeError("the library's partitions depend on each other in a circle")
                stack.extend(sorted(needed, reverse=True))
                continue
            state[i] = 2
            placed.append(groups[i])
            stack.pop()
    return placed


def _proxy_attributes(node: Node, env: Env) -> Mapping[str, Any]:
    if node.kind not in DIRECTIONS:
        # sizes do not matter here, and may not be known yet
        return {
            name: tuple(1 if item is None else item for item in value) if isinstance(value, tuple) else value
            for name, value in native_attributes(node, env).items()
        }
    ones = (1,) * (len(node.inputs[0].shape) - 2)
    zeros = (0,) * len(ones)
    return {"strides": ones, "pads_begin": zeros, "pads_end": zeros, "dilations": ones}


def native_attributes(node: Node, env: Env) -> dict[str, Any]:
    """A node's attributes as this version of the library takes them."""
    if node.kind in DIRECTIONS:
        return dict(literal_attributes(node) or {})
    ins, outs = ([value.meta for value in values] for values in (node.inputs, node.outputs))
    return native_attrs(node.kind, node.attrs, ins, outs, env.version)


def literal_attributes(node: Node) -> Mapping[str, Any] | None:
    """Attributes of a family op between other ops of a group; None where the library does not take it as it is."""

    def stand_in(value: Value) -> View:
        shape = tuple(map(int, value.shape))  # type: ignore[arg-type]
        return View(Buffer(Place.SCRATCH, value.dtype, 0), shape, dense_strides(shape))

    inputs = [stand_in(value) for value in node.inputs]
    op = literal_op(node.kind, node.attrs, inputs, stand_in(node.outputs[0]))
    return None if op is None or tuple(op.inputs) != tuple(inputs) else op.attrs
