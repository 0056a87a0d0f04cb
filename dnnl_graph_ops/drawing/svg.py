"""Draws a picture as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from .layered import place
from .picture import Box, Picture, fill, stroke

_LINE = 14.0
_PADDING = 8.0
_MARGIN = 20.0
# mean widths of characters of a sans-serif font at the sizes used here
_BOLD, _PLAIN = 7.6, 6.3
_FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"
_MARKER = (
    "<marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
    "<path d='M0 0 L8 4 L0 8 Z' fill='#555'/></marker>"
)


def svg(picture: Picture) -> str:
    """Returns SVG text: boxes in the colour of their partition, and a legend of the partitions."""
    sizes = [_size(box) for box in picture.boxes]
    outputs = [i for i, box in enumerate(picture.boxes) if box.role == "output"]
    layout = place(sizes, picture.edges, outputs)
    below = _MARGIN * 2 + layout.height + _LINE
    width = 2 * _MARGIN + max([layout.width, *(len(text) * _PLAIN + 24 for text in picture.legend)])
    wide = max([len(text) * _PLAIN + 34 for text in picture.legend], default=1.0)
    columns = max(1, int((width - 2 * _MARGIN) / wide))
    each = -(-len(picture.legend) // columns)
    height = below + _LINE * 1.3 * each + (_MARGIN if picture.legend else 0)
    shift = (width - layout.width) / 2
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' "
        f"viewBox='0 0 {width:.0f} {height:.0f}' {_FONT} font-size='11'>",
        f"<title>{_text(picture.name)}</title><defs>{_MARKER}</defs>",
        "<rect width='100%' height='100%' fill='white'/>",
        f"<g transform='translate({shift:.1f} {_MARGIN:.1f})'>",
        *(f"<path d='{_curve(route)}' fill='none' stroke='#555' marker-end='url(#tip)'/>" for route in layout.routes),
    ]
    parts += map(_box, picture.boxes, sizes, layout.centres)
    parts.append("</g>")
    for i, text in enumerate(picture.legend, 1):
        column, row = divmod(i - 1, each)
        x, y = _MARGIN + column * wide, below + _LINE * 1.3 * (row + 1)
        colours = f"fill='{fill(i)}' stroke='{stroke(i)}'"
        parts.append(
            f"<rect x='{x:.1f}' y='{y - 10:.1f}' width='13' height='13' {colours}/>"
            f"<text x='{x + 20:.1f}' y='{y:.1f}'>{_text(text)}</text>"
        )
    return "\n".join([*parts, "</svg>\n"])


def _size(box: Box) -> tuple[float, float]:
    tag = 3 if box.part else 0
    text = max([(len(box.title) + tag) * _BOLD, *(len(line) * _PLAIN for line in box.lines)])
    return text + 2 * _PADDING, _LINE * (1 + len(box.lines)) + 2 * _PADDING - 4


def _box(box: Box, size: tuple[float, float], centre: tuple[float, float]) -> str:
    (width, height), (x, y) = size, centre
    round_corners = 4 if box.role == "op" else height / 2
    colour = (fill(box.part), stroke(box.part)) if box.role == "op" else ("#ffffff", "#555555")
    lines = [
        f"<g><title>{_text(box.hint)}</title>"
        f"<rect x='{x - width / 2:.1f}' y='{y - height / 2:.1f}' width='{width:.1f}' height='{height:.1f}' "
        f"rx='{round_corners:.1f}' fill='{colour[0]}' stroke='{colour[1]}' stroke-width='1.4'/>"
    ]
    top = y - height / 2 + _PADDING + 9
    for i, line in enumerate((box.heading, *box.lines)):
        style = "font-weight='bold' font-size='12'" if i == 0 else "fill='#333'"
        lines.append(f"<text x='{x:.1f}' y='{top + _LINE * i:.1f}' text-anchor='middle' {style}>{_text(line)}</text>")
    return "".join([*lines, "</g>"])


def _curve(route: Sequence[tuple[float, float]]) -> str:
    """Returns the path of an edge, vertical at every corner."""
    (x, y), *rest = route
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        bend = (to_y - y) / 2
        straight = abs(to_x - x) < 0.5
        parts.append(
            f"L{to_x:.1f} {to_y:.1f}"
            if straight
            else f"C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}"
        )
        x, y = to_x, to_y
    return " ".join(parts)


def _text(text: str) -> str:
    """Returns text escaped for XML, without control characters, which XML forbids."""
    return escape("".join(char if char.isprintable() or char == "\n" else "?" for char in text))
