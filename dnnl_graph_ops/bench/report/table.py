"""The aligned table for a terminal, and the same as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Document
from ..rows import Row
from . import summary


def text(document: Document) -> str:
    """The whole report as plain text: header, rows, remarks, means."""
    parts = [*summary.header(document), ""]
    columns, body = _rows(document)
    parts += _aligned(columns, body)
    notes = [f"  {row.name} {row.direction} {row.dtype}: {said}" for row in document if (said := summary.remarks(row))]
    if notes:
        parts += ["", "remarks", *notes]
    parts += [f"note: {note}" for note in document.notes]
    columns, body = _means(document)
    if body:
        parts += ["", f"geometric means of the ratio ({summary.RATIO_MEANING})", *_aligned(columns, body)]
    return "\n".join(parts) + "\n"


def markdown(document: Document) -> str:
    """For a README or an issue: means first, then every row, then machine and versions."""
    parts: list[str] = []
    columns, body = _means(document)
    if body:
        parts += [f"Geometric means ({summary.RATIO_MEANING}):", "", *_piped(columns, body), ""]
    columns, body = _rows(document)
    parts += [*_piped(columns, body), ""]
    parts += [f"- {line.strip()}" for line in summary.header(document)]
    parts += [f"- {note}" for note in document.notes]
    return "\n".join(parts) + "\n"


def _rows(document: Document) -> tuple[list[str], list[list[str]]]:
    peers = document.peers()
    columns = [
        "layer",
        "dir",
        "dtype",
        "gmac",
        "ours",
        "native",
        "layout",
        "GFLOP/s",
        "of peak",
        *peers,
        "rounds",
        "",
    ]
    return columns, [_cells(row, peers) for row in document]


def _cells(row: Row, peers: Sequence[str]) -> list[str]:
    own = row.own
    head = [row.name, row.direction, row.dtype, f"{row.gmacs:.3f}"]
    mark = "*" if summary.remarks(row) else ""
    if own is None:
        return [*head, row.status, "", "", "", "", *("" for _ in peers), "", mark]
    ratios = []
    for peer in peers:
        ratio = row.ratio(peer)
        ratios.append(f"{ratio.median:.2f} [{ratio.low:.2f} {ratio.high:.2f}]" if ratio else "-")
    return [
        *head,
        summary.seconds_text(own.median),
        summary.seconds_text(own.native),
        own.label.partition(" ")[2],
        summary.rate_text(own.gflops),
        summary.percent_text(own.peak_share),
        *ratios,
        str(len(own.rounds)),
        mark,
    ]


def _means(document: Document) -> tuple[list[str], list[list[str]]]:
    columns = ["direction", "dtype", "against", "compared", "mean", "lowest", "highest", "faster in"]
    body = [
        [
            summary.DIRECTION_NAMES[line.direction],
            line.dtype,
            line.peer,
            line.what,
            f"{line.mean:.2f}",
            f"{line.lowest:.2f}",
            f"{line.highest:.2f}",
            f"{line.wins} of {line.count}",
        ]
        for line in summary.lines(document)
    ]
    return columns, body


def _aligned(columns: list[str], body: list[list[str]]) -> list[str]:
    table = [columns, *body]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    left = {i for i, name in enumerate(columns) if name in _LEFT}

    def line(row: list[str]) -> str:
        cells = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        return "  ".join(cells).rstrip()

    return [line(columns), "  ".join("-" * w for w in widths if w), *(line(row) for row in body)]


_LEFT = {"layer", "dir", "dtype", "layout", "direction", "against", "compared", ""}


def _piped(columns: list[str], body: list[list[str]]) -> list[str]:
    rule = ["---" if name in _LEFT else "---:" for name in columns]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in [columns, rule, *body]]
