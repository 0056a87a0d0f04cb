"""Ops and values of a graph are wired to each other by graph/ and ir/ alone, read from all assignments."""

import ast
from pathlib import Path

import pytest

import dnnl_graph_ops

ROOT = Path(dnnl_graph_ops.__file__).parent
WIRING = {"graph", "ir"}
# what has an attribute of the name and is no op: graphs of files and of other libraries
OTHERS = {"whole", "graph", "self", "step", "self._graph"}


def assignments(path: Path):
    """Targets `x.node = ` and `x.outputs = ` with the text of x, and their lines."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for item in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(item, ast.Attribute) and item.attr in ("node", "outputs"):
                    yield ast.unparse(item.value), item.lineno


@pytest.mark.slow
def test_one_place_wires():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {owner}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in WIRING
        for owner, line in assignments(path)
        if owner not in OTHERS
    ]
    assert found == []


def test_the_reader_sees_assignments(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("value.held, value.node = a, None\ntwin.outputs = ()\nfor x.node in y: pass\n", "utf-8")
    assert [owner for owner, _ in assignments(path)] == ["value", "twin", "x"]
