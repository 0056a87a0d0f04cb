"""Whether an engine's buffers lie in memory of this process is asked of one property, read from all attributes."""

import ast
from pathlib import Path

import pytest

import dnnl_graph_ops
from dnnl_graph_ops.runtime.engines import Engine, engine

ROOT = Path(dnnl_graph_ops.__file__).parent


def reads(path: Path) -> list[int]:
    """Lines that read `engine.memory`, of a variable or an attribute of the name."""
    return sorted(
        node.lineno
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr == "memory"
        and ast.unparse(node.value).rpartition(".")[2].endswith("engine")
    )


@pytest.mark.slow
def test_nobody_outside_runtime_reads_where_memory_is():
    outside = [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "runtime"]
    assert [f"{path.relative_to(ROOT)}:{line}" for path in outside for line in reads(path)] == []


def test_the_reader_sees_both_spellings(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("engine.memory\nbuilt.env.engine.memory is None\noptions.memory\nself._engine.memory\n", "utf-8")
    assert reads(path) == [1, 2, 4]


def test_the_property():
    host = engine("cpu")
    device = object.__new__(Engine)
    device.memory = "device"
    assert host.on_host and not device.on_host
