"""Builds the objects of graph_api (graph, ops, compiled partitions) that describe a net's plans, as copies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from ..compile.plan import Plan
from ..graph_api import compiled_partition, engine, graph, logical_tensor, op, partition
from ..graph_api.engines import wrapped
from ..onednn.partition import Compiled
from ..onednn.partition import logical_tensor as native_tensor
from ..program.program import HostStep, KernelStep, NativeOp, Operand
from ..runtime.engines import Engine


class GraphObjects(NamedTuple):
    """The result of `Net.graph_api`.

    graph: the plan used last as one graph, finalized. Ops of the library's partitions are in the graph as the library
    got them; a step of builtin code is a Wildcard op, named for the kernel or function that computes the step.
    compiled_partitions: those of all plans that the net has now, in the order of their steps. Logical tensors of the
    plan used last have the same ids as in `graph`.
    """

    graph: graph
    compiled_partitions: list[compiled_partition]


def objects(last: Sequence[Plan], others: Sequence[Plan], on: Engine, fpmath_mode: str) -> GraphObjects:
    """Returns the objects of all plans; the ops of the plans in `last` make up the graph."""
    shared = wrapped(on)
    ids = itertools.count()
    whole = _graph(shared, fpmath_mode)
    compiled: list[compiled_partition] = []
    for number, plan in enumerate((*others, *last)):
        tensors = _Tensors(ids)
        for part in plan.parts:
            if isinstance(part, Compiled):
                ops = [_op(each, tensors, part.baked, next(ids)) for each in part.step.ops]
                compiled += _compiled(part, ops, shared)
            else:
                ops = [_wildcard(part, tensors, next(ids))]
            for each in ops if number >= len(others) else ():
                whole.add_op(each)
    whole.finalize()
    return GraphObjects(whole, compiled)


def _graph(shared: engine, fpmath_mode: str) -> graph:
    return graph(shared.get_kind(), graph.fpmath_mode[fpmath_mode], runtime=shared._runtime)


class _Tensors:
    """Logical tensors of the operands of a plan's steps; an operand gets a new id whenever a step writes it."""

    def __init__(self, ids: itertools.count[int]) -> None:
        self._ids = ids
        self._known: dict[Operand, logical_tensor] = {}

    def read(self, operand: Operand, baked: bool = True) -> logical_tensor:
        return self._known[operand] if operand in self._known else self.written(operand, baked)

    def written(self, operand: Operand, baked: bool = False) -> logical_tensor:
        self._known[operand] = logical_tensor._of(native_tensor(operand, next(self._ids), baked))
        return self._known[operand]


def _op(each: NativeOp, tensors: _Tensors, baked: bool, number: int) -> op:
    inputs = [tensors.read(operand, baked) for operand in each.inputs]
    made = op(number, op.kind[each.kind], inputs, [tensors.written(o) for o in each.outputs], each.name or each.kind)
    for name, value in each.attrs.items():
        made.set_attr(op.attr[name], value)
    return made


def _wildcard(part: KernelStep | HostStep, tensors: _Tensors, number: int) -> op:
    computes = part.by if isinstance(part, HostStep) else part.kernel.name
    inputs, outputs = list(map(tensors.read, part.reads)), list(map(tensors.written, part.writes))
    return op(number, op.kind.Wildcard, inputs, outputs, f"{part.label}: {computes}")


def _compiled(part: Compiled, ops: Sequence[op], shared: engine) -> list[compiled_partition]:
    """Compiles the ops of a part once more, as objects of graph_api."""
    apart = _graph(shared, part.fpmath_mode)
    for each in ops:
        apart.add_op(each)
    apart.finalize()
    parts = apart.get_partitions(partition.fusion)
    return [each.compile(each.get_input_ports(), each.get_output_ports(), shared) for each in parts]
