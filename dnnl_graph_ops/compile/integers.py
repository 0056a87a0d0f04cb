"""Quantized convolutions of a net: a Dequantize for each of them, and the groups that own products of integers run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ..graph import Node, Value
from ..lowering import integers, windows
from ..lowering.env import Env
from ..lowering.rewrites import Rewrite
from .own_groups import Readers, behind, elementwise

# what may run as one with the Dequantize of its operands
_WITH_DEQUANTIZE = integers.HEADS | {"AvgPool", "MatMul", "MaxPool"}

MOVE_INTEGERS = Rewrite(
    "move_integers",
    "what moves elements between Dequantize and Quantize moves integers; each part is rounded before",
    (
        "nobody else reads the whole",
        "the net does not return the whole",
        "the result has one scale",
        "every part comes of a Dequantize of one scale",
    ),
)
REPEAT_DEQUANTIZE = Rewrite("repeat_dequantize", "every product, or pool, has a Dequantize of its own")


def in_integers(nodes: Sequence[Node], kept: Collection[Value]) -> list[Node]:
    """The nodes with moves of integers, and a Dequantize of its own for every op that may run as one with it.

    `kept`: values that the net returns.
    """
    nodes = _moved(nodes, kept)
    counts = Counter(value for node in nodes for value in node.inputs)
    found: list[Node] = []
    for node in nodes:
        made = list(node.inputs)
        if node.kind in _WITH_DEQUANTIZE:
            made = [_twin(value) if counts[value] > 1 or value in kept else value for value in made]
        twins = [value.node for value in made if value not in node.inputs and value.node is not None]
        if twins:
            REPEAT_DEQUANTIZE.fired(node)
            counts.subtract(node.inputs)
            node = _again(node, node.kind, made, node.outputs)
        found += [*twins, node]
    read = {value for node in found for value in node.inputs} | set(kept)
    return [node for node in found if node.kind != "Dequantize" or node.outputs[0] in read]


def _moves(node: Node) -> int:
    """How many of its first operands a node moves without computing anything; 0: it computes."""
    if node.kind == "Concat":
        return len(node.inputs)
    return int(node.kind in ("StaticReshape", "StaticTranspose") or windows.repeats(node))


def _moved(nodes: Sequence[Node], kept: Collection[Value]) -> list[Node]:
    """The nodes with integers joined or moved in place of what does so between Dequantize and Quantize.

    Parts are rounded alone, before they are moved; one of the same scale and zero point as the whole is not touched.
    """
    counts = Counter(value for node in nodes for value in node.inputs)
    found: dict[Node, None] = {}
    for node in nodes:
        join = node.inputs[0].node if node.kind == "Quantize" else None
        count = 0 if join is None else _moves(join)
        if join is None or not count or not _moves_integers(node, join.inputs[:count], counts, kept):
            found[node] = None
            continue
        MOVE_INTEGERS.fired(node)
        parts = [_rounded(value, node) for value in join.inputs[:count]]
        del found[join]
        found |= dict.fromkeys(part.node for part in parts if part.node is not None)
        found[_again(join, join.kind, [*parts, *join.inputs[count:]], node.outputs)] = None
    return list(found)


def _moves_integers(
    quantize: Node, parts: Sequence[Value], counts: Mapping[Value, int], kept: Collection[Value]
) -> bool:
    unmet = None
    whole, makers = quantize.inputs[0], [value.node for value in parts]
    if counts[whole] > 1:
        unmet = "nobody else reads the whole"
    elif whole in kept:
        unmet = "the net does not return the whole"
    elif not _of_tensor(quantize):
        unmet = "the result has one scale"
    elif any(maker is None or maker.kind != "Dequantize" or not _of_tensor(maker) for maker in makers):
        unmet = "every part comes of a Dequantize of one scale"
    if unmet is not None:
        MOVE_INTEGERS.declined(quantize, unmet)
    return unmet is None


def _rounded(value: Value, quantize: Node) -> Value:
    """A part of a join in the integers of the whole."""
    maker, whole = value.node, quantize.outputs[0]
    assert maker is not None
    given, wanted = (
        (one.attrs["scales"][0], (one.attrs.get("zps") or (0,))[0], dtype)
        for one, dtype in ((maker, maker.inputs[0].dtype), (quantize, whole.dtype))
    )
    if given == wanted:
        return maker.inputs[0]
    part = Value(value.graph, -1, value.shape, whole.dtype, value.name)
    part.node = Node(quantize.id, "Quantize", quantize.name, (value,), quantize.attrs)
    part.node.outputs = (part,)
    return part


def _of_tensor(node: Node) -> bool:
    return len(node.attrs["scales"]) == 1


def _again(node: Node, kind: str, inputs: Sequence[Value], outputs: tuple[Value, ...]) -> Node:
    """The node with other operands, in the place of one that gives `outputs`."""
    twin = Node(node.id, kind, node.name, tuple(inputs), node.attrs)
    twin.outputs, twin.absorbed = outputs, node.absorbed
    for value in outputs:
        value.node = twin
    return twin


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
