"""Names the compiler's rewrites and the conditions of each; reports tell where one fired, or which condition failed.

A rewrite claims that two graphs give the same numbers. tests/rewrites proves each claim on graphs that match it, and on
graphs that miss one of its conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from ..graph import Node

# a callback that reports the condition of a rewrite that does not hold
No = Callable[[str], None]
READ_ONCE, NOT_RETURNED = "no other op reads the inner results", "the net does not return the inner results"
ALONE = (READ_ONCE, NOT_RETURNED)


class Report(NamedTuple):
    """A report of a rewrite about a node, the last one that it would replace, or about a step of a plan, by its label.

    `condition`: the condition that does not hold; "" if the rewrite fired.
    """

    rewrite: str
    node: Node | str
    condition: str

    @property
    def fired(self) -> bool:
        return not self.condition


_listening: ContextVar[list[Report] | None] = ContextVar("_listening", default=None)
REWRITES: dict[str, Rewrite] = {}


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of a graph: its name, its claim in a sentence, and its conditions on the graph besides kinds of ops."""

    name: str
    claim: str
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.name in REWRITES:
            raise ValueError(f"there are two rewrites {self.name!r}")
        REWRITES[self.name] = self

    def fired(self, node: Node | str) -> None:
        self.tell(node, "")

    def declined(self, node: Node | str, condition: str) -> None:
        self.tell(node, condition)

    def tell(self, node: Node | str, condition: str) -> None:
        """Reports that the rewrite was declined for `condition`, or that it fired if `condition` is ""."""
        reports = _listening.get()
        if reports is not None:
            if condition not in ("", *self.conditions):
                raise ValueError(f"{self.name} has no condition {condition!r}")
            reports.append(Report(self.name, node, condition))


@contextmanager
def listening() -> Iterator[list[Report]]:
    """Collects the reports of all graphs that this thread compiles within the context."""
    reports: list[Report] = []
    token = _listening.set(reports)
    try:
        yield reports
    finally:
        _listening.reset(token)
