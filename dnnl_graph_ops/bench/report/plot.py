"""The picture: speedup per layer. Only this module imports matplotlib."""

from __future__ import annotations

import io
import itertools
import textwrap
from pathlib import Path
from typing import Any, Final

from ...errors import InvalidArgumentError, RuntimeUnavailableError
from ..document import Document, write_bytes
from ..machine import describe
from ..rows import Row
from . import summary

# Okabe and Ito's palette: told apart by everyone
_COLOURS: Final = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#0072B2", "#000000")
# a bar's height; thinner where there are many, so that a picture stays below some 35 inches
_BAR_INCHES: Final = (0.055, 0.17)
_TALLEST: Final = 32.0
_MOST_BARS: Final = 160
_MOST_COLUMNS: Final = 5
_FORMATS: Final = ("png", "svg", "pdf")


def save(document: Document, path: str | Path) -> None:
    """Writes the picture; the suffix gives the format (png, svg, pdf).

    Raises:
        RuntimeUnavailableError: matplotlib is not installed.
        InvalidArgumentError: another suffix, or the file cannot be written.
    """
    write_bytes(path, render(document, format_of(path)))


def format_of(path: str | Path) -> str:
    """The format that the suffix gives.

    Raises:
        InvalidArgumentError: another suffix.
    """
    suffix = Path(path).suffix.lstrip(".").lower()
    if suffix not in _FORMATS:
        raise InvalidArgumentError(f"{path}: no picture format; end the name in .{', .'.join(_FORMATS)}")
    return suffix


def render(document: Document, kind: str = "svg") -> bytes:
    """The picture as bytes."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RuntimeUnavailableError(f"plot: {error}; pip install matplotlib") from None
    rows = [row for row in document if row.own is not None]
    bars = [row for row in rows if row.ratios][:_MOST_BARS]
    count = sum(len(row.ratios) for row in bars) + len(bars)
    bar = min(_BAR_INCHES[1], max(_BAR_INCHES[0], _TALLEST / max(1, count)))
    with matplotlib.rc_context({"svg.fonttype": "none", "font.size": 9, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(11, max(4.0, 2.6 + bar * count)), layout="constrained")
        FigureCanvasAgg(figure)
        colours = dict(zip(document.peers(), itertools.cycle(_COLOURS), strict=False))
        _draw(figure, bars, colours, len(rows))
        machine = describe(document.machines[0]) if document.machines else ""
        versions = ", ".join(f"{k} {v}" for each in document.versions.values() for k, v in each.items())
        title = (f"{summary.subject(document).capitalize()} on {machine}", versions)
        figure.suptitle("\n".join(textwrap.fill(line, 110) for line in title), fontsize=10)
        out = io.BytesIO()
        figure.savefig(out, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()


def _draw(figure: Any, rows: list[Row], colours: dict[str, str], all_rows: int) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes = figure.subplots()
    several = len({(r.way, r.dtype) for r in rows}) > 1
    position, ticks, names = 0.0, [], []
    drawn: dict[str, Any] = {}
    for row in rows:
        first = position
        for ratio in row.ratios:
            error = [[max(0.0, ratio.median - ratio.low)], [max(0.0, ratio.high - ratio.median)]]
            drawn[ratio.peer] = axes.barh(
                position, ratio.median - 1, left=1, height=0.9, color=colours[ratio.peer], xerr=error,
                error_kw={"ecolor": "0.25", "elinewidth": 0.7, "capsize": 1.2},
            )  # fmt: skip
            position += 1
        ticks.append((first + position - 1) / 2)
        names.append(f"{row.name}  {row.way} {row.dtype}" if several else row.name)
        position += 1
    values = [r.median for row in rows for r in row.ratios]
    axes.set_xscale("log")
    axes.set_xlim(min([0.7, *(value / 1.2 for value in values)]), max([1.5, *(value * 1.3 for value in values)]))
    axes.axvline(1, color="0.2", linewidth=1)
    axes.set_yticks(ticks, names, fontsize=7.5)
    axes.set_ylim(max(position, 1) - 0.5, -1)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=18))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.set_xlabel(f"{summary.RATIO_MEANING}, best layouts (right of 1: this package is faster; line: 95 % interval)")
    shown = "" if len(rows) == all_rows else f" ({len(rows)} of {all_rows} rows)"
    axes.set_title(f"Speedup per layer{shown}", loc="left", fontweight="bold")
    if drawn:
        figure.legend(drawn.values(), drawn, loc="outside lower center", ncols=_MOST_COLUMNS, fontsize=8, frameon=False)
    else:
        axes.text(0.5, 0.5, "no peer was measured", transform=axes.transAxes, ha="center")
