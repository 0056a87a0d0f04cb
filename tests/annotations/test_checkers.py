"""mypy --strict and basedpyright each see every mistake of a user's script, and nothing else."""

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from children import child

SCRIPT = Path(__file__).with_name("typical.py")
ROOT = SCRIPT.parents[2]
WRONG = [n for n, line in enumerate(SCRIPT.read_text("utf-8").splitlines(), 1) if line.endswith("# wrong")]


def said(name, *arguments):
    if not find_spec(name):
        pytest.skip(f"needs {name}")
    return child("-m", name, *arguments, cwd=ROOT, seconds=300).stdout


def test_twenty():
    assert len(WRONG) == 20


@pytest.mark.child
def test_mypy(tmp_path):
    text = said("mypy", "--config-file=", "--strict", f"--cache-dir={tmp_path}", str(SCRIPT))
    assert {int(number) for number in re.findall(rf"{SCRIPT.name}:(\d+): error", text)} == set(WRONG), text


@pytest.mark.child
def test_basedpyright(tmp_path):
    # the settings of the project are for other files
    settings = {"include": [str(SCRIPT)], "typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    text = said("basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path))
    errors = [item for item in json.loads(text)["generalDiagnostics"] if item["severity"] == "error"]
    assert {item["range"]["start"]["line"] + 1 for item in errors} == set(WRONG), errors
