"""Describes the steps of a plan in the graph's terms: the ops and the algorithm that a step is for, its operands."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from string import ascii_lowercase
from typing import NamedTuple

from ..backends.backend import FusionGroup
from ..graph import Node
from ..lowering.family import CONV_KINDS
from ..lowering.program import Buffer, HostStep, KernelStep, Place, Step, View, is_dense, order_of
from .native import Compiled
from .specialise import Specialised

Part = Compiled | KernelStep | HostStep

_SCRATCH = "scratch"
PRODUCTS = frozenset({*CONV_KINDS, "MatMul"})


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
    decisions, text = specialised.built.decisions, operand_text(specialised)
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
            tuple(sorted(map(text, part.writes), key=lambda operand: operand.startswith(_SCRATCH))),
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


# ---- operands --------------------------------------------------------------------------------------------------------


def operand_text(specialised: Specialised) -> Callable[[View], str]:
    """Returns a function that describes a view by the value of the graph in its memory: name, shape, dtype, layout.

    Packed weights get the name and shape of the constant that they are made of. Scratch without a value of the graph
    that is made of one operand alone is "scratch of" that operand.
    """
    placed: dict[Buffer, list[tuple[str, View]]] = {}
    for value, view in specialised.built.views.items():
        placed.setdefault(view.buffer, []).append((value.name, view))
    sources = _sources((*specialised.built.program.steps, *specialised.plan.parts), placed)

    def text(view: View) -> str:
        root = sources.get(view.buffer, view.buffer)
        values = placed.get(root, ())
        # of several values in one memory, as the operands of a Concat in its result, the one that the view has all of
        largest = max(values, key=lambda item: item[1].size, default=("", view))
        name, whole = next((item for item in values if _same(item[1], view)), largest)
        if root is not view.buffer:
            return f"{name} {_layout(whole)} packed" if view.is_constant else f"{_SCRATCH} of {name} {_layout(view)}"
        if not name:
            # an input that steps read from a copy in another order, which has the place of the value
            kind = "constant" if view.is_constant else _SCRATCH
            return f"{specialised.names.get(view.buffer, kind)} {_layout(view)}"
        return f"{name} {_layout(whole)}" if _same(whole, view) else f"part of {name} {_layout(view)}"

    return text


def _same(first: View, second: View) -> bool:
    return (first.buffer, first.offset, first.size) == (second.buffer, second.offset, second.size)


def _layout(view: View) -> str:
    """Returns shape, dtype and, unless row-major, the axes from the slowest to the fastest ("acdb"), or the strides."""
    one = view.buffer.elements == 1
    text = f"{'scalar' if one else 'x'.join(map(str, view.shape))} {view.dtype}"
    if one or view.row_major:
        return text
    if is_dense(view):
        return f"{text} {''.join(ascii_lowercase[axis] for axis in order_of(view))}"
    return f"{text} strides {'x'.join(map(str, view.strides))}"


def _sources(steps: Iterable[Step | Part], placed: Container[Buffer]) -> dict[Buffer, Buffer]:
    """Returns, for each buffer without a value that steps make of one operand alone, the buffer of this operand.

    A constant counts as made of the first operand of its step, such as packed int8 weights of the weights.
    """
    sources: dict[Buffer, Buffer] = {}
    for step in steps:
        roots = list(dict.fromkeys(sources.get(view.buffer, view.buffer) for view in step.reads))
        for buffer in (view.buffer for view in step.writes):
            alone = len(roots) == 1 or (roots and buffer.place is Place.CONSTANT)
            if alone and roots[0] in placed and buffer not in placed:
                sources.setdefault(buffer, roots[0])
    return sources
