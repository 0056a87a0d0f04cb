"""Groups and steps of a net on its way to a plan, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..backends.backend import FusionGroup
from ..backends.places import Places
from ..lowering.program import Buffer, NativeStep, Step, View
from .memory import Use


def of_groups(groups: Sequence[FusionGroup]) -> str:
    """The backend of each group, its ops and their names."""
    return "\n".join(
        f"{group.backend.name}: {' + '.join(f'{node.kind} {node.name}' for node in group.nodes)}" for group in groups
    )


def of_places(places: Places) -> str:
    """Where values lie: those that are given, and those that a place is planned for."""
    lines = [f"{value.name}: {_view(view)}" for value, view in places.items()]
    return "\n".join([*lines, *(f"{value.name}: {_view(view)}, planned" for value, view in places.planned.items())])


def of_steps(steps: Sequence[Step]) -> str:
    """Each step with what it reads and writes."""
    return "\n".join(
        _line(
            " + ".join(op.kind for op in step.ops) if isinstance(step, NativeStep) else step.label,
            step.reads,
            step.writes,
        )
        for step in steps
    )


def of_uses(uses: Sequence[Use]) -> str:
    """The same of steps that are compiled."""
    return "\n".join(_line(use.label, use.reads, use.writes) for use in uses)


def of_memory(offsets: Mapping[Buffer, int], size: int) -> str:
    """Where intermediate results lie in the memory that they share."""
    lines = [f"{offset}: {buffer.nbytes} bytes" for buffer, offset in sorted(offsets.items(), key=lambda item: item[1])]
    return "\n".join([*lines, f"{size} bytes in all"])


def _line(label: str, reads: Iterable[View], writes: Iterable[View]) -> str:
    return f"{label}: {', '.join(map(_view, reads))} -> {', '.join(map(_view, writes))}"


def _view(view: View) -> str:
    sizes, strides = ("x".join(map(str, numbers)) for numbers in (view.shape, view.strides))
    return f"{view.buffer.place.value} {view.dtype} {sizes} : {strides}"
