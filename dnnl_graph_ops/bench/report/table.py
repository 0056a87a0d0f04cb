"""Aligned tables for a terminal, and the same as Markdown, of layers, models, and models of many sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..document import Document
from . import models, sizes, summary

# title, columns, rows
Table = tuple[str, list[str], list[list[str]]]


def text(document: Document) -> str:
    """The whole report as plain text: the conclusion comes last, where a terminal ends."""
    head, conclusion, tables = _parts(document)
    parts = [*head]
    for title, columns, body in reversed(tables):
        parts += ["", title, *aligned(columns, body)]
    remarks = [f"  {row.title}: {said}" for row in document if (said := summary.remarks(row))]
    parts += ["", "remarks", *remarks] if remarks else []
    parts += [f"note: {note}" for note in document.notes]
    return "\n".join([*parts, *(["", *conclusion] if conclusion else [])]) + "\n"


def markdown(document: Document) -> str:
    """For a README or an issue: the conclusion first, then tables, machine and versions."""
    head, conclusion, tables = _parts(document)
    parts = [*conclusion, ""] if conclusion else []
    for title, columns, body in tables:
        parts += [f"{title[0].upper()}{title[1:]}:", "", *piped(columns, body), ""]
    parts += [f"- {line.strip()}" for line in [*head, *document.notes]]
    return "\n".join(parts) + "\n"


def _parts(document: Document) -> tuple[list[str], list[str], list[Table]]:
    """Machine and method; conclusions; tables, the most important one first."""
    if document.options.get("sizes"):
        return sizes.header(document), [], list(sizes.tables(document))
    if models.of_models(document):
        return summary.header(document), list(models.conclusion(document)), list(models.tables(document))
    return summary.header(document), [], list(_layers(document))


def _layers(document: Document) -> Iterator[Table]:
    peers = document.peers()
    if body := summary.means(document):
        yield summary.MEANS_TITLE, summary.columns_of_means(peers), _shown(body)
    kept = [i for i, name in enumerate(summary.columns(peers)) if name != "spread"]
    rows = _shown(summary.cells(row, peers) for row in document)
    marks = ["*" if summary.remarks(row) else "" for row in document]
    names = [*(summary.columns(peers)[i] for i in kept), ""]
    yield "rows", names, [[*(cells[i] for i in kept), mark] for cells, mark in zip(rows, marks, strict=True)]


def _shown(body: Iterable[Sequence[summary.Cell]]) -> list[list[str]]:
    return [[f"{cell.text} {cell.note}".rstrip() for cell in cells] for cells in body]


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
