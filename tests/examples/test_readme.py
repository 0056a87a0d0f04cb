"""What README.md shows runs, and the commands that are checked are there."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.docs
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_python(number):
    exec(compile(BLOCKS[number], f"README.md, Python block {number}", "exec"), {})


def test_blocks_were_found():
    assert len(BLOCKS) == README.count("```python") >= 2


@pytest.mark.parametrize("marker", ["main job", "tests"])
def test_commands(marker):
    found = re.findall(rf"^<!-- ci: {marker} -->\n```bash\n(.*)\n```$", README, re.MULTILINE)
    assert len(found) == 1
    assert "pip install" in found[0]
