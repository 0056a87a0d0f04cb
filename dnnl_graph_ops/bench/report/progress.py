"""The live line on a terminal: how far, what now, how long still. Plain lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from ...progress import drawn, write_line
from ..rows import Row
from ..runner import Progress
from .summary import seconds_text


class Bar(Progress):
    """A `runner.Progress` that writes to a stream (stderr)."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._total = self._done = self._measured = 0
        self._begin = time.monotonic()
        self._label = ""

    def begin(self, total: int, done: int) -> None:
        self._total, self._done, self._begin = total, done, time.monotonic()
        if done:
            self.note(f"{done} of {total} rows are in the file already")

    def expect(self, seconds: float) -> None:
        self.note(f"{self._total - self._done} rows take about {_rounded(seconds)} at most")

    def case(self, label: str) -> None:
        self._label = label
        self._draw()

    def row(self, row: Row) -> None:
        self._done += 1
        self._measured += 1
        if self._live:
            self._draw()
        else:
            self._print(f"[{self._done}/{self._total}] {row.title}: {_said(row)}")

    def note(self, text: str) -> None:
        self._print(f"note: {text}")

    def end(self) -> None:
        if self._live:
            write_line(self._stream, "")

    def line(self) -> str:
        """The bar as text, without its control characters."""
        spent = time.monotonic() - self._begin
        left = "?"
        if self._measured:
            left = _rounded(spent / self._measured * (self._total - self._done))
        return f"{drawn(self._done, self._total)}  {_rounded(spent)} gone, {left} left  {self._label}"

    def _draw(self) -> None:
        if self._live:
            write_line(self._stream, self.line())

    def _print(self, text: str) -> None:
        self._stream.write(("\r\x1b[K" if self._live else "") + text + "\n")
        self._stream.flush()
        self._draw()


def _said(row: Row) -> str:
    if row.status != "ok" or row.own is None:
        return f"{row.status}: {row.reason}"
    ratios = ", ".join(f"{r.peer} {r.median:.2f}x" for r in row.ratios)
    flags = f" ({', '.join(row.flags)})" if row.flags else ""
    return f"{seconds_text(row.own.median)}; {ratios or 'no peer'}{flags}"


def _rounded(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
