"""The picture: speed-up per layer, roofline, latency against size. Only this module imports matplotlib."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any, Final

from ...errors import InvalidArgumentError, RuntimeUnavailableError
from ..document import Document, write_bytes
from ..machine import describe
from ..peers.registry import OWN
from ..rows import Row
from . import summary

# Okabe and Ito's palette: told apart by everyone
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
# a bar's height; thinner where there are many, so that a picture stays below some 35 inches
_BAR_INCHES: Final = (0.055, 0.17)
_TALLEST: Final = 32.0
_MOST_BARS: Final = 160
_BESIDE_TITLE: Final = 3
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
    peers = document.peers()
    looks = list(zip(_COLOURS[1:], _MARKERS[1:], strict=True))
    # beyond so many peers the colours come again, with other marks
    shift = len(looks)
    style = {peer: (looks[i % shift][0], looks[(i + i // shift) % shift][1]) for i, peer in enumerate(peers)}
    bars = [row for row in rows if row.ratios][:_MOST_BARS]
    count = sum(len(row.ratios) for row in bars) + len(bars)
    bar = min(_BAR_INCHES[1], max(_BAR_INCHES[0], _TALLEST / max(1, count)))
    height = max(9.0, 2.6 + bar * count)
    with matplotlib.rc_context({"svg.fonttype": "none", "font.size": 9, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(16, height), layout="constrained")
        FigureCanvasAgg(figure)
        halves: Any = figure.subfigures(1, 2, width_ratios=[1.15, 1])
        left, right = halves
        _bars(left.subplots(), bars, peers, style, len(rows))
        # the two charts keep their shape however long the list of layers is
        grid = right.add_gridspec(3, 1, height_ratios=[4.4, 4.4, max(0.01, height - 10.0)])
        _roofline(right.add_subplot(grid[0]), rows, document)
        _latency(right.add_subplot(grid[1]), rows, peers, style)
        machine = describe(document.machines[0]) if document.machines else ""
        versions = ", ".join(f"{k} {v}" for each in document.versions.values() for k, v in each.items())
        figure.suptitle(
            _wrapped(f"{summary.subject(document).capitalize()} on {machine}") + "\n" + _wrapped(versions), fontsize=10
        )
        out = io.BytesIO()
        figure.savefig(out, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()


def _wrapped(text: str, width: int = 150) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, width))


def _bars(axes: Any, rows: list[Row], peers: list[str], style: dict[str, Any], all_rows: int) -> None:
    several = len({(r.way, r.dtype) for r in rows}) > 1
    position, ticks, names = 0.0, [], []
    drawn: set[str] = set()
    values = [r.median for row in rows for r in row.ratios]
    low, high = (min(values), max(values)) if values else (1.0, 1.0)
    for row in rows:
        first = position
        for ratio in row.ratios:
            colour = style[ratio.peer][0]
            axes.barh(position, ratio.median - 1, left=1, height=0.9, color=colour, label=_once(ratio.peer, drawn))
            low_error = max(0.0, ratio.median - ratio.low)
            high_error = max(0.0, ratio.high - ratio.median)
            axes.errorbar(
                ratio.median, position, xerr=[[low_error], [high_error]], color="0.25", linewidth=0.7, capsize=1.2
            )
            position += 1
        ticks.append((first + position - 1) / 2)
        names.append(f"{row.name}  {row.way} {row.dtype}" if several else row.name)
        position += 1
    axes.set_xscale("log")
    axes.set_xlim(min(0.7, low / 1.2), max(1.5, high * 1.3))
    axes.axvline(1, color="0.2", linewidth=1)
    axes.set_yticks(ticks, names, fontsize=7.5)
    axes.set_ylim(max(position, 1) - 0.5, -1)
    _plain_log_ticks(axes.xaxis)
    axes.grid(axis="x", color="0.9", zorder=0)
    axes.set_axisbelow(True)
    axes.set_xlabel("speed-up: peer's time / ours, best layouts (right of 1: we are faster; line: 95 % interval)")
    shown = "" if len(rows) == all_rows else f" ({len(rows)} of {all_rows} rows)"
    # beside the title, where no bar can be; above it where there is no room beside it
    rows_above = 0 if len(drawn) <= _BESIDE_TITLE else -(-len(drawn) // _MOST_COLUMNS)
    axes.set_title(f"Speed-up per layer{shown}", loc="left", fontweight="bold", pad=6 + 15 * rows_above)
    if drawn:
        axes.legend(
            loc="lower right",
            bbox_to_anchor=(1, 1),
            borderaxespad=0.2,
            ncols=min(len(drawn), _MOST_COLUMNS),
            fontsize=8,
            frameon=False,
        )
    else:
        axes.text(0.5, 0.5, "no peer was measured", transform=axes.transAxes, ha="center")


def _roofline(axes: Any, rows: list[Row], document: Document) -> None:
    peaks = document.peaks[0] if document.peaks else {}
    rates = {k: v for k, v in peaks.get("gflops", {}).items() if v}
    bandwidth = peaks.get("gbytes")
    drawn: set[str] = set()
    points = [(2 * r.gmacs / r.gbytes, r.own.gflops or 0.0, r) for r in rows if r.own is not None and r.gbytes]
    kinds = list(dict.fromkeys((r.way, r.dtype) for r in rows))
    for intensity, rate, row in points:
        index = kinds.index((row.way, row.dtype))
        axes.plot(
            intensity,
            rate,
            _MARKERS[index % len(_MARKERS)],
            color=_COLOURS[index % len(_COLOURS)],
            fillstyle="none" if row.own is not None and summary.is_above_peak(row, row.own) else "full",
            markersize=4.5,
            alpha=0.8,
            label=_once(f"{summary.direction_name(row.op, row.direction)} {row.dtype}", drawn),
        )
    if bandwidth and rates and points:
        least, most = min(p[0] for p in points) / 2, max(p[0] for p in points) * 2
        lowest = math.inf
        for name, peak in rates.items():
            ridge = peak / bandwidth
            xs = [min(least, ridge / 4), ridge, max(most, 2 * ridge)]
            lowest = min(lowest, xs[0] * bandwidth)
            axes.plot(xs, [xs[0] * bandwidth, peak, peak], color="0.35", linewidth=1)
            # where the roof is flat but left of it nothing can be
            axes.text(xs[0], peak, f"MatMul {summary.product_text(peaks, name)}", ha="left", va="bottom", fontsize=8)
            axes.text(ridge / 2, peak / 2, f"  {summary.copy_text(peaks)}", ha="left", va="top", fontsize=8)
        heights = [p[1] for p in points]
        axes.set_ylim(min([lowest, *heights]) / 1.5, max([*rates.values(), *heights]) * 2)
    _finish(
        axes,
        "Roofline of this package (above: fewer multiplications; hollow: busy)",
        "arithmetic intensity, FLOP per byte (direct form, each tensor once)",
        "GFLOP/s of the direct form",
        bool(drawn),
    )


def _latency(axes: Any, rows: list[Row], peers: list[str], style: dict[str, Any]) -> None:
    drawn: set[str] = set()
    for name, (colour, marker) in {OWN: (_COLOURS[0], _MARKERS[0]), **style}.items():
        points = [(r.gmacs * 1e3, 1e3 * (e.median or math.nan)) for r in rows if (e := r.best(name)) is not None]
        if points:
            xs, ys = zip(*sorted(points), strict=True)
            label = "this package" if name == OWN else name
            axes.plot(xs, ys, marker, color=colour, markersize=4, alpha=0.75, label=_once(label, drawn))
    size, latency = "size, million multiply-adds of the direct form", "latency, ms (median)"
    _finish(axes, "Latency against size, best layout of each", size, latency, bool(drawn))


def _finish(axes: Any, title: str, x: str, y: str, legend: bool) -> None:
    """Titles and scales of a chart on two logarithmic axes."""
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    axes.set_title(title, loc="left", fontweight="bold")
    for axis in (axes.xaxis, axes.yaxis):
        _plain_log_ticks(axis)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    if legend:
        axes.legend(fontsize=8, loc="best")


def _plain_log_ticks(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    # three labels a decade run into each other beyond four decades
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1e4 * low else (1,), numticks=18))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())


def _once(label: str, drawn: set[str]) -> str:
    """A legend label for the first of its kind, none for the others."""
    if label in drawn:
        return "_"
    drawn.add(label)
    return label
