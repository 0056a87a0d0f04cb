"""Extras have a row of their page each, and messages name them in the form that works without an index."""

from __future__ import annotations

import re

import pytest

from dnnl_graph_ops.errors import extra

from .contents import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
EXTRAS = re.findall(r"^(\w+) = \[", PROJECT.partition("[project.optional-dependencies]")[2].partition("\n[")[0], re.M)
PACKAGE = sorted((ROOT / "dnnl_graph_ops").rglob("*.py"))
# where a user reads a command: messages, examples and pages
READ = [*PACKAGE, *(ROOT / "examples").rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_the_page_has_every_extra():
    page = (ROOT / "docs" / "howto" / "extras.md").read_text("utf-8")
    rows = [name for cell in re.findall(r"^\| (`.*?`) \|", page, re.M) for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(rows) == sorted(EXTRAS)


def test_gpu_is_another_name_of_sycl():
    requirements = dict(re.findall(r"^(gpu|sycl) = (\[.*\])$", PROJECT, re.M))
    assert requirements["gpu"] == requirements["sycl"]


def test_one_function_says_how_an_extra_is_installed():
    """Until an index has the package, its bare name there would be somebody else's."""
    assert extra("onnx") == "pip install 'onnx>=1.17'"
    assert extra("cluster") == "pip install 'dask>=2024.8' 'distributed>=2024.8'"
    assert not [path for path in PACKAGE if re.search(r"pip install [\"'\\]*[\w.-]*\[", path.read_text("utf-8"))]
    called = {name for path in PACKAGE for name in re.findall(r"\b_?extra\([\"'](\w+)[\"']\)", path.read_text("utf-8"))}
    assert {"onnx", "torch", "sycl", "bench", "cluster"} <= called <= set(EXTRAS)


@pytest.mark.parametrize("spelling", ["dnnl-graph-ops", "dnnl_graph_ops"])
def test_no_text_installs_the_package_by_its_bare_name(spelling):
    pattern = re.compile(rf"pip install [^`\n&;]*(?<![\w./-]){spelling}(?![\w-])(?!-\S*whl)")
    lines = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in READ
        for line in path.read_text("utf-8").splitlines()
        if pattern.search(line)
    ]
    # the package is there by then: the command before it installed it, and pip asks no index for what is installed
    known = "README.md: . .venv/bin/activate && pip install 'dnnl-graph-ops[test]' && pytest -n 2"
    assert [line for line in lines if line != known and "in a clone" not in line] == []
