"""Runs passes and stages in order, and collects the graph, its groups or its steps as text after each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from .._core import check_deadline

T = TypeVar("T")
_DUMP = "DNNL_GRAPH_OPS_DUMP"
_watching: ContextVar[list[tuple[str, str]] | None] = ContextVar("_watching", default=None)


@dataclass(frozen=True)
class Stage(Generic[T]):
    """A stage on the way from ops to a plan: `run` changes a record, and `text` tells the change.

    `applies`: whether the stage runs on a record.
    """

    name: str
    run: Callable[[T], None]
    text: Callable[[T], str]
    applies: Callable[[T], bool] = lambda record: True


def run(stages: Sequence[Stage[T]], record: T) -> T:
    """Runs the stages that apply to a record, one after the other, and returns the record."""
    heard = _watching.get() is not None or _dumps()
    for stage in stages:
        if stage.applies(record):
            check_deadline("compilation")
            stage.run(record)
            if heard:
                tell(f"after {stage.name}", partial(stage.text, record))
    return record


def _dumps() -> bool:
    return os.environ.get(_DUMP) == "passes"


def tell(name: str, text: Callable[[], str]) -> None:
    """Adds a text to the list of `watching`, if a caller watches; DNNL_GRAPH_OPS_DUMP=passes prints it to stderr."""
    seen, dumps = _watching.get(), _dumps()
    if seen is None and not dumps:
        return
    told = text()
    if seen is not None:
        seen.append((name, told))
    if dumps:
        print(f"dnnl_graph_ops, graph {name}:\n{told}\n", file=sys.stderr)


@contextmanager
def watching() -> Iterator[list[tuple[str, str]]]:
    """Collects name and text of the graph after each pass and stage, of nets that this thread compiles meanwhile."""
    seen: list[tuple[str, str]] = []
    token = _watching.set(seen)
    try:
        yield seen
    finally:
        _watching.reset(token)
