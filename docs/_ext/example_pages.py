"""A page for each example: its source, what it prints, what it draws.

`DNNL_GRAPH_OPS_EXAMPLES` names a folder where a run of an example has left `NAME/output.txt` and pictures; those that
are not there run here, the long ones shortened.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from op_pages import put
from sphinx.application import Sphinx

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SECONDS = 300
SHORTER = {
    "09_vocoder": ["--sentences", "8"],
    "10_torch_one_line": ["--steps", "6", "--rounds", "2"],
    "11_torch_ddp": ["--steps", "10"],
}
_LINK = re.compile(r"\]\((?:\.\./)+examples/(README|\d\d_\w+)\.(?:md|py)\)")
_PICTURES = {".png", ".svg"}


def run(source: Path, folder: Path) -> None:
    """Leave what an example prints and draws in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(source.resolve()), *SHORTER.get(source.stem, ())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise RuntimeError(f"{source.name} failed:\n{done.stdout}{done.stderr}")
    (folder / "output.txt").write_text(done.stdout, "utf-8")


def _sentence(source: str) -> tuple[str, str]:
    """The first line of a docstring, and the rest of it."""
    text = re.match(r'"""(.*?)"""', source, re.DOTALL)
    first, _, rest = (text[1] if text else "").partition("\n")
    return first.strip(), rest.strip()


def page(source: Path, folder: Path) -> Iterator[str]:
    text = source.read_text("utf-8")
    first, rest = _sentence(text)
    yield f"# {source.stem}"
    yield f"\n{first}\n\n{rest}\n"
    pictures = sorted(path for path in folder.rglob("*") if path.suffix in _PICTURES)
    for path in pictures:
        yield f"![{source.stem}: {path.name}]({path.relative_to(folder.parent).as_posix()})\n"
    yield "## What it prints\n"
    yield f"````text\n{(folder / 'output.txt').read_text('utf-8').rstrip()}\n````\n"
    yield "## Source\n"
    yield f"`examples/{source.relative_to(EXAMPLES).as_posix()}`\n"
    yield f"````python\n{text.rstrip()}\n````"


def write(app: Sphinx) -> None:
    given = os.environ.get("DNNL_GRAPH_OPS_EXAMPLES")
    folder = Path(app.srcdir, "examples")
    folder.mkdir(exist_ok=True)
    of_graph_api = (path for path in EXAMPLES.glob("graph_api/*.py") if not path.stem.endswith("_utils"))
    sources = [*sorted(EXAMPLES.glob("[0-9]*.py")), *sorted(of_graph_api)]
    lines = ["# Examples", "", "Short scripts with their output.", ""]
    for source in sources:
        own = folder / source.stem
        kept = Path(given, source.stem) if given else own
        if not (own / "output.txt").exists() or (own / "output.txt").stat().st_mtime < source.stat().st_mtime:
            if (kept / "output.txt").exists() and kept != own:
                shutil.copytree(kept, own, dirs_exist_ok=True)
            else:
                run(source, own)
        put(folder / f"{source.stem}.md", page(source, own))
        lines.append(f"- [{source.stem}]({source.stem}.md): {_sentence(source.read_text('utf-8'))[0]}")
    lines += ["", "```{toctree}", ":hidden:", "", *(source.stem for source in sources), "```"]
    put(folder / "index.md", iter(lines))


def lead_to_pages(app: Sphinx, name: str, content: list[str]) -> None:
    """Links to the examples' files, which serve who reads the Markdown as it is, lead to their pages."""
    up = "../" * name.count("/")
    content[0] = _LINK.sub(lambda link: f"]({up}examples/{'index' if link[1] == 'README' else link[1]}.md)", content[0])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write)
    app.connect("source-read", lead_to_pages)
    return {"parallel_read_safe": True}
