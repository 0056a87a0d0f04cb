"""Lays out rows of text as a table of at most 120 columns, for reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import zip_longest
from textwrap import wrap

WIDTH = 120
_GAP, _INDENT = "  ", "    "
# letters of a word, and those before the "..." of a longer one
_LONGEST, _FIRST = 36, 11


def table(rows: Sequence[Sequence[str]], notes: Sequence[str] = (), width: int = WIDTH) -> Iterator[str]:
    """Yields the lines of a table; where it would exceed `width`, the cells of its widest columns are wrapped.

    `notes`: for each of the first rows, a text in indented lines of its own below the row; empty for none.
    """
    widths = _widths(list(zip(*rows, strict=True)), width)
    for row, note in zip_longest(rows, notes, fillvalue=""):
        cells = [_lines(cell, most) for cell, most in zip(row, widths, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            yield _GAP.join(text.ljust(most) for text, most in zip(line, widths, strict=True)).rstrip()
        yield from (_INDENT + line for line in _lines(note, width - len(_INDENT)))


def html(rows: Sequence[Sequence[str]], notes: Sequence[str] = (), title: str = "") -> str:
    """Returns a table as HTML for a notebook, the first row as its head; `notes` as of `table`, `title` above it."""
    head, *body = rows
    parts = ["<table style='text-align: left'>"]
    parts += [f"<caption style='text-align: left'>{escape(title)}</caption>"] if title else []
    parts.append(f"<thead><tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr></thead><tbody>")
    for row, note in zip_longest(body, notes[1:], fillvalue=""):
        parts.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>")
        if note:
            parts.append(
                f"<tr><td colspan='{len(head)}' style='padding-left: 2em'><small>{escape(note)}</small></td></tr>"
            )
    return "".join([*parts, "</tbody></table>"])


def _widths(columns: Sequence[Sequence[str]], most: int) -> list[int]:
    """Returns the widths of columns, `most` in all; breaks words only if no column is wider than its longest word."""
    widths = [max(map(len, column)) for column in columns]
    words = [max(map(len, " ".join(column).split()), default=0) for column in columns]
    while sum(widths) > most - len(_GAP) * (len(widths) - 1):
        spare = [width * (width > word) for width, word in zip(widths, words, strict=True)]
        widest = spare if any(spare) else widths
        widths[widest.index(max(widest))] -= 1
    return widths


def paragraph(text: str) -> Iterator[str]:
    """Yields a text in lines of at most `WIDTH` columns, those after the first indented."""
    for number, line in enumerate(_lines(text, WIDTH - len(_INDENT))):
        yield _INDENT + line if number else line


def with_short_names(text: str) -> str:
    """Returns a text in which each longer word than `_LONGEST` is its first and last letters around "..."."""
    last = _LONGEST - _FIRST - 3
    words = text.split(" ")
    return " ".join(word if len(word) <= _LONGEST else f"{word[:_FIRST]}...{word[-last:]}" for word in words)


def _lines(text: str, width: int) -> list[str]:
    return wrap(text, width, break_on_hyphens=False) if len(text) > width else [text] if text else []
