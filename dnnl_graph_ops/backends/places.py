"""Where values live while a program is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..graph import Value
from ..lowering.program import Program, View


class Places(dict[Value, View]):
    """Where values live, as far as anything has been made for them, and where the others will.

    `planned`: places of values that nothing has been made for yet. `joined`: results of Concat in whose places operands
    are, or are to be copied. `entering`: inputs and constants that live in a copy, and what is copied. `leaving`:
    outputs that live beside what the net returns, which they are copied to at the end.
    """

    def __init__(self, given: Mapping[Value, View]) -> None:
        super().__init__(given)
        self.planned: dict[Value, View] = {}
        self.joined: set[Value] = set()
        self.entering: dict[Value, View] = {}
        self.leaving: dict[Value, View] = {}

    def take_in(self, program: Program, values: Iterable[Value]) -> None:
        """Append the copies of those of the values that live in one, unless it was made before."""
        for value in values:
            if value in self.entering:
                program.copy(self.entering.pop(value), self[value], "copy in another order")


def place_of(value: Value, views: Mapping[Value, View]) -> View | None:
    """Where a value lives or will, if that is known."""
    planned = views.planned if isinstance(views, Places) else {}
    return views.get(value) or planned.get(value)


def view_of(program: Program, value: Value, views: dict[Value, View]) -> View:
    """Where a value lives; an intermediate one that no place is planned for gets a dense buffer."""
    if value not in views:
        views[value] = place_of(value, views) or program.scratch(value.shape, value.dtype)  # type: ignore[arg-type]
    return views[value]
