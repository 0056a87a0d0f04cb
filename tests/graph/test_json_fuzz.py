"""At least 2,000 broken graph files: no crash, no hang, only the package's errors.

One file again: python -m graph.mutations SEED NUMBER NUMBER+1, in the folder tests.
"""

import subprocess

import pytest
from family.test_fuzz import child

FILES, FILES_ALL, PER_PROCESS = 2000, 8000, 500


def pytest_generate_tests(metafunc):
    if "start" in metafunc.fixturenames:
        files = FILES_ALL if metafunc.config.getoption("--all") else FILES
        metafunc.parametrize("start", range(0, files, PER_PROCESS))


def test_broken_files(seed, start):
    stop = start + PER_PROCESS
    print(f"python -m graph.mutations {seed} {start} {stop}")
    try:
        done = child("-m", "graph.mutations", str(seed), str(start), str(stop))
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode(errors="replace")
        pytest.fail(f"hang after {text.splitlines()[-1:]}")
    lines = done.stdout.splitlines()
    failures = [line for line in lines if line.startswith("FAILURE")]
    assert not failures, "\n".join(failures)
    last = lines[-1:] or [done.stderr[-2000:]]
    assert last[0].startswith("DONE"), f"exit {done.returncode} in {last}\n{done.stderr[-3000:]}"
    refused = int(last[0].split(", ")[1].split()[0])
    assert refused > PER_PROCESS / 2, "most broken files must be refused"
