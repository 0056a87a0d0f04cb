"""The script that type checkers read in .ci/run does what it says."""

from pathlib import Path

import pytest
from children import child


@pytest.mark.child
def test_it_runs() -> None:
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    done = child(str(Path(__file__).with_name("user_script.py")))
    assert done.stdout == "done\n", done.stderr
