"""Describes the steps of a plan in the graph's terms: the ops and the algorithm that a step is for, its operands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .. import schema
from ..backends.backend import FusionGroup
from ..compile.specialise import Specialised
from ..convolution.nodes import CONV_KINDS
from ..graph import Node
from ..onednn.partition import Compiled
from ..program.program import HostStep, KernelStep
from .operands import SCRATCH, operand_text

Part = Compiled | KernelStep | HostStep

PRODUCTS = frozenset({*CONV_KINDS, *schema.kinds("multiplies")})


class Described(NamedTuple):
    """A step of a plan: its title, the names and kinds of the ops of its fusion groups, its algorithm and operands.

    `of`: kind and name of each group's `head`, e.g. "Convolution conv1". `reads`, `writes`: each operand as text, e.g.
    "x 1x64x32x32 f32".
    """

    title: str
    ops: tuple[str, ...]
    kinds: tuple[str, ...]
    of: str
    algorithm: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def described(specialised: Specialised) -> Iterator[Described]:
    """Yields the description of each step of a plan, in order."""
    decisions, text = specialised.lowering.decisions, operand_text(specialised)
    for part in specialised.plan.parts:
        groups = [decisions[number] for number in groups_of(part)]
        named = [names_of(group) for group, _ in groups]
        yield Described(
            _title(part, [node for group, _ in groups for node in group.nodes]),
            tuple(name for names, _ in named for name in names),
            tuple(kind for _, kinds in named for kind in kinds),
            " | ".join(f"{kinds[i]} {names[i]}" for names, kinds in named for i in [head(kinds)]),
            " | ".join(dict.fromkeys(decision.formulation for _, decision in groups)),
            tuple(map(text, part.reads)),
            # a kernel's own scratch last
            tuple(sorted(map(text, part.writes), key=lambda operand: operand.startswith(SCRATCH))),
        )


def names_of(group: FusionGroup) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names and the kinds of a group's ops; an op that runs on the host has the name of its function."""
    names = tuple(node.name for node in group.listed)
    return names, tuple(node.host.title if node.host else node.kind for node in group.listed)


def head(kinds: Sequence[str]) -> int:
    """Returns the index of the op that a group is named for: its first product, or else its first op."""
    return next((i for i, kind in enumerate(kinds) if kind in PRODUCTS), 0)


def groups_of(part: Part) -> tuple[int, ...]:
    """Returns the numbers of the fusion groups that a step computes, as a whole or in part."""
    others = part.others if isinstance(part, KernelStep) else ()
    return others if part.group is None else (*others, part.group)


def _title(part: Part, nodes: Iterable[Node]) -> str:
    """Returns the label of a step, or the kinds of the ops that the library computes in it.

    A convolution op of the library that stands in for another op, such as ConvTranspose for a Convolution with flipped
    weights, is named by the label.
    """
    title = part.label
    if isinstance(part, Compiled):
        asked = {node.kind for node in nodes}
        title = " + ".join(part.label if kind in CONV_KINDS and kind not in asked else kind for kind in part.kinds)
    if part.condition is not None:
        title = f"{title} ({'not all' if part.condition.wanted else 'all'} finite)"
    return title
