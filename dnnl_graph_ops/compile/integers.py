"""Groups of quantized convolutions that own products of integers run."""

from __future__ import annotations

from collections.abc import Collection

from ..lowering import integers
from ..lowering.env import Env
from .own_groups import Readers, behind, elementwise


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
