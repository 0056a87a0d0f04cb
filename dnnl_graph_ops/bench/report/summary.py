"""Summarises a document in a few numbers, and formats numbers. Shared by every kind of report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...algorithms.table import filters
from ...reports.peaks import UNBOUND, share_text
from ...words import counted
from ..document import Document
from ..machine import describe
from ..problem import CLASSES, OPS, way
from ..quantized import DTYPE
from ..rows import Entry, Ratio, Row
from ..statistics import geometric_mean

DIRECTION_NAMES = {"fwd": "forward", "bwd_d": "backward data", "bwd_w": "backward weights"}
RATIO_MEANING = "speedup: peer's time / this package's"
MEANS_TITLE = f"geometric means ({RATIO_MEANING}; best peer: the fastest peer of each row)"
EVERY_CLASS = "all"
# columns of words
WORDS = frozenset(
    ("layer", "suite", "dir", "dtype", "layout", "direction", "against", "remarks", "class", "lowest row",
     "model", "")
)  # fmt: skip
_SUBJECTS = {"conv_transpose": "transposed convolutions", "conv": "convolutions"}


class Cell(NamedTuple):
    """An entry of a table: its text with a note and an explanation, and its number, by which readers sort."""

    text: str
    value: float | None = None
    is_ratio: bool = False
    note: str = ""
    title: str = ""


def subject(document: Document) -> str:
    """Returns the ops of the rows as text."""
    ops = dict.fromkeys([row.op for row in document] or _SUBJECTS)
    return " and ".join(_SUBJECTS[op] for op in ops)


def direction_name(op: str, direction: str) -> str:
    return way(op, DIRECTION_NAMES[direction])


def _groups(document: Document) -> dict[tuple[str, str, str], list[Row]]:
    """Rows by op, direction and type."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in document:
        found.setdefault((row.op, row.direction, row.dtype), []).append(row)
    return found


def columns_of_means(peers: Sequence[str]) -> list[str]:
    """The columns of `means`."""
    return ["direction", "dtype", "class", "rows", "best peer", *peers, "lowest", "lowest row"]


def means(document: Document) -> list[list[Cell]]:
    """Geometric means of several rows, of ordinary convolutions by class of layer too; best layouts of both sides."""
    found = []
    for (op, direction, dtype), rows in _groups(document).items():
        compared = [row for row in rows if row.ratios]
        if len(compared) < 2:
            continue
        classes = CLASSES if op != OPS[0] else ()
        groups = {name: [row for row in compared if row.layer_class == name] for name in classes}
        for name, members in {**groups, EVERY_CLASS: compared}.items():
            if members:
                head = map(Cell, (direction_name(op, direction), dtype, name))
                found.append([*head, Cell(str(len(members)), len(members)), *_means_of(members, document.peers())])
    return found


def _means_of(rows: list[Row], peers: Sequence[str]) -> list[Cell]:
    best = [min(row.ratios, key=lambda ratio: ratio.median) for row in rows]
    lowest, where = min(zip(best, rows, strict=True), key=lambda pair: pair[0].median)
    means = [_mean_cell([ratio.median for ratio in best], _place(lowest, where))]
    for peer in peers:
        known = [(ratio, row) for row in rows if (ratio := row.ratio(peer))]
        least = min(known, key=lambda pair: pair[0].median, default=None)
        means.append(_mean_cell([ratio.median for ratio, _ in known], _place(*least) if least else ""))
    return [*means, _ratio_cell(lowest), Cell(f"{where.name} ({lowest.peer})")]


def _mean_cell(values: list[float], title: str) -> Cell:
    if not values:
        return Cell("-")
    mean = geometric_mean(values)
    return Cell(f"{mean:.2f}", mean, True, title=title)


def _place(ratio: Ratio, row: Row) -> str:
    return f"lowest {ratio.median:.2f} [{ratio.low:.2f} {ratio.high:.2f}]: {row.name} ({ratio.peer})"


def _ratio_cell(ratio: Ratio) -> Cell:
    return Cell(f"{ratio.median:.2f}", ratio.median, True, f"[{ratio.low:.2f} {ratio.high:.2f}]")


def columns(peers: Sequence[str]) -> list[str]:
    """The columns of `cells`."""
    figures = ("gmac", "time", "native", "layout", "GFLOP/s", "of peak", "spread")
    return ["layer", "dir", "dtype", *figures, *peers, "rounds"]


def cells(row: Row, peers: Sequence[str]) -> list[Cell]:
    """A row with its best entry and the ratios to these peers."""
    source = f"{row.descriptor}; {row.problem.get('source', '')}"
    head = [Cell(row.name, title=source), Cell(row.way), Cell(row.dtype), Cell(f"{row.gmacs:.3f}", row.gmacs)]
    own = row.own
    if own is None:
        return [*head, Cell(row.status), *[Cell("")] * (len(columns(peers)) - 5)]
    ratios = (row.ratio(peer) for peer in peers)
    return [
        *head,
        Cell(seconds_text(own.median), own.median, note=_error_note(row, own)),
        Cell(seconds_text(own.native), own.native),
        Cell(own.label.partition(" ")[2], title=own.detail),
        Cell(rate_text(own.gflops), own.gflops),
        Cell(_of_peak(row, own), own.peak_share),
        Cell(percent_text(own.spread), own.spread),
        *(_against(row, peer, ratio) for peer, ratio in zip(peers, ratios, strict=True)),
        Cell(str(len(own.rounds)), len(own.rounds)),
    ]


def _of_peak(row: Row, own: Entry) -> str:
    if own.peak_share is None:
        return "-"
    return share_text(own.peak_share, busy=row.peak_busy, fewer=filters(own.detail))


def _against(row: Row, peer: str, ratio: Ratio | None) -> Cell:
    """The ratio to a peer, or why there is none."""
    entries = [entry for entry in row.entries if entry.peer == peer]
    if ratio is None:
        return Cell(entries[0].status, title=entries[0].reason) if entries else Cell("-")
    cell = _ratio_cell(ratio)
    note = _error_note(row, next((entry for entry in entries if entry.label == ratio.entry), None))
    return cell._replace(note=f"{cell.note} {note}".rstrip())


def _error_note(row: Row, entry: Entry | None) -> str:
    """The error of results with fewer bits than f32, where such were measured."""
    told = row.dtype == DTYPE or any(one.options.get("precision") for one in row.entries)
    return f"(error {entry.error:.0e})" if told and entry is not None and entry.error is not None else ""


def header(document: Document) -> list[str]:
    """Returns the lines before the figures of every report: machine, versions and settings."""
    text = []
    for index, machine in enumerate(document.machines):
        name = f"machine {index}: " if len(document.machines) > 1 else "machine: "
        text.append(name + describe(machine))
        cache = ", ".join(f"{k} {bytes_text(v)}" for k, v in machine["caches"].items())
        cpus = ",".join(map(str, machine["pinned_to"]))
        text.append(
            f"  caches {cache}; governor {machine['governor']}; {machine['kernel']}; "
            f"Python {machine['python']}, NumPy {machine['numpy']}; pinned to CPUs {cpus}"
        )
    if any(row.peak_busy for row in document.rows):
        text.append(f"  {UNBOUND} other processes used the machine while the peak was measured: the peak may be higher")
    versions = (", ".join(f"{k} {v}" for k, v in each.items()) for each in document.versions.values())
    text.append(f"versions: {'; '.join(dict.fromkeys(versions))}")
    options = document.options
    if options:
        text.append(
            f"method: each framework runs in its own process, in turns of at most {1e3 * options['burst']:.0f} ms in "
            f"random order; ratios compare times of one round; {options['min_rounds']} to {options['max_rounds']} "
            f"rounds, until 95 % intervals are narrower than {100 * options['interval']:.0f} %; warm caches; "
            f"{options['weights']} weights forward, variable weights backward; results are compared first; "
            f"ratios are {RATIO_MEANING}"
        )
    state = "" if document.complete else " (interrupted: incomplete)"
    text.append(f"measured {document.created}, {counted(len(document.rows), 'row')} in {document.seconds:.0f} s{state}")
    contended = sum("contended" in row.flags for row in document)
    if contended:
        text.append(
            f"WARNING: {contended} of {len(document.rows)} rows are contended: other processes used the "
            "machine in most of their rounds; measure these rows again on an idle machine"
        )
    return text


def seconds_text(seconds: float | None) -> str:
    """Three digits and a unit."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds / scale < 999.5 else f"{seconds / scale:.0f} {unit}"
    return f"{seconds / 1e-6:.2f} us"


def bytes_text(count: float) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def rate_text(gflops: float | None) -> str:
    """Three digits without an exponent."""
    return "-" if gflops is None else f"{gflops:.0f}" if gflops >= 99.95 else f"{gflops:.3g}"


def percent_text(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def remarks(row: Row) -> str:
    """Everything that a reader of the row should know."""
    words = list(row.flags)
    for entry in row.entries:
        words += [f"{entry.label}: {flag}" for flag in entry.flags]
        if entry.status != "ok":
            words.append(f"{entry.label}: {entry.status} ({entry.reason[:90]})")
    if row.reason:
        words.insert(0, row.reason)
    return "; ".join(words)
