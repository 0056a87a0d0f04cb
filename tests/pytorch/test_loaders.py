"""DataLoaders whose dataset computes: workers of every start method, whatever the parent has done before."""

import sys
from itertools import product
from pathlib import Path

import pytest
from children import child

RUNS = Path(__file__).with_name("loader_runs.py")
METHODS, PARENTS, THREADS = ("fork", "spawn", "forkserver"), ("idle", "compiled", "computed", "optimized"), (1, 2)
COUNT = 100

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork")


def run(method, parent, threads, count, seconds):
    done = child(str(RUNS), method, parent, str(threads), str(count), seconds=seconds)
    assert done.returncode == 0 and done.stdout.strip() == "right", done.stdout + done.stderr[-3000:]


@pytest.mark.child
@pytest.mark.parametrize("parent", PARENTS)
def test_forked_workers_compute(parent):
    run("fork", parent, 2, 3, seconds=300)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "parent", "threads"), [*product(METHODS, PARENTS, THREADS)])
def test_no_worker_hangs(method, parent, threads):
    run(method, parent, threads, COUNT, seconds=3600)
