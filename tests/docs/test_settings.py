"""The page of environment variables and loggers lists all of the package's own that its sources read and make."""

import re
from pathlib import Path

import pytest

import dnnl_graph_ops

ROOT = Path(__file__).parents[2]
PACKAGE = Path(dnnl_graph_ops.__file__).parent
PAGE = ROOT / "docs/howto/settings.md"


def found(pattern, *folders):
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in (".py", ".cpp", ".hpp")]
    return {name for file in files for name in re.findall(pattern, file.read_text())}


@pytest.mark.skipif(not PAGE.exists(), reason="an installed package has no pages")
def test_the_page_has_every_variable():
    names = found(r"\"(DNNL_GRAPH_OPS_[A-Z0-9]+(?:_[A-Z0-9]+)*)\"", PACKAGE, ROOT / "bindings", ROOT / "docs")
    assert len(names) > 5
    assert not [name for name in names if f"`{name}`" not in PAGE.read_text()]


@pytest.mark.skipif(not PAGE.exists(), reason="an installed package has no pages")
def test_the_page_has_every_logger():
    found = [re.findall(r"\blogger\(\"([\w.]+)\"\)", file.read_text()) for file in PACKAGE.rglob("*.py")]
    names = {f"dnnl_graph_ops.{name}" for each in found for name in each}
    assert len(names) == 4
    assert not [name for name in names if f"`{name}`" not in PAGE.read_text()]
    assert not [file for file in PACKAGE.rglob("*.py") if "getLogger(" in file.read_text() and file.name != "log.py"]
