"""Every room of the package and of the kernels has tests that its name finds."""

import re
import subprocess
import sys

import pytest
from rooms import ELSEWHERE, TESTS, paths_of, rooms


@pytest.mark.parametrize("room", sorted({*rooms(), *ELSEWHERE}))
def test_a_room_has_tests(room: str) -> None:
    for path in paths_of(room):
        files = (TESTS / path).rglob("test_*.py") if (TESTS / path).is_dir() else [TESTS / path]
        assert any(re.search(r"^def test_", file.read_text("utf-8"), re.MULTILINE) for file in files), path


def test_the_command_prints_paths_or_all_rooms() -> None:
    def run(*names: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, TESTS / "rooms.py", *names], capture_output=True, text=True)

    assert run("torch", "passes", "ir").stdout.split() == ["pytorch", "passes", "rewrites", "test_wiring.py"]
    assert run("test_fork.py").stdout.split() == ["test_fork.py"]
    refused = run("lowering")
    assert refused.returncode
    assert "no tests of 'lowering'; rooms: algorithms backends" in refused.stderr
