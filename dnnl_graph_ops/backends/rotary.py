"""Runs a rotary embedding as one kernel: pairs (a, b) of the last axis become (a cos - b sin, b cos + a sin).

A pair is elements i and half + i of the last axis (2 half), or, interleaved, elements 2 i and 2 i + 1.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

from ..algorithms.lower import Decision
from ..graph import Node, Value
from ..ir import dims, scalar
from ..ir.rewrites import ALONE, No, Rewrite
from ..program.elementwise import over
from ..shapes.rearrange import ranges
from .backend import Backend, FusionGroup, Lowering, Maker
from .movement import in_rows

# (start, size, step) of a Slice along the last axis
Cut = tuple[int | None, int | None, int]
FUSE_ROTARY = Rewrite(
    "fuse_rotary",
    "pairs of the last axis that are turned by cosines and sines run as one",
    (*ALONE, "all tensors are in f32", "cosines and sines lie along the last axis", "the pairs are all of the result"),
)


class Turn(NamedTuple):
    """The nodes and operands of a rotary embedding.

    `half`: the number of pairs. `whole`: whether cos and sin are (..., 2 half), with numbers of their own for the
    second of each pair, rather than (..., half).
    """

    members: tuple[Node, ...]
    src: Value
    cos: Value
    sin: Value
    half: int
    interleaved: bool
    whole: bool


def parts_of(last: Node, maker: Maker, no: No) -> Turn | None:
    """Returns the rotary embedding that ends with `last`, if there is one that the kernel computes; None otherwise."""
    find = _FORMS.get(last.kind)
    turn = None if find is None else find(last, maker)
    return turn if turn is not None and _fits(turn, last.outputs[0], no) else None


def _fits(turn: Turn, result: Value, no: No) -> bool:
    width = turn.half if not turn.whole else 2 * turn.half
    tables, shape, unmet = [turn.cos, turn.sin], dims(turn.src), ""
    if any(value.dtype != "f32" for value in (turn.src, result, *tables)):
        unmet = "all tensors are in f32"
    elif any(not value.shape or value.ndim > result.ndim or value.shape[-1] != width for value in tables):
        unmet = "cosines and sines lie along the last axis"
    # src may be wider than the result: the kernel reads its first 2 half elements
    elif not all(shape) or (*shape[:-1], 2 * turn.half) != result.shape:
        unmet = "the pairs are all of the result"
    if unmet:
        no(unmet)
    return not unmet


def _cut(node: Node) -> Cut | None:
    """Returns (start, size, step) of a Slice along the last axis; None where the Slice cuts another axis as well."""
    shape = node.inputs[0].shape
    if None in shape:
        return None
    taken = dict(ranges(shape, node.attrs, node.name).items())
    cut = taken.pop(len(shape) - 1, None)
    return cut if all(one == (0, shape[axis], 1) for axis, one in taken.items()) else None


def _joins_last(node: Node) -> bool:
    rank = node.outputs[0].ndim
    return node.kind == "Concat" and len(node.inputs) == 2 and node.attrs["axis"] % rank == rank - 1


class _Term(NamedTuple):
    """A Multiply of `part`, a Slice of the source, and `table`, the cosines or sines."""

    node: Node
    part: Node
    table: Value


def _terms(node: Node, maker: Maker) -> list[list[_Term]]:
    """Returns for each operand of an Add or Subtract the ways to read it as a product of a Slice and a table.

    Returns [] where an operand is no product. If both factors are Slices, either may be the part.
    """
    terms = []
    for value in node.inputs:
        term = maker(value, 1)
        if term is None or term.kind != "Multiply":
            return []
        parts = [(maker(part, 2), table) for part, table in (term.inputs, term.inputs[::-1])]
        terms.append([_Term(term, part, table) for part, table in parts if part is not None and part.kind == "Slice"])
    return terms


def _pairs(real: Node | None, other: Node | None, maker: Maker) -> tuple[Turn, Cut, Cut] | None:
    """Matches `real` = a cos - b sin and `other` = b cos + a sin, where a and b are Slices of one value.

    Returns the embedding and the cuts of a and b; None where the nodes compute something else.
    """
    if real is None or other is None or real.kind != "Subtract" or other.kind != "Add":
        return None
    first, second = _terms(real, maker), _terms(other, maker)
    for a, b, c, d in product(*first, *second) if first and second else ():
        cuts = _cut(a.part), _cut(b.part)
        crossed = {(c.part, c.table), (d.part, d.table)} == {(a.part, b.table), (b.part, a.table)}
        if crossed and a.part.inputs == b.part.inputs and cuts[0] is not None and cuts[1] is not None:
            nodes = (real, other, *(term.node for term in (a, b, c, d)), a.part, b.part)
            turn = Turn(nodes, a.part.inputs[0], a.table, b.table, cuts[0][1] or 0, False, False)
            return turn, cuts[0], cuts[1]
    return None


def _halves(last: Node, maker: Maker) -> Turn | None:
    """Matches a Concat of a cos - b sin and b cos + a sin, where a and b are the halves of the last axis."""
    pairs = _pairs(maker(last.inputs[0], 1), maker(last.inputs[1], 1), maker) if _joins_last(last) else None
    if pairs is None:
        return None
    turn, *cuts = pairs
    halves = [(0, turn.half, 1), (turn.half, turn.half, 1)]
    return turn._replace(members=(last, *turn.members)) if cuts == halves else None


def _neighbours(last: Node, maker: Maker) -> Turn | None:
    """Matches interleaved pairs: even and odd elements become two results, which a Concat and a reshape interleave."""
    joined = maker(last.inputs[0], 1)
    if joined is None or not _joins_last(joined) or joined.outputs[0].shape[:-2] != last.outputs[0].shape[:-1]:
        return None
    parts = [maker(value, 1) for value in joined.inputs]
    nodes = [node for node in parts if node is not None and node.kind == "StaticReshape"]
    if len(nodes) < 2 or any(node.outputs[0].shape != (*node.inputs[0].shape, 1) for node in nodes):
        return None
    pairs = _pairs(maker(nodes[0].inputs[0], 1), maker(nodes[1].inputs[0], 1), maker)
    if pairs is None:
        return None
    turn, *cuts = pairs
    members = (last, joined, *nodes, *turn.members)
    every_other = [(0, turn.half, 2), (1, turn.half, 2)]
    return turn._replace(members=members, interleaved=True) if cuts == every_other else None


def _rotated(last: Node, maker: Maker) -> Turn | None:
    """Matches x cos + y sin, where y is a Concat of minus the second half of x and the first half."""
    products = [maker(value, 1) for value in last.inputs]
    for plain, turned in (products, products[::-1]):
        if plain is None or turned is None or plain.kind != "Multiply" or turned.kind != "Multiply":
            continue
        for swapped, sin in (turned.inputs, turned.inputs[::-1]):
            halves = _swapped(maker(swapped, 1), maker)
            if halves is None or halves[0] not in plain.inputs:
                continue
            src, nodes, half = halves
            cos = plain.inputs[1 - plain.inputs.index(src)]
            return Turn((last, plain, turned, *nodes), src, cos, sin, half, False, True)
    return None


def _swapped(joined: Node | None, maker: Maker) -> tuple[Value, tuple[Node, ...], int] | None:
    """Matches a Concat of minus the second half of x and the first half; returns x, the nodes, and a half's size."""
    if joined is None or not _joins_last(joined):
        return None
    minus, first = (maker(value, 1) for value in joined.inputs)
    if minus is None or first is None or minus.kind != "Multiply" or first.kind != "Slice":
        return None
    for value, number in (minus.inputs, minus.inputs[::-1]):
        second = maker(value, 1)
        if scalar(number) != -1 or second is None or second.kind != "Slice" or second.inputs != first.inputs:
            continue
        size = first.inputs[0].shape[-1] or 0
        if size % 2 == 0 and (_cut(first), _cut(second)) == ((0, size // 2, 1), (size // 2, size // 2, 1)):
            return first.inputs[0], (joined, minus, first, second), size // 2
    return None


# kind of the last node -> the function that matches embeddings ending with it
_FORMS: dict[str, Callable[[Node, Maker], Turn | None]] = {
    "Add": _rotated,
    "Concat": _halves,
    "StaticReshape": _neighbours,
}


def build(lowering: Lowering, group: FusionGroup) -> Decision:
    """Appends the kernel of a rotary embedding, and copies of operands and of the result where strides need them."""
    program, turn = lowering.program, group.match
    src, dst = lowering.view(turn.src), lowering.view(group.result)
    src = src.narrow(src.ndim - 1, 0, dst.shape[-1])
    lead = dst.shape[:-1]
    tables = [lowering.view(value) for value in (turn.cos, turn.sin)]
    stretched = [over(table, (*lead, table.shape[-1])) for table in tables]
    reads = [in_rows(program, view, "of a rotary embedding") for view in (src, *stretched)]
    rows = dst if dst.strides[-1] == 1 else program.scratch(dst.shape, dst.dtype)
    kept = [axis for axis, size in enumerate(lead) if size > 1] or [0]
    strides = tuple(tuple(view.strides[axis] for axis in kept) for view in (*reads, rows))
    args = tuple(lead[axis] for axis in kept), turn.half, strides, turn.interleaved, turn.whole
    program.append("rotary", args, reads, [rows], "rotary embedding")
    if rows is not dst:
        program.copy(rows, dst, "dst of a rotary embedding")
    return Decision("builtin kernel", group.nodes[0].outputs[0].dtype)


ROTARY: Backend = Backend(
    "rotary",
    build,
    find=lambda search: search.take_pattern(ROTARY, FUSE_ROTARY, parts_of),
    takes_any_strides=True,
)
