"""LSTM, GRU and RNN in one direction along the axis: each step begins with the state in which the last one ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..frontends.reading.budget import Budget
from ..frontends.reading.deferred import Late, Scratch
from ..frontends.reading.node import tensors_of
from ..frontends.reading.numpy_steps.recurrent import STATES
from ..graph import Value, hooks
from ..shapes import Meta
from .motion import NEVER, Motion, Part
from .rules import Site, rule

Array = np.ndarray[Any, Any]

_DATA, _LENGTHS = 0, 4
# stands for unknown sizes of other axes
_SOME = 2


@rule("Wildcard")
def recurrence(site: Site) -> Motion:
    """An operator that is built once sizes are known; only recurrences are known to run along an axis."""
    late = site.node.late
    operator = late.nodes[-1] if isinstance(late, Late) else None
    if not isinstance(late, Late) or operator is None or operator.domain or operator.op_type not in STATES:
        site.refuse(f"there is no rule for {'it' if operator is None else operator.op_type}")
    names, attrs = (*operator.inputs, *("",) * 8), operator.attrs
    if (way := attrs.get("direction", "forward")) != "forward":
        site.refuse(f"its direction is {way}, which begins at the end")
    if names[_LENGTHS]:
        site.refuse("it takes the lengths of sequences")
    batch_first = 1 if attrs.get("layout", 0) else 0
    if names[_DATA] not in late.inputs or site.axes[data := late.inputs.index(names[_DATA])] != batch_first:
        site.refuse("its steps do not run along the axis")
    # other operands that run along the axis lend their sizes alone, to initial states
    if any(late.inputs[index] in names for index in site.streamed if index != data):
        site.refuse("its weights or initial states run along the axis")
    sizes = [[_SOME if size is None else size for size in value.shape] for value in site.node.inputs]
    if any(array is None for array in _computed(site, late, sizes).values()):
        site.refuse("its initial state depends on the length")
    places = STATES[operator.op_type]
    carried = tuple(f"\0state {place}" for place in places)
    results = (operator.outputs[0] or "\0data", *(f"\0end {place}" for place in places))

    def build(part: Part) -> Sequence[Value]:
        block = part.window(data, part.begin, part.end)
        given = [block if i == data else part.operand(i) for i in range(part.count) if i == data or i in fixed]
        shape = part.shape(part.end - part.begin)
        # the data's result is (steps, directions, batch, size), or (batch, steps, directions, size)
        state = Meta((shape[0], *shape[2:]) if batch_first else tuple(shape[1:]), block.dtype)
        states = part.carried([state] * len(places))
        reads: list[Any] = list(names)
        if states:
            for place, name in zip(places, carried, strict=True):
                reads[place] = name
        while not reads[-1]:
            del reads[-1]
        node = replace(operator, inputs=tuple(reads), outputs=results)
        begin = _computed(site, late, part.sizes())
        arrays = {**late.arrays, **{name: array for name, array in begin.items() if array is not None}}
        named = (*(late.inputs[i] for i in range(part.count) if i == data or i in fixed), *(carried if states else ()))
        own = Late(late.name, named, arrays, (node,), results, late.budget, late.by)
        made = part.late(own, [*given, *states], [Meta(tuple(shape), block.dtype), *[state] * len(places)])
        part.carry(made[1:])
        return made

    fixed = [index for index, axis in enumerate(site.axes) if axis is None]
    at = site.streamed.index(data)
    return Motion(
        batch_first, Fraction(1), lambda known, _: known[at], lambda totals: totals[at],
        lambda m: tuple(m if index == data else NEVER for index in site.streamed), build,
    )  # fmt: skip


def _computed(site: Site, late: Late, shapes: Sequence[Sequence[int]]) -> Mapping[str, Array | None]:
    """Returns what a section computes of sizes for its last node: initial states; None for what depends on the length.

    `shapes`: of the operands, for any length.
    """
    values = {}
    for name, value, axis, shape in zip(late.inputs, site.node.inputs, site.axes, shapes, strict=True):
        dims = tuple(None if place == axis else size for place, size in enumerate(shape))
        values[name] = Value(Scratch(), value._id, dims, value.dtype, value.name)
        values[name]._held = value._held
    known, budget = tensors_of({**late.arrays, **values}), Budget(0, late.budget)
    for node in late.nodes[:-1]:
        results = hooks.call("built", Scratch(), node, known, budget)
        known.update((name, item) for name, item in zip(node.outputs, results, strict=False) if name)
    given = {*late.arrays, *late.inputs, ""}
    return {name: known[name].array for name in late.nodes[-1].inputs if name not in given}
