"""The aligned table for a terminal, and the same as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Document
from . import summary


def text(document: Document) -> str:
    """The whole report as plain text: header, rows, remarks, means."""
    parts = [*summary.header(document), ""]
    columns, body = _rows(document)
    parts += aligned(columns, body)
    notes = [f"  {row.title}: {said}" for row in document if (said := summary.remarks(row))]
    if notes:
        parts += ["", "remarks", *notes]
    parts += [f"note: {note}" for note in document.notes]
    columns, body = _means(document)
    if body:
        parts += ["", f"geometric means of the ratio ({summary.RATIO_MEANING})", *aligned(columns, body)]
    columns, body = _classes(document)
    if body:
        parts += ["", f"geometric means by class ({summary.CLASS_MEANING})", *aligned(columns, body)]
    return "\n".join(parts) + "\n"


def markdown(document: Document) -> str:
    """For a README or an issue: means first, then every row, then machine and versions."""
    parts: list[str] = []
    columns, body = _means(document)
    if body:
        parts += [f"Geometric means ({summary.RATIO_MEANING}):", "", *piped(columns, body), ""]
    columns, body = _classes(document)
    if body:
        parts += [f"Geometric means by class ({summary.CLASS_MEANING}):", "", *piped(columns, body), ""]
    columns, body = _rows(document)
    parts += [*piped(columns, body), ""]
    parts += [f"- {line.strip()}" for line in summary.header(document)]
    parts += [f"- {note}" for note in document.notes]
    return "\n".join(parts) + "\n"


def _rows(document: Document) -> tuple[list[str], list[list[str]]]:
    peers = document.peers()
    kept = [(i, name) for i, name in enumerate(summary.columns(peers)) if name != "spread"]
    body = []
    for row in document:
        shown = _shown(summary.cells(row, peers))
        body.append([*(shown[i] for i, _ in kept), "*" if summary.remarks(row) else ""])
    return [*(name for _, name in kept), ""], body


def _means(document: Document) -> tuple[list[str], list[list[str]]]:
    return list(summary.MEANS), [_shown(cells) for cells in summary.means(document)]


def _classes(document: Document) -> tuple[list[str], list[list[str]]]:
    body = [_shown(cells) for cells in summary.class_means(document)]
    return summary.class_columns(document.peers()), body


def _shown(cells: Sequence[summary.Cell]) -> list[str]:
    return [f"{cell.text} {cell.note}".rstrip() for cell in cells]


def aligned(columns: list[str], body: list[list[str]]) -> list[str]:
    table = [columns, *body]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    left = {i for i, name in enumerate(columns) if name in summary.WORDS}

    def line(row: list[str]) -> str:
        cells = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        return "  ".join(cells).rstrip()

    return [line(columns), "  ".join("-" * w for w in widths if w), *(line(row) for row in body)]


def piped(columns: list[str], body: list[list[str]]) -> list[str]:
    rule = ["---" if name in summary.WORDS else "---:" for name in columns]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in [columns, rule, *body]]
