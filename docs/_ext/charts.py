"""Bars of a suite of the machines' figures: a `{chart}` with the folder of the files, the suite, and a caption."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.application import Sphinx

from dnnl_graph_ops.bench.report import machine_page
from dnnl_graph_ops.bench.statistics import geometric_mean

_BAR_HEIGHT, _GAP, _LEFT, _BAR, _END = 13, 9, 190, 360, 60
# of the machines in order; a bar of less than 1 has the colour of a warning
_OPACITIES = (1.0, 0.55, 0.3)


def values(records: Sequence[machine_page.Record], suite: str) -> dict[str, list[float]]:
    """Returns the speedups of each row of a suite, one for each machine, the largest mean first.

    Rows that a machine lacks are left out.
    """
    by_machine = [
        {
            row["name"]: best[0]
            for row in record["rows"]
            if row["suite"] == suite and row["dtype"] == "f32" and (best := machine_page.fastest(row))
        }
        for record in records
    ]
    names = set.intersection(*(set(speedups) for speedups in by_machine))
    rows = {name: [speedups[name] for speedups in by_machine] for name in sorted(names)}
    return dict(sorted(rows.items(), key=lambda row: -geometric_mean(row[1])))


def bars(rows: Mapping[str, Sequence[float]], machines: Sequence[str]) -> str:
    """SVG: a bar for each speedup, and a line where both sides are equally fast."""
    scale = _BAR / max(max(speedups) for speedups in rows.values())
    step = _BAR_HEIGHT * len(machines) + _GAP
    legend = 20 * len(machines)
    height = legend + step * len(rows) + 22
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _BAR + _END} {height}" role="img" '
        'font-size="13" font-family="inherit">'
    ]
    for i, machine in enumerate(machines):
        parts += [
            f'<rect x="0" y="{20 * i + 2}" width="13" height="13" {_fill(1.0, i)}/>',
            f'<text x="20" y="{20 * i + 13}" fill="currentColor">{escape(machine)}</text>',
        ]
    for number, (name, speedups) in enumerate(rows.items()):
        top = legend + step * number
        middle = top + _BAR_HEIGHT * len(machines) / 2 + 5
        parts.append(
            f'<text x="{_LEFT - 8}" y="{middle:.1f}" text-anchor="end" fill="currentColor">{escape(name)}</text>'
        )
        for i, speedup in enumerate(speedups):
            y, width = top + _BAR_HEIGHT * i, speedup * scale
            end = _LEFT + width + 6
            parts += [
                f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR_HEIGHT - 2}" {_fill(speedup, i)}/>',
                f'<text x="{end:.1f}" y="{y + 10}" font-size="11" fill="currentColor">{speedup:.2f}</text>',
            ]
    x = _LEFT + scale
    parts += [
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{legend}" y2="{height - 20}" stroke="currentColor" '
        'stroke-dasharray="4 3"/>',
        f'<text x="{x:.1f}" y="{height - 5}" text-anchor="middle" fill="currentColor">equally fast</text>',
        "</svg>",
    ]
    return "".join(parts)


def _fill(speedup: float, machine: int) -> str:
    colour = "var(--pst-color-primary, #0a7d91)" if speedup >= 1 else "var(--pst-color-danger, #c02020)"
    return f'fill="{colour}" fill-opacity="{_OPACITIES[machine % len(_OPACITIES)]}"'


class Chart(Directive):
    """`{chart} FOLDER` and `:suite:`; the content is the caption."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"suite": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        paths = sorted(Path(env.srcdir, self.arguments[0]).glob("*.json"))
        for path in paths:
            env.note_dependency(str(path))
        records = [machine_page.load(path) for path in paths]
        text = bars(values(records, self.options["suite"]), [machine_page.head_of(record) for record in records])
        caption = " ".join(self.content)
        body = f'<figure class="chart">{text}<figcaption>{escape(caption)}</figcaption></figure>'
        return [nodes.raw("", body, format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("chart", Chart)
    return {"parallel_read_safe": True}
