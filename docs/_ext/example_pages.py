"""A page for each example: its source, what it printed on a recorded machine, what it draws.

Examples run as the pages are built, so that one that fails fails the build; what they print then is not shown, as times
of the machine that builds would stand in the pages. Recipes of the cookbook do not run then: they need many packages.
`DNNL_GRAPH_OPS_EXAMPLES` names a folder where a run of an example has left `NAME/output.txt` and pictures; those that
are not there run here, the long ones shortened.
"""

import json
import os
import re
import shutil
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import recorded
from op_pages import put
from recorded import EXAMPLES, run
from sphinx.application import Sphinx

NOTEBOOKS = EXAMPLES / "notebooks"
_LINK = re.compile(r"\]\((?:\.\./)+examples/(?:notebooks/|cookbook/)?(\w+)\.(?:md|py|ipynb)\)")
_PICTURES = {".png", ".svg"}
_THUMBNAIL = "thumbnail.svg"
# lines and columns of printed text that a thumbnail shows
_LINES, _COLUMNS = 9, 58


def _sentence(source: str) -> tuple[str, str]:
    """The first line of a docstring, and the rest of it."""
    text = re.match(r'"""(.*?)"""', source, re.DOTALL)
    first, _, rest = (text[1] if text else "").partition("\n")
    return first.strip(), rest.strip()


def page(source: Path, folder: Path, record: dict[str, Any]) -> Iterator[str]:
    text = source.read_text("utf-8")
    first, rest = _sentence(text)
    yield f"# {source.stem}"
    yield f"\n{first}\n\n{rest}\n"
    for path in pictures(folder):
        yield f"![{source.stem}: {path.name}]({path.relative_to(folder.parent).as_posix()})\n"
    yield "## What it printed\n"
    yield f"On {record['machine']}, {record['date']}.\n"
    yield f"````text\n{record['text']}\n````\n"
    yield "## Source\n"
    yield f"`examples/{source.relative_to(EXAMPLES).as_posix()}`\n"
    yield f"````python\n{text.rstrip()}\n````"
    if source in recorded.recipes():
        yield f"\n`examples/cookbook/{recorded.COMPARE.name}`, which all recipes share:\n"
        yield f"````python\n{recorded.COMPARE.read_text('utf-8').rstrip()}\n````"


def pictures(folder: Path) -> list[Path]:
    """Returns what an example has drawn, but for thumbnails and pictures that show times."""
    drawn = (path for path in folder.rglob("*") if path.suffix in _PICTURES)
    return sorted(path for path in drawn if path.name not in recorded.TIMED and path.name != _THUMBNAIL)


def thumbnail(text: str) -> str:
    """Returns an SVG of the first lines of a text, for an example that draws nothing."""
    wrapped = (part for line in text.splitlines() for part in textwrap.wrap(line, _COLUMNS, drop_whitespace=False))
    lines = [escape(line) for line in wrapped if line.strip()][:_LINES]
    rows = "".join(f'<text x="12" y="{24 + 18 * i}" xml:space="preserve">{line}</text>' for i, line in enumerate(lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 380 {24 + 18 * _LINES}" font-family="monospace" '
        f'font-size="10.5" fill="#24292f"><rect width="100%" height="100%" fill="#eef2f4"/>{rows}</svg>\n'
    )


def card(source: Path, folder: Path, text: str) -> Iterator[str]:
    """A card of the gallery: the picture that the example draws, or what it prints, above its sentence."""
    drawn = pictures(folder)
    if not drawn:
        folder.mkdir(exist_ok=True)
        (folder / _THUMBNAIL).write_text(thumbnail(text), "utf-8")
        drawn = [folder / _THUMBNAIL]
    yield f":::{{grid-item-card}} {source.stem}\n:link: {source.stem}\n:link-type: doc"
    yield f":img-top: {drawn[0].relative_to(folder.parent).as_posix()}\n:class-img-top: thumbnail\n"
    yield f"{_sentence(source.read_text('utf-8'))[0]}\n:::\n"


def notebook_page(source: Path) -> Iterator[str]:
    """Cells as text and code; outputs, which depend on the machine, are in no file."""
    for number, cell in enumerate(json.loads(source.read_text("utf-8"))["cells"]):
        text = "".join(cell["source"])
        yield text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
        yield f"\n{{download}}`{source.name} <{source.name}>` is the notebook.\n" if number == 0 else ""


def _write_notebooks(folder: Path) -> Iterator[str]:
    """Writes the page of each notebook and the file next to it; yields their names."""
    for source in sorted(NOTEBOOKS.glob("*.ipynb")):
        shutil.copyfile(source, folder / source.name)
        put(folder / f"{source.stem}.md", notebook_page(source))
        yield source.stem


def write(app: Sphinx) -> None:
    given = os.environ.get("DNNL_GRAPH_OPS_EXAMPLES")
    folder = Path(app.srcdir, "examples")
    folder.mkdir(exist_ok=True)
    sources, records = recorded.sources(), recorded.texts()
    lines = ["# Examples", "", "Short scripts, with their output on a recorded machine, and what they draw.", ""]
    lines += ["The last ten are the recipes of the [cookbook](../howto/cookbook.md).", "", "::::{grid} 1 2 3 3", ""]
    for source in sources:
        own = folder / source.stem
        kept = Path(given, source.stem) if given else own
        if source in recorded.recipes():
            pass
        elif not (own / "output.txt").exists() or (own / "output.txt").stat().st_mtime < source.stat().st_mtime:
            if (kept / "output.txt").exists() and kept != own:
                shutil.copytree(kept, own, dirs_exist_ok=True)
            else:
                run(source, own)
        put(folder / f"{source.stem}.md", page(source, own, records[source.stem]))
        lines += card(source, own, records[source.stem]["text"])
    notebooks = list(_write_notebooks(folder))
    lines += ["::::", "", "Notebooks:", "", *(f"- [{name}]({name}.md)" for name in notebooks)]
    lines += ["", "```{toctree}", ":hidden:", "", *(source.stem for source in sources), *notebooks, "```"]
    put(folder / "index.md", iter(lines))


def lead_to_pages(app: Sphinx, name: str, content: list[str]) -> None:
    """Links to the examples' files, which serve who reads the Markdown as it is, lead to their pages."""
    up = "../" * name.count("/")
    content[0] = _LINK.sub(lambda link: f"]({up}examples/{'index' if link[1] == 'README' else link[1]}.md)", content[0])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write)
    app.connect("source-read", lead_to_pages)
    return {"parallel_read_safe": True}
