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
        f"Versions {' and '.join(names)} were tested, and their source and the source between them was read; a "
        "defect seen in the older one only may exist in versions between. None reaches nets or one-shot functions.\n"
    )
    yield f"| defect | {' | '.join(names)} | workaround |"
    yield "|---" * (len(names) + 2) + "|"
    for defect in DEFECTS:
        marks = " | ".join("yes" if defect in known(version) else "" for version in VERSIONS)
        yield f"| {defect.what} | {marks} | {defect.instead} |"
    yield "\nOps that a version lacks, or has no CPU kernel for outside of fused patterns:\n"
    for name, version in zip(names, VERSIONS, strict=True):
        yield f"- {name}: {', '.join(lacking(version))}"


def write(app: Sphinx) -> None:
    put(Path(app.srcdir, "api", "defects.md"), page())


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
