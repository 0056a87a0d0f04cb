"""Answers ONNX Runtime's questions, which native code passes on: which nodes, which nets, which plans."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Error, ShapeError
from ..frontends.onnx.importer import graph_of, surveyed
from ..frontends.onnx.survey import Fate
from ..frontends.reading.types import CODES
from ..graph import Graph
from ..log import logger
from ..net import Net
from ..runtime.settings import PREFIX
from ..words import counted
from .gains import gains, may_gain
from .groups import convex_groups, whole_quantized
from .session_graph import SessionGraph

_log = logger("onnxruntime")
# fates of nodes that a plan computes by kernels
_NATIVE = frozenset({Fate.GRAPH, Fate.KNOWN, Fate.SIZES})
# sizes of unknown dims for which a net is compiled before its nodes are claimed: of the first axis, and of all others
_TRIALS = ((1, 64), (1, 256), (64, 64), (1, 1))
# how often a group is divided anew without the nodes that only NumPy computes
_MOST_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class Claim:
    """Nodes that a provider has claimed: the values that they make, and their net."""

    makes: frozenset[str]
    net: Net[Any]


def claimed(described: Mapping[str, Any], claims: list[Claim]) -> list[list[int]]:
    """Returns the groups of nodes of a graph that the provider computes, as numbers; appends their claims."""
    graph, mode = SessionGraph(**described), os.environ.get(f"{PREFIX}EP", "wins")
    if graph.is_body:
        # bodies next to each other may use the same names, by which claims are recognised
        return []
    taken = {name for claim in claims for name in claim.makes}
    free = {i for i in range(len(graph.nodes)) if graph.is_readable(i) and taken.isdisjoint(graph.nodes[i][5])}
    compiled_groups = [*(_single if mode == "all" else _winning)(graph, free)]
    groups = [numbers for numbers, _ in compiled_groups]
    # at once: a call that an interrupt ends is repeated
    claims += [Claim(frozenset(graph.produced(numbers)), net) for numbers, net in compiled_groups]
    if mode == "log":
        _report(graph, groups)
    return groups


def _report(graph: SessionGraph, groups: Sequence[Sequence[int]]) -> None:
    inside = {i for numbers in groups for i in numbers}
    left = sorted({node[1] for i, node in enumerate(graph.nodes) if i not in inside})
    print(
        f"dnnl_graph_ops: claims {len(inside)} of {counted(len(graph.nodes), 'node')} in "
        f"{counted(len(groups), 'group')}; left to ONNX "
        f"Runtime: {', '.join(left) or 'nothing'}",
        file=sys.stderr,
    )


def _single(graph: SessionGraph, free: Collection[int]) -> Iterator[tuple[list[int], Net[Any]]]:
    """Yields every node that plans compute, as a group of its own."""
    for number in sorted(free):
        _, net = _tried(graph, [number])
        if net is not None:
            yield [number], net


def _winning(graph: SessionGraph, free: Collection[int]) -> Iterator[tuple[list[int], Net[Any]]]:
    """Yields the groups that are faster here, first with matrix products, then what remains without these."""
    left = set(free)
    for products in (True, False):
        wanted = {i for i in left if may_gain(graph, i, products)}
        for _ in range(_MOST_ROUNDS):
            wanted = whole_quantized(graph, wanted)
            refused: set[int] = set()
            for numbers in convex_groups(graph, wanted):
                if not gains(graph, numbers):
                    continue
                bad, net = _tried(graph, numbers)
                if net is not None:
                    left.difference_update(numbers)
                    yield numbers, net
                    wanted.difference_update(numbers)
                elif bad:
                    refused |= bad
                else:
                    wanted.difference_update(numbers)
            if not refused:
                break
            wanted -= refused


def _tried(graph: SessionGraph, numbers: Sequence[int]) -> tuple[set[int], Net[Any] | None]:
    """Returns the nodes of a group for which plans have no kernels, and else the group's net; or neither."""
    outputs = graph.results(numbers)
    if not outputs:
        return set(), None
    if vague := graph.vague(numbers):
        return vague, None
    try:
        report, build = surveyed(graph.model(numbers, outputs, _name(graph, numbers)), None)
        fates = [fate for _, fate in report.nodes]
        if not _NATIVE.issuperset(fates):
            if len(fates) != len(numbers):
                return set(), None
            return {i for i, fate in zip(numbers, fates, strict=True) if fate not in {*_NATIVE, Fate.BEHIND}}, None
        net = _compiled_before(build())
        # the memory of results is ONNX Runtime's, of the size that its types say
        fits = net is not None and all(CODES[v.dtype] == graph.values[name][0] for name, v in net.outputs.items())
        return set(), net if fits else None
    except Error as error:
        _log.info("nodes stay in ONNX Runtime: %s", error)
        return set(), None


def _name(graph: SessionGraph, numbers: Sequence[int]) -> str:
    name, kind, *_ = graph.nodes[numbers[0]]
    return (name or kind).replace("\0", "?")


def _compiled_before(graph: Graph) -> Net[Any] | None:
    """Returns the net of a graph; None if no plan of it was compiled, or if one has steps in Python."""
    if type(graph) is not Graph or not graph.inputs or any(value.is_constant for value in graph.outputs.values()):
        return None
    net: Net[Any] = graph.compile()
    for first, others in _TRIALS:
        shapes = [
            tuple((others if axis else first) if dim is None else dim for axis, dim in enumerate(value.shape))
            for value in net.inputs
        ]
        try:
            executor = net._plan_for(shapes)
        except Error:
            # other sizes may fit
            continue
        return None if any(step["kind"] == "callback" for step in executor.describe()) else net
    return None


def compiled(
    described: Mapping[str, Any], inputs: Sequence[str], outputs: Sequence[str], claims: list[Claim]
) -> tuple[Net[Any], tuple[int, ...], tuple[int, ...]]:
    """Returns the net of nodes that were claimed, and for each of its inputs and outputs the number in the new node.

    Args:
        described: the claimed nodes as a graph.
        inputs, outputs: names of the new node's inputs and outputs.
        claims: what `claimed` has appended; the claim is taken out.
    """
    graph = SessionGraph(**described)
    numbers = range(len(graph.nodes))
    makes = frozenset(graph.produced(numbers))
    claim = next(one for one in claims if one.makes == makes)
    net, names = claim.net, claim.net.output_names
    if set(names) != set(outputs):
        net = graph_of(graph.model(numbers, outputs, claim.net.graph.name), None).compile()
        names = net.output_names
    read = [value.name for value in net.inputs]
    claims.remove(claim)
    return net, tuple(inputs.index(name) for name in read), tuple(outputs.index(name) for name in names)


def plan_for(net: Net[Any], shapes: Sequence[tuple[int, ...]]) -> Any:
    """Returns the plan of a net for row-major inputs of these shapes, as native code runs it.

    Raises:
        ShapeError: a shape does not fit its input, or the ops.
    """
    for value, shape in zip(net.inputs, shapes, strict=True):
        if len(shape) != len(value.shape) or any(a not in (None, b) for a, b in zip(value.shape, shape, strict=True)):
            raise ShapeError(f"{net!r}: input {value.name!r} has shape {value.shape}, got {shape}")
    return net._plan_for(shapes)
