"""DataLoaders whose dataset computes: workers of every start method, whatever the parent has done before."""

import sys
from itertools import product
from pathlib import Path

import pytest
from children import child

RUNS = Path(__file__).with_name("loader_runs.py")
PARENTS = ("idle", "compiled", "computed", "optimized")
CASES = [*product(("fork", "spawn", "forkserver"), PARENTS, (1, 2))]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork")


def run(method, parent, threads, count, seconds):
    done = child(str(RUNS), method, parent, str(threads), str(count), seconds=seconds)
    assert done.returncode == 0 and done.stdout.strip() == "right", done.stdout + done.stderr[-3000:]


@pytest.mark.child
@pytest.mark.parametrize("parent", PARENTS)
def test_forked_workers_compute(parent):
    run("fork", parent, 2, 3, seconds=300)


@pytest.mark.slow
@pytest.mark.numbers(len(CASES), every=(len(CASES), 9, 1))
def test_no_worker_hangs(number, amount):
    method, parent, threads = CASES[number]
    run(method, parent, threads, amount(1, 1, 100), seconds=3600)
