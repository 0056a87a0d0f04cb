"""Recipes of the cookbook run where their packages are installed, and their page has the speedups of their records."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "cookbook"
RECIPES = sorted(path for path in FOLDER.glob("*.py") if path.name != "compare.py")
PAGE = (ROOT / "docs" / "howto" / "cookbook.md").read_text("utf-8")
ROWS = {
    name: cells for name, *cells in re.findall(r"^\| \[(\w+)\]\(.*?\) \| (.*?) \| (.*?) \| ([\d.]+) \|$", PAGE, re.M)
}


def imports(path: Path) -> set[str]:
    """Returns the top names that a script imports."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in names} - {path.stem for path in FOLDER.glob("*.py")}


def test_the_page_has_a_row_for_each_recipe():
    assert [*sorted(ROWS)] == [path.stem for path in RECIPES] and len(RECIPES) == 10


def test_speedups_of_the_page_are_those_of_the_records():
    records = json.loads((ROOT / "examples" / "recorded" / "outputs.json").read_text("utf-8"))
    printed = {path.stem: re.search(r"speedup ([\d.]+)", records[path.stem]["text"]) for path in RECIPES}
    assert {name: cells[-1] for name, cells in ROWS.items()} == {name: found[1] for name, found in printed.items()}


def test_the_extra_has_what_recipes_import():
    extra = (ROOT / "pyproject.toml").read_text("utf-8").partition("\ncookbook = [")[2].partition("]\n")[0]
    known = {re.split(r"[\[><=]", name)[0].replace("-", "_") for name in re.findall(r'"(.*?)"', extra)} | {"numpy"}
    asked = set().union(*map(imports, RECIPES)) - set(sys.stdlib_module_names) - {"torch"}
    assert asked <= known, asked - known


@pytest.mark.cookbook
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_runs(path, tmp_path):
    missing = [name for name in imports(path) if not find_spec(name)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    command = [sys.executable, "-W", "ignore", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert re.search(r": PyTorch [\d.]+ ms, dnnl_graph_ops [\d.]+ ms, speedup [\d.]+; ", done.stdout)
