"""Bars of a suite of a machine's figures: a `{chart}` with the file, the suite, and a caption below."""

from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.application import Sphinx

from dnnl_graph_ops.bench.report import machine_page

_ROW, _LEFT, _BAR, _END = 24, 190, 360, 60


def values(record: machine_page.Record, suite: str) -> list[tuple[str, float]]:
    """Names, and the time of the fastest of the others over ours, the largest first."""
    rows = [
        (row["name"], best[0])
        for row in record["rows"]
        if row["suite"] == suite and (best := machine_page.fastest(row))
    ]
    return sorted(rows, key=lambda row: -row[1])


def bars(found: list[tuple[str, float]]) -> str:
    """SVG: a bar for each value, and a line where both sides are equally fast."""
    top = max(value for _, value in found)
    scale = _BAR / top
    height = _ROW * (len(found) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _BAR + _END} {height}" role="img" '
        'font-size="14" font-family="inherit">'
    ]
    for i, (name, value) in enumerate(found):
        y = i * _ROW
        colour = "var(--pst-color-primary, #0a7d91)" if value >= 1 else "var(--pst-color-danger, #c02020)"
        parts += [
            f'<text x="{_LEFT - 8}" y="{y + 17}" text-anchor="end" fill="currentColor">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{y + 4}" width="{value * scale:.1f}" height="{_ROW - 8}" rx="3" fill="{colour}"/>',
            f'<text x="{_LEFT + value * scale + 6:.1f}" y="{y + 17}" fill="currentColor">{value:.2f}</text>',
        ]
    x = _LEFT + scale
    parts += [
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - _ROW}" stroke="currentColor" stroke-dasharray="4 3"/>',
        f'<text x="{x:.1f}" y="{height - 6}" text-anchor="middle" fill="currentColor">equally fast</text>',
        "</svg>",
    ]
    return "".join(parts)


class Chart(Directive):
    """`{chart} FILE` and `:suite:`; the content is the caption."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"suite": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        path = Path(env.srcdir, self.arguments[0])
        env.note_dependency(str(path))
        text = bars(values(machine_page.load(path), self.options["suite"]))
        caption = " ".join(self.content)
        body = f'<figure class="chart">{text}<figcaption>{escape(caption)}</figcaption></figure>'
        return [nodes.raw("", body, format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("chart", Chart)
    return {"parallel_read_safe": True}
