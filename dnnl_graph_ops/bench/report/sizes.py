"""Tables of models called with one size after another: first calls compared with later ones, and resident memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...words import counted
from ..document import Document
from ..rows import EXCUSED, Calls, Entry, Row
from . import summary

_MEGA = 1e6
_COLUMNS = [
    "competitor", "load s", "first ms", "later ms", f"first - {EXCUSED} later ms", "95th", "all once s", "speedup once",
    "speedup later", "MB before", "after", "one size", "growth", "peak", "error",
]  # fmt: skip


def tables(document: Document) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Titles, columns and rows: a table a model."""
    for row in document:
        yield _title(row), _COLUMNS, list(_body(row))


def header(document: Document) -> list[str]:
    """Machine, versions and method."""
    method = (
        "method: each framework runs in its own process; for each size its first call and then later calls for at "
        f"most {1e3 * document.options['burst']:.0f} ms, in random order, after a call of the last size where that is "
        "short; first results are compared at every size; medians over sizes; resident memory after all sizes, and of "
        f"a process that knew the largest size only (one size); speedups are {summary.RATIO_MEANING}"
    )
    return [method if line.startswith("method:") else line for line in summary.header(document)]


def _title(row: Row) -> str:
    shapes = " ".join("x".join(shape) for shape in row.model.get("inputs", ()))
    return f"{row.name}, inputs {shapes}, {counted(len(row.model.get('sizes', ())), 'size')}"


def _body(row: Row) -> Iterator[list[str]]:
    own = row.own
    for entry in row.entries:
        if entry.calls is None or entry.median is None:
            yield [entry.label, entry.status, *[""] * (len(_COLUMNS) - 2)]
        else:
            yield [entry.label, *_figures(entry, entry.calls, own.calls if own else None)]


def _figures(entry: Entry, calls: Calls, own: Calls | None) -> list[str]:
    same = own is not None and len(own.laters) == len(calls.laters)
    pairs = zip(calls.laters, own.laters, strict=True) if own is not None and same else ()
    ratios = [theirs / ours for theirs, ours in pairs]
    return [
        f"{entry.compile_s or 0.0:.2f}",
        _milliseconds(entry.median or 0.0),
        _milliseconds(calls.later),
        _milliseconds(calls.excess),
        _milliseconds(calls.excess_p95),
        f"{calls.total:.3g}",
        f"{calls.total / own.total:.2f}" if own is not None and same else "-",
        f"{np.median(ratios):.3f}" if ratios else "-",
        *(f"{count / _MEGA:.0f}" for count in (entry.before_bytes or 0, calls.after_bytes, calls.alone_bytes)),
        f"{calls.growth_bytes / _MEGA:+.0f}",
        f"{(entry.peak_bytes or 0) / _MEGA:.0f}",
        "-" if entry.error is None else f"{entry.error:.0e}",
    ]


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}"
