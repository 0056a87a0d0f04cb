"""Tables of whole models: times of every framework, percentiles, seconds of compiling, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..document import Document
from ..models import RIVALS
from ..rows import Entry, Ratio, Row
from ..statistics import geometric_mean, interval_within

_MEGA = 1e6


def of_models(document: Document) -> bool:
    return any(row.model for row in document)


def best_rival(row: Row) -> Ratio | None:
    """The ratio to the fastest of `RIVALS`."""
    return min((r for r in row.ratios if r.peer in RIVALS), key=lambda r: r.median, default=None)


def conclusion(document: Document) -> Iterator[str]:
    """Sentences on the mean and the lowest speedup, on slower models, and on models that do not run here."""
    compared = [(best, row.name) for row in document if (best := best_rival(row))]
    if len(compared) > 1:
        ratio, name = min(compared, key=lambda pair: pair[0].median)
        behind = [who for best, who in compared if best.high < 1]
        yield (
            f"speedup against the fastest of {', '.join(peer for peer in RIVALS if peer in document.peers())}: mean "
            f"{geometric_mean([best.median for best, _ in compared]):.3f} of {len(compared)} models, lowest "
            f"{ratio.median:.3f} [{ratio.low:.3f} {ratio.high:.3f}] ({name}, {ratio.peer}); faster in "
            f"{sum(best.median > 1 for best, _ in compared)}, slower by more than the interval in {len(behind)}"
            f"{': ' if behind else ''}{', '.join(behind)}"
        )
    if absent := [f"{row.name} ({row.reason})" for row in document if row.own is None]:
        yield f"not run here: {'; '.join(absent)}"


def tables(document: Document) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Titles, columns and rows."""
    labels = list(dict.fromkeys(entry.label for row in document for entry in row.entries))
    body = []
    for row in document:
        best, own = best_rival(row), row.own
        ratio = f"{best.median:.2f} [{best.low:.2f} {best.high:.2f}]" if best else "-"
        error = f"{own.error:.0e}" if own is not None and own.error is not None else "-"
        times = _cells(row, labels, _milliseconds)
        body.append([row.name, *times, ratio, best.peer if best else "-", error])
    heads = ["model", *labels, "speedup", "against", "error"]
    yield "milliseconds, median over rounds with 95 % interval", heads, body
    for title, tell in _MORE:
        every = [[row.name, *_cells(row, labels, tell)] for row in document]
        body = [cells for cells in every if set(cells[1:]) != {"-"}]
        if body:
            yield title, ["model", *labels], body


def _cells(row: Row, labels: Sequence[str], tell: Callable[[Entry], str]) -> list[str]:
    entries = {entry.label: entry for entry in row.entries}
    return [tell(entries[label]) if label in entries else "-" for label in labels]


def _milliseconds(entry: Entry) -> str:
    if entry.median is None:
        return entry.status
    interval = interval_within(entry.rounds)
    return f"{1e3 * entry.median:.2f} [{1e3 * interval.low:.2f} {1e3 * interval.high:.2f}]"


def _percentiles(entry: Entry) -> str:
    percentiles = (entry.p50, entry.p90, entry.p99)
    return "-" if None in percentiles else "/".join(f"{1e3 * (value or 0.0):.2f}" for value in percentiles)


def _compile(entry: Entry) -> str:
    return "-" if entry.compile_s is None else f"{entry.compile_s:.2f}"


def _memory(entry: Entry) -> str:
    if entry.memory_bytes is None or entry.peak_bytes is None:
        return "-"
    return f"{entry.memory_bytes / _MEGA:.0f} ({entry.peak_bytes / _MEGA:.0f})"


def _error(entry: Entry) -> str:
    return "-" if entry.error is None else f"{entry.error:.0e}"


_MORE = (
    ("milliseconds of a call, percentiles 50/90/99", _percentiles),
    ("seconds of loading and compiling", _compile),
    ("MB at the peak, without the imports (with them)", _memory),
    ("largest error / largest expected value", _error),
)
