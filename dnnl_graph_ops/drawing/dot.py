"""A picture in Graphviz's language."""

from __future__ import annotations

from .colours import fill, stroke
from .picture import Picture

_SHAPES = {"input": "oval", "output": "oval", "op": "box"}


def dot(picture: Picture) -> str:
    """Text for `dot -Tsvg`: ops filled in the colour of their partition."""
    lines = [
        f"digraph {_quoted(picture.name)} {{",
        '  node [style="filled,rounded", fontname="sans-serif", fontsize=11];',
    ]
    for i, box in enumerate(picture.boxes):
        title = f"{box.part} {box.title}" if box.part else box.title
        label = _quoted("\n".join((title, *box.lines)))
        lines.append(
            f"  n{i} [label={label}, shape={_SHAPES[box.role]}, "
            f'fillcolor="{fill(box.part)}", color="{stroke(box.part)}"];'
        )
    lines += [f"  n{a} -> n{b};" for a, b in picture.edges]
    return "\n".join([*lines, "}\n"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
