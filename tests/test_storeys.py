"""The order of the package's storeys, read from all imports, those inside functions included."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import dnnl_graph_ops

NAME = "dnnl_graph_ops"
ROOT = Path(dnnl_graph_ops.__file__).parent

# from the ground up: a module imports from its own storey and those below
STOREYS = (
    ("_core", "_openmp"),
    ("symbolic",),
    ("errors", "dtypes", "log", "once", "progress", "record", "strides", "words"),
    ("schema", "shapes"),
    ("runtime",),
    ("graph",),
    ("drawing",),
    ("ops",),
    ("ir",),
    ("program",),
    ("convolution",),
    ("cost", "onednn"),
    ("algorithms",),
    ("backends",),
    ("passes",),
    ("graph_api",),
    ("compile",),
    ("reports",),
    ("net",),
    ("functional", "_functional", "caches", "usage", "weights"),
    ("frontends", "quantize", "nn", "selftest"),
    ("streaming",),
    ("torch", "onnxruntime"),
    ("bench", "trial"),
    ("commands",),
    ("__main__",),
)
# rooms beside each other inside of a storey, and those of it that they share
WINGS = {"frontends": ({"onnx", "torch_export"}, {"reading"})}
# importer, imported: for types only, which nobody loads
EXCEPTIONS = {
    ("graph.graph", "net.net"): "what Graph.compile returns",
    ("graph.value", "graph.graph"): "the graph of a Value",
    ("net.net", "streaming.stream"): "what Net.stream returns",
}


class Arrow(NamedTuple):
    """One import: a module, what it takes from where ("" is the package itself), and in which line."""

    importer: str
    imported: str
    name: str  # empty: the module itself
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.name or 'all'} from {self.imported or 'the package'}"


def modules_of(root: Path) -> dict[str, Path]:
    """The modules of a package by their names without the package's; packages by their folders'."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(block: ast.AST) -> Iterator[ast.AST]:
    """Every statement in a block, without walking through expressions."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(block, field, ()):
            yield node
            yield from statements(node)


def arrows_of(root: Path) -> Iterator[Arrow]:
    """Every import between the modules of a package."""
    modules = modules_of(root)
    known = modules.keys() | {"_core"}
    for module, path in modules.items():
        folder = module.split(".") if path.stem == "__init__" else module.split(".")[:-1]
        folder = [part for part in folder if part]
        for node in statements(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == NAME:
                        yield Arrow(module, alias.name.partition(".")[2], "", node.lineno)
            elif isinstance(node, ast.ImportFrom):
                given = node.module.split(".") if node.module else []
                if node.level:
                    base = folder[: len(folder) - node.level + 1] + given
                elif given[0] == NAME:
                    base = given[1:]
                else:
                    continue
                for alias in node.names:
                    inside = ".".join([*base, alias.name])
                    if inside in known:
                        yield Arrow(module, inside, "", node.lineno)
                    else:
                        yield Arrow(module, ".".join(base), alias.name, node.lineno)


@cache
def all_arrows() -> list[Arrow]:
    gc.disable()  # trees of all files are many objects, and no garbage: collections take a third of the time
    try:
        return list(arrows_of(ROOT))
    finally:
        gc.enable()


def storey(module: str) -> int:
    found = [number for number, rooms in enumerate(STOREYS) if module.split(".")[0] in rooms]
    assert found, f"{module} has no place in STOREYS"
    return found[0]


def edges(arrows: list[Arrow]) -> dict[str, set[str]]:
    """What each module loads: what it imports from, and the packages around that which are not its own."""
    found: dict[str, set[str]] = {}
    for arrow in arrows:
        parts = arrow.imported.split(".")
        for end in range(1, len(parts) + 1):
            around = ".".join(parts[:end])
            if not f"{arrow.importer}.".startswith(f"{around}."):
                found.setdefault(arrow.importer, set()).add(around)
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules of which each loads the next and the last the first; none if there is no such."""
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return []
        for other in sorted(graph.get(module, ())):
            if found := walk(other, [*path, module]):
                return found
        done.add(module)
        return []

    return next((found for module in sorted(graph) if (found := walk(module, []))), [])


def listed(arrow: Arrow) -> bool:
    return (arrow.importer, arrow.imported) in EXCEPTIONS


def test_every_module_has_a_storey():
    rooms = [room for rooms in STOREYS for room in rooms]
    # the extension, and a stub without a module
    assert {module.split(".")[0] for module in modules_of(ROOT)} - {""} == set(rooms) - {"_core", "_functional"}
    assert len(set(rooms)) == len(rooms)


@pytest.mark.slow
def test_no_arrow_leads_up():
    up = [a for a in all_arrows() if a.importer and a.imported and storey(a.importer) < storey(a.imported)]
    assert [str(arrow) for arrow in up if not listed(arrow)] == []


def room(module: str) -> tuple[str, str]:
    return (*module.split(".")[:2], "")[:2]


@pytest.mark.slow
@pytest.mark.parametrize("around", WINGS)
def test_no_arrow_leads_from_wing_to_wing(around):
    wings, shared = WINGS[around]
    inner = [(room(a.importer), room(a.imported), a) for a in all_arrows()]
    inside = [(one[1], other[1], arrow) for one, other, arrow in inner if one[0] == other[0] == around and one[1]]
    assert {one for one, _, _ in inside} == wings | shared
    allowed = {name: shared | {name, ""} if name in wings else {name, ""} for name in wings | shared}
    assert [str(arrow) for one, other, arrow in inside if other not in allowed[one]] == []


def test_nobody_imports_the_face_of_the_package():
    """The benchmarks apart, which use the package as its users do."""
    found = [
        arrow for arrow in all_arrows() if arrow.imported == "" and arrow.importer.split(".")[0] not in ("", "bench")
    ]
    assert [str(arrow) for arrow in found] == []


def test_no_circle():
    assert circle(edges([arrow for arrow in all_arrows() if arrow.importer and not listed(arrow)])) == []


@pytest.mark.slow
def test_names_are_taken_from_the_extension_one_by_one():
    whole = [arrow for arrow in all_arrows() if arrow.imported == "_core" and not arrow.name and arrow.importer]
    assert [str(arrow) for arrow in whole] == []


def test_exceptions_are_there():
    assert set(EXCEPTIONS) <= {(arrow.importer, arrow.imported) for arrow in all_arrows()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from .b import x", ("b", "x")),
        ("from . import b", ("b", "")),
        ("from .. import thing", ("", "thing")),
        ("from .._core import Graph", ("_core", "Graph")),
        ("from .. import _core", ("_core", "")),
        ("import dnnl_graph_ops", ("", "")),
        ("import dnnl_graph_ops.a.b", ("a.b", "")),
        ("from dnnl_graph_ops.a.b import x", ("a.b", "x")),
        ("def f():\n    from .b import x", ("b", "x")),
        ("if TYPE_CHECKING:\n    from .b import x", ("b", "x")),
    ],
)
def test_every_way_to_import_is_read(text, expected, tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("__init__.py", "a/__init__.py", "a/b.py"):
        (tmp_path / name).touch()
    (tmp_path / "a/c.py").write_text(text)
    (arrow,) = arrows_of(tmp_path)
    imported, name = expected
    assert arrow[:3] == ("a.c", f"a.{imported}" if imported == "b" else imported, name)


def test_circles_are_found():
    assert circle({"a": {"b"}, "b": {"c.d"}, "c.d": {"a"}}) == ["a", "b", "c.d"]
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []
    around = edges([Arrow("a.b", "c.d", "x", 1), Arrow("c", "a.b", "x", 1), Arrow("a", "a.b", "x", 1)])
    assert circle(around) == ["a", "a.b", "c"]
