"""Groups of nodes that one node may replace: connected, and without a path that leaves and returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .session_graph import SessionGraph

# what quantizes and dequantizes: ONNX Runtime fuses an operator with those around it, or none
_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def whole_quantized(graph: SessionGraph, wanted: Collection[int]) -> set[int]:
    """Returns the wanted nodes without those at whose border a quantized operator would be divided."""
    found = set(wanted)
    edges = [
        (maker, reader)
        for name, maker in graph.producers.items()
        for reader in graph.readers.get(name, ())
        if reader >= 0
        and (graph.nodes[maker][1] == _DEQUANTIZE or graph.nodes[reader][1] == _QUANTIZE)
        and graph.nodes[reader][1] != _DEQUANTIZE
    ]
    while cut := {node for edge in edges if (edge[0] in found) != (edge[1] in found) for node in edge} & found:
        found -= cut
    return found


def convex_groups(graph: SessionGraph, wanted: Collection[int]) -> list[list[int]]:
    """Returns the wanted nodes in groups, each in order: neighbours join unless that closes a circle."""
    unit = list(range(len(graph.nodes)))
    members: dict[int, list[int]] = {i: [i] for i in unit}
    reads: dict[int, set[int]] = {}
    feeds: dict[int, set[int]] = {i: set() for i in unit}
    for i, node in enumerate(graph.nodes):
        makers = {graph.producers[name] for name in (*node[3], *node[4]) if name in graph.producers}
        reads[i] = {unit[maker] for maker in makers}
        for other in reads[i]:
            feeds[other].add(i)
        if i not in wanted:
            continue
        # the later makers first: an earlier one may be after a path through them
        for maker in sorted(makers, reverse=True):
            one, other = unit[maker], unit[i]
            if maker in wanted and one != other and not _has_detour(one, other, feeds):
                _join(one, other, unit, members, reads, feeds)
    return [sorted(some) for some in members.values() if some[0] in wanted]


def _has_detour(start: int, end: int, feeds: Mapping[int, set[int]]) -> bool:
    """Whether a path leads from one unit to another through a third one."""
    stack, seen = [unit for unit in feeds[start] if unit != end], {start}
    while stack:
        unit = stack.pop()
        if unit == end:
            return True
        if unit not in seen:
            seen.add(unit)
            stack += feeds[unit]
    return False


def _join(
    one: int,
    other: int,
    unit: list[int],
    members: dict[int, list[int]],
    reads: dict[int, set[int]],
    feeds: dict[int, set[int]],
) -> None:
    """Puts a unit's members into another one."""
    for node in members[other]:
        unit[node] = one
    members[one] += members.pop(other)
    for source in reads[other]:
        feeds[source].discard(other)
        if source != one:
            feeds[source].add(one)
    for target in feeds[other]:
        reads[target].discard(other)
        if target != one:
            reads[target].add(one)
    reads[one] = (reads[one] | reads.pop(other)) - {one, other}
    feeds[one] = (feeds[one] | feeds.pop(other)) - {one, other}
