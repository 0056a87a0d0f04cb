"""Quantized convolutions of a net: a Dequantize for each of them, and the groups that own products of integers run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ..graph import Node, Value
from ..lowering import integers
from ..lowering.env import Env
from .own_groups import Readers, behind, elementwise


def in_integers(nodes: Sequence[Node], kept: Collection[Value]) -> list[Node]:
    """The nodes with a Dequantize of its own for every operand of a convolution that others read in f32 as well.

    `kept`: values that the net returns.
    """
    counts = Counter(value for node in nodes for value in node.inputs)
    found: list[Node] = []
    for node in nodes:
        if node.kind not in integers.HEADS:
            found.append(node)
            continue
        made = [_twin(value) if counts[value] > 1 or value in kept else value for value in node.inputs[:2]]
        found += [twin.node for twin, value in zip(made, node.inputs, strict=False) if twin is not value and twin.node]
        if made != list(node.inputs[:2]):
            counts.subtract(node.inputs[:2])
            head = Node(node.id, node.kind, node.name, (*made, *node.inputs[2:]), node.attrs)
            head.outputs, head.absorbed = node.outputs, node.absorbed
            head.outputs[0].node = head
            node = head
        found.append(node)
    return [
        node for node in found if node.kind != "Dequantize" or counts[node.outputs[0]] or _leaves(node, kept, found)
    ]


def _leaves(node: Node, kept: Collection[Value], nodes: Sequence[Node]) -> bool:
    value = node.outputs[0]
    return value in kept or any(value in other.inputs for other in nodes)


def _twin(value: Value) -> Value:
    """A value of the same Dequantize, made again; of others the value itself."""
    node = value.node
    if node is None or node.kind != "Dequantize":
        return value
    twin = Value(value.graph, -1, value.shape, value.dtype, value.name)
    twin.node = Node(node.id, node.kind, node.name, node.inputs, node.attrs)
    twin.node.outputs = (twin,)
    return twin


def integer_groups(readers: Readers, env: Env) -> list[tuple[int, ...]]:
    """The members of each group that own products of integers run: both Dequantize, the convolution, what follows."""
    nodes, numbers = readers.nodes, readers.numbers
    joining = {number for number, node in enumerate(nodes) if elementwise(node)}
    found = []
    for number, node in enumerate(nodes):
        makers = [numbers.get(value.node) for value in node.inputs[:2] if value.node is not None]
        if node.kind not in integers.HEADS or len(makers) < 2 or None in makers:
            continue
        if any(readers.leaves(value) or len(readers.of(value)) > 1 for value in node.inputs[:2]):
            continue
        members = _longest([one for one in makers if one is not None], number, joining, readers, env)
        if members:
            found.append(members)
            joining.difference_update(members)
    return found


def _longest(
    makers: list[int], head: int, joining: Collection[int], readers: Readers, env: Env
) -> tuple[int, ...] | None:
    """With post-ops and Quantize, or without what does not fit."""
    _, *tail = behind(head, joining, readers)
    last = readers.nodes[tail[-1] if tail else head].outputs[0]
    after = readers.of(last)
    rounding = list(after) if len(after) == 1 and readers.nodes[after[0]].kind == "Quantize" else []
    if readers.leaves(last):
        rounding = []
    # the library's own groups are asked for by the first three
    for more in ([*tail, *rounding], tail, []):
        members = (*makers, head, *more)
        if integers.takes([readers.nodes[i] for i in members], env):
            return members
    return None
