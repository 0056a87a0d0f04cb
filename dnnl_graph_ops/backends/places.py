"""Keeps the view, in a buffer of the program, of each value of a graph while the program is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..graph import Value
from ..lowering.program import Program, View


class Places(dict[Value, View]):
    """The view of each value that a step reads or writes, and the views that are planned for other values.

    `planned`: views of intermediate values that no step reads or writes yet. `joined`: results of Concat, into whose
    parts the operands are written or copied. `entering`: inputs and constants that steps read from a copy in another
    order, each with the view to copy from; an entry goes when the copy is appended. `leaving`: outputs that steps write
    in another order than the net returns, each with the view that the net returns, to be copied to at the end.
    """

    def __init__(self, given: Mapping[Value, View]) -> None:
        super().__init__(given)
        self.planned: dict[Value, View] = {}
        self.joined: set[Value] = set()
        self.entering: dict[Value, View] = {}
        self.leaving: dict[Value, View] = {}

    def take_in(self, program: Program, values: Iterable[Value]) -> None:
        """Appends the copy of each of the values that is in `entering`, once: at its first reader."""
        for value in values:
            if value in self.entering:
                program.copy(self.entering.pop(value), self[value], "copy in another order")


def place_of(value: Value, views: Mapping[Value, View]) -> View | None:
    """Returns the view of a value, or the view that is planned for it; None where there is neither."""
    planned = views.planned if isinstance(views, Places) else {}
    return views.get(value) or planned.get(value)


def view_of(program: Program, value: Value, views: dict[Value, View]) -> View:
    """Returns the view of a value and enters it in `views`; without a planned view a dense scratch buffer is added."""
    if value not in views:
        views[value] = place_of(value, views) or program.scratch(value.shape, value.dtype)  # type: ignore[arg-type]
    return views[value]
