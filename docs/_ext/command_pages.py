"""The page of commands: what each prints with `--help`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from op_pages import put
from sphinx.application import Sphinx

COMMANDS = (
    (),
    ("info",),
    ("status",),
    ("run",),
    ("benchmark",),
    ("diff",),
    ("convert",),
    ("explain",),
    ("selftest",),
    ("bench",),
    ("bench", "run"),
    ("bench", "compare"),
    ("bench", "merge"),
    ("bench", "report"),
    ("bench", "publish"),
    ("bench", "list"),
    ("cache",),
    ("fit",),
)


def page() -> Iterator[str]:
    yield "# Commands\n"
    yield "`dnnl-graph-ops` and `python -m dnnl_graph_ops` are one command.\n"
    for words in COMMANDS:
        command = [sys.executable, "-m", "dnnl_graph_ops", *words, "--help"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": "88", "NO_COLOR": "1"}
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        yield f"## {' '.join(('dnnl-graph-ops', *words))}\n"
        yield f"```text\n{done.stdout.rstrip()}\n```\n"


def write(app: Sphinx) -> None:
    put(Path(app.srcdir, "api", "commands.md"), page())


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
