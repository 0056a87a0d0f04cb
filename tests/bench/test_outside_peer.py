"""The package that docs/howto/peers.md shows is found by its entry point, and measured."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "peers.md"


@pytest.fixture
def bench(tmp_path):
    """Runs the benchmark's command where the page's package is installed."""
    (project,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    (module,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    (entry,) = re.findall(r'^\[project\.entry-points\."(.*)"\]\n(\w+) = "(.*)"$', project, re.M)
    (tmp_path / f"{entry[2].partition(':')[0]}.py").write_text(module, "utf-8")
    metadata = tmp_path / "numpy_peer-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy-peer\nVersion: 1\n", "utf-8")
    (metadata / "entry_points.txt").write_text(f"[{entry[0]}]\n{entry[1]} = {entry[2]}\n", "utf-8")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "dnnl_graph_ops", "bench", *arguments]
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.child
def test_it_is_listed(bench):
    assert re.search(r"\bnumpy\b", bench("list"))


@pytest.mark.bench
def test_its_rows_are_measured_once_its_numbers_are_right(bench, tmp_path):
    layers = ("mb2ic4ih9oc6kh3ph1", "mb1ic4iw12oc8kw5pw2")
    suite = [word for layer in layers for word in ("--suite", f"--conv {layer}")]
    quick = ("--layout", "NCX", "--threads", "1", "--min-rounds", "1", "--max-rounds", "2", "--burst", "0.01")
    bench("run", *suite, "--peers", "numpy", *quick, "--json", "out.json")
    rows = json.loads((tmp_path / "out.json").read_text("utf-8"))["rows"]
    entries = [entry for row in rows for entry in row["entries"] if entry["peer"] == "numpy"]
    assert [(entry["status"], entry["detail"]) for entry in entries] == [
        ("ok", "sliding windows, one product") for _ in layers
    ]
