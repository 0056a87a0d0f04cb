"""Tests in processes of their own: what could crash or hang must not take the test run with it."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SECONDS = 240


def surroundings(**more: str) -> dict[str, str]:
    """The environment of a process of its own: the tests' folder on its path.

    Its OpenMP threads wait asleep: beside other work, threads that spin make milliseconds of each microsecond.
    """
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "OMP_WAIT_POLICY": "passive", "PYTHONPATH": path, **more}


def child(
    *arguments: str, seconds: float = SECONDS, cwd: Path = TESTS, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Python with the tests' folder on its path, in that folder unless told otherwise."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=surroundings(**environment),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
    )


def check_faulty_cases(module: str, seed: int, start: int, stop: int, least: float = 0.5) -> tuple[int, int]:
    """`python -m module SEED START STOP` feeds faulty things to the package: it must live, and refuse most of them.

    The module prints a line before each case, one that starts with FAILURE for each unexpected error, and at the end
    "DONE number, number refused". `module` may have arguments of its own before these; `least` is the share of the
    cases to be refused. Returns how many were, and by how many KB the process grew if it says so at the end.
    """
    command = ("-m", *module.split(), str(seed), str(start), str(stop))
    print("python", *command)
    try:
        # what it makes the library write (dumps of code) goes with the folder
        with tempfile.TemporaryDirectory() as folder:
            done = child(*command, cwd=Path(folder))
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
    grown = re.search(r"grew by (-?\d+) KB", last[0])
    assert refused >= (stop - start) * least, "most faulty cases must be refused"
    return refused, int(grown[1]) if grown else 0


def print_failures(check: Callable[[int, int], Iterable[str]], seed: int, start: int, stop: int) -> None:
    """In the child of `check_right_cases`: prints each case and each failure, and at the end how many there were."""
    failures = 0
    for number in range(start, stop):
        print(number, flush=True)
        try:
            for text in check(seed, number):
                failures += 1
                print("FAILURE", number, text, flush=True)
        except Exception as error:
            failures += 1
            print("FAILURE", number, type(error).__name__, error, flush=True)
    print(f"DONE {stop - start}, {failures} failures", flush=True)


def check_right_cases(module: str, seed: int, start: int, stop: int, limit: str) -> None:
    """`python -m module SEED START STOP`, the library limited to an instruction set, must find no failure."""
    arguments = ("-m", module, str(seed), str(start), str(stop))
    print(f"ONEDNN_MAX_CPU_ISA={limit} python", *arguments)
    done = child(*arguments, ONEDNN_MAX_CPU_ISA=limit)
    lines = done.stdout.splitlines()
    assert lines[-1:] == [f"DONE {stop - start}, 0 failures"], "\n".join([*lines[-5:], done.stderr[-2000:]])
