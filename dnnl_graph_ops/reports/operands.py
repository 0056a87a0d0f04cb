"""Describes the operands of a plan's steps by the graph's values in their memory."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from math import prod
from string import ascii_lowercase

from ..compile.specialise import Specialised
from ..onednn.partition import Compiled
from ..program.program import Buffer, Place, Step, View, is_dense, order_of

SCRATCH = "scratch"


def operand_text(specialised: Specialised) -> Callable[[View], str]:
    """Returns a function that describes a view by the value of the graph in its memory: name, shape, dtype, layout.

    Packed weights get the name and shape of the constant that they are made of. Scratch without a value of the graph
    that is made of one operand alone is "scratch of" that operand.
    """
    placed: dict[Buffer, list[tuple[str, View]]] = {}
    views = specialised.lowering.views
    # a value that the net returns in another order is found in what it returns; its memory before that is scratch
    for value, view in (views | views.leaving).items():
        placed.setdefault(view.buffer, []).append((value.name, view))
    sources = _sources((*specialised.lowering.program.steps, *specialised.plan.parts), placed)

    def text(view: View) -> str:
        root = sources.get(view.buffer, view.buffer)
        values = placed.get(root, ())
        # several values may share the memory, such as the operands of a Concat: prefers the value that is the view
        largest = max(values, key=lambda item: item[1].size, default=("", view))
        name, whole = next((item for item in values if _same(item[1], view)), largest)
        if root is not view.buffer:
            return f"{name} {_layout(whole)} packed" if view.is_constant else f"{SCRATCH} of {name} {_layout(view)}"
        if not name:
            # an input of the net has no value here if steps read a copy of it in another order
            kind = "constant" if view.is_constant else SCRATCH
            return f"{specialised.names.get(view.buffer, kind)} {_layout(view)}"
        return f"{name} {_layout(whole)}" if _same(whole, view) else f"part of {name} {_layout(view)}"

    return text


def _same(first: View, second: View) -> bool:
    return (first.buffer, first.offset, _elements(first)) == (second.buffer, second.offset, _elements(second))


def _elements(view: View) -> int:
    """Returns the number of different elements: axes of stride 0 repeat them."""
    return prod(size for size, stride in zip(view.shape, view.strides, strict=True) if stride)


def _layout(view: View) -> str:
    """Returns shape, dtype and, unless row-major, the axes from the slowest to the fastest ("acdb"), or the strides."""
    single = view.buffer.elements == 1
    text = f"{'scalar' if single else 'x'.join(map(str, view.shape))} {view.dtype}"
    if single or view.row_major:
        return text
    if is_dense(view):
        return f"{text} {''.join(ascii_lowercase[axis] for axis in order_of(view))}"
    return f"{text} strides {'x'.join(map(str, view.strides))}"


def _sources(steps: Iterable[Step | Compiled], placed: Container[Buffer]) -> dict[Buffer, Buffer]:
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
