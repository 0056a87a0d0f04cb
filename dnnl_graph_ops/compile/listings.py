"""Lists the groups, places, steps and memory of a plan that is being built, as text for `explain(passes=True)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..backends.backend import FusionGroup, Places
from ..program.program import Buffer, NativeStep, Step, View
from .place_memory import Use


def of_groups(groups: Sequence[FusionGroup]) -> str:
    """Returns a line for each group: its backend, and the kinds and names of its ops."""
    return "\n".join(
        f"{group.backend.name}: {' + '.join(f'{node.kind} {node.name}' for node in group.nodes)}" for group in groups
    )


def of_places(places: Places) -> str:
    """Returns a line for each value that has a view, or for which a view is planned, with this view."""
    lines = [f"{value.name}: {_placed(view)}" for value, view in places.items()]
    return "\n".join([*lines, *(f"{value.name}: {_placed(view)}, planned" for value, view in places.planned.items())])


def of_steps(steps: Sequence[Step | Use]) -> str:
    """Returns a line for each step, with the views that it reads and writes."""
    lines = []
    for step in steps:
        label = " + ".join(op.kind for op in step.ops) if isinstance(step, NativeStep) else step.label
        lines.append(f"{label}: {', '.join(map(_placed, step.reads))} -> {', '.join(map(_placed, step.writes))}")
    return "\n".join(lines)


def of_memory(offsets: Mapping[Buffer, int], size: int) -> str:
    """Returns the byte offset and size of each scratch buffer in the arena, and the size of the arena."""
    lines = [f"{offset}: {buffer.nbytes} bytes" for buffer, offset in sorted(offsets.items(), key=lambda item: item[1])]
    return "\n".join([*lines, f"{size} bytes in all"])


def _placed(view: View) -> str:
    """Returns the place, dtype, sizes and strides of a view, such as "scratch f32 2x3 : 3x1"."""
    sizes, strides = ("x".join(map(str, some)) for some in (view.shape, view.strides))
    return f"{view.buffer.place.value} {view.dtype} {sizes} : {strides}"
