"""At least 2,000 malformed calls over the family: no crash, no hang, only the family's errors and TypeError.

One call again: python -m family.fuzz_child SEED NUMBER NUMBER+1, in the folder tests.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CALLS, CALLS_ALL, PER_PROCESS = 2000, 10000, 500
SECONDS = 240


def child(*arguments: str, seconds: float = SECONDS, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python with the tests' folder on its path, in that folder."""
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
    )


def pytest_generate_tests(metafunc):
    if "start" in metafunc.fixturenames:
        calls = CALLS_ALL if metafunc.config.getoption("--all") else CALLS
        metafunc.parametrize("start", range(0, calls, PER_PROCESS))


def test_malformed_calls(seed, start):
    stop = start + PER_PROCESS
    print(f"python -m family.fuzz_child {seed} {start} {stop}")
    try:
        done = child("-m", "family.fuzz_child", str(seed), str(start), str(stop))
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode(errors="replace")
        pytest.fail(f"hang after {text.splitlines()[-1:]}")
    lines = done.stdout.splitlines()
    last = lines[-1:] or [done.stderr[-2000:]]
    assert last[0].startswith("DONE"), f"exit {done.returncode} in {last}\n{done.stderr[-3000:]}"
    failures = [line for line in lines if line.startswith("FAILURE")]
    assert not failures, "\n".join(failures)
    assert done.returncode == 0
    refused = int(last[0].split(", ")[1].split()[0])
    assert refused > PER_PROCESS / 2, "most malformed calls must be refused"
