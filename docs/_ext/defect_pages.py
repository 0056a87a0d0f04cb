"""The page of oneDNN's known defects, from the table that `dnnl-graph-ops info` reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from op_pages import put
from sphinx.application import Sphinx

from dnnl_graph_ops.runtime.defects import DEFECTS, VERSIONS, known, lacking


def page() -> Iterator[str]:
    names = [".".join(map(str, version)) for version in VERSIONS]
    yield "# Defects of oneDNN, and ops that it lacks\n"
    yield (
        f"Looked at were {' and '.join(names)}, by tests and by source, and the source between them: what was seen "
        "in the older one alone may be there in versions between. None of these reaches a net or a one-shot function.\n"
    )
    yield f"| what goes wrong | {' | '.join(names)} | here |"
    yield "|---" * (len(names) + 2) + "|"
    for defect in DEFECTS:
        marks = " | ".join("yes" if defect in known(version) else "" for version in VERSIONS)
        yield f"| {defect.what} | {marks} | {defect.instead} |"
    yield "\nOps that a version does not have, or has no CPU kernel for when they stand alone:\n"
    for name, version in zip(names, VERSIONS, strict=True):
        yield f"- {name}: {', '.join(lacking(version))}"


def write(app: Sphinx) -> None:
    put(Path(app.srcdir, "api", "defects.md"), page())


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
