"""API pages: everything that the public modules list, by autodoc."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from op_pages import put
from sphinx.application import Sphinx

# module: what stands above its names
MODULES = {
    "dnnl_graph_ops": "`import dnnl_graph_ops as dgo`. Builders: [ops](../ops/index.md).",
    "dnnl_graph_ops.graph_api": (
        "The C++ objects of the oneDNN Graph API, one to one ([tutorial](../tutorials/graph_api.md))."
    ),
    "dnnl_graph_ops.nn": "Modules that hold weights and compute gradients.",
    "dnnl_graph_ops.onnxruntime": (
        "`import dnnl_graph_ops.onnxruntime as dgr`; needs the extra `onnxruntime` ([page](../howto/onnxruntime.md))."
    ),
    "dnnl_graph_ops.quantize": "Post-training quantization to int8, with scales from samples.",
    "dnnl_graph_ops.torch": "`import dnnl_graph_ops.torch as dgt`; needs the extra `torch`.",
}
# module: what it imports that need not be there
_NEEDS = {"dnnl_graph_ops.torch": "torch"}
_HEADS = ("Functions", "Classes", "Errors", "Values")


def _head(thing: Any) -> str:
    if inspect.isclass(thing):
        return "Errors" if issubclass(thing, Exception) else "Classes"
    return "Functions" if callable(thing) else "Values"


def page(name: str, module: ModuleType) -> Iterator[str]:
    yield f"# {name}"
    yield ""
    yield MODULES[name]
    found: dict[str, list[str]] = {head: [] for head in _HEADS}
    for item in module.__all__:
        thing = getattr(module, item)
        if not inspect.ismodule(thing):
            found[_head(thing)].append(item)
    for head, items in found.items():
        if not items:
            continue
        yield f"\n## {head}\n"
        yield "```{eval-rst}"
        for item in sorted(items, key=str.lower):
            how = {"Functions": "autofunction", "Values": "autodata"}.get(head, "autoclass")
            yield f".. {how}:: {name}.{item}"
            if how == "autoclass":
                yield "   :members:"
            if head == "Errors":
                yield "   :no-members:"
                yield "   :show-inheritance:"
            yield ""
        yield "```"


def index(there: list[str]) -> Iterator[str]:
    yield "# Python API"
    yield ""
    for name, text in MODULES.items():
        where = f"[{name}]({name}.md)" if name in there else f"{name} (not installed where these pages were built)"
        yield f"- {where}: {text}"
    yield "- [commands](commands.md): the command `dnnl-graph-ops` and its subcommands"
    yield "- [defects](defects.md): known defects of oneDNN by version, and their workarounds"
    yield "- [words](words.md): names of other packages for arguments, layouts, dtypes and ops"
    yield "\n```{toctree}\n:hidden:\n"
    yield from (*there, "commands", "defects", "words")
    yield "```"


def write(app: Sphinx) -> None:
    folder = Path(app.srcdir, "api")
    there = [name for name in MODULES if name not in _NEEDS or find_spec(_NEEDS[name])]
    for name in there:
        put(folder / f"{name}.md", page(name, import_module(name)))
    put(folder / "index.md", index(there))


def _tables(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Tables of docstrings as they stand."""
    made: list[str] = []
    for line in lines:
        row = line.lstrip().startswith("|")
        if row and not (made and made[-1].lstrip().startswith("|")):
            made += ["", "::", ""]
        made.append(f"    {line}" if row else line)
        if made[-1] == "" and row:
            made.append("")
    lines[:] = made


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", _tables)
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
