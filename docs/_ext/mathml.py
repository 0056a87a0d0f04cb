"""Formulas as MathML, which browsers draw by themselves: no script and no font is loaded."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def _convert(text: str, display: str) -> str:
    made: str = convert(text, display=display)
    if "<mi>&</mi>" in made or "\\" in made:
        raise ExtensionError(f"this formula has something that is not known as MathML: {text}")
    return made


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(_convert(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{_convert(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True}
