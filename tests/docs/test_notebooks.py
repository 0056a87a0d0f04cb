"""Notebooks among the examples run from top to bottom, and are kept without outputs, which depend on the machine."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
# media types that cells show at least once
SHOWN = {
    "look_inside": {"text/html", "image/svg+xml", "text/plain"},
    "pytorch_model": {"text/html", "text/plain"},
}


def test_notebooks_were_found():
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_outputs_are_kept(path):
    content = json.loads(path.read_text("utf-8"))
    assert set(content["metadata"]) == {"kernelspec", "language_info"}
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None, cell["id"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_tutorials_lead_to_it(path):
    page = (ROOT / "docs" / "tutorials" / "index.md").read_text("utf-8")
    assert f"(../../examples/notebooks/{path.name})" in page


@pytest.mark.docs
@pytest.mark.child
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="needs the extra 'test'")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra 'test'")
    for package in ("ipykernel", "pandas"):
        pytest.importorskip(package, reason="needs the extra 'test'")
    if "import torch" in path.read_text("utf-8"):
        pytest.importorskip("torch", reason="needs the extra 'torch'")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    # bars of progress are written to it
    errors = "".join(output.text for output in outputs if output.get("name") == "stderr")
    assert "Warning" not in errors and "Error" not in errors, errors
    shown = {media for output in outputs for media in output.get("data", {})}
    assert shown >= SHOWN[path.stem]
    texts = "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs)
    assert "False" not in re.findall(r"\b(?:True|False)\b", texts)
