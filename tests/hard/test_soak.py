"""Many calls, threads, nets and processes: results stay exact, memory stays, nothing hangs.

Each test has a short form, about 20 s together; in full they take at most 30 of the minutes of --hard.
"""

import json
import random
import subprocess
import sys
import time

import pytest
from children import TESTS, child, surroundings

from .soak import REBUILDS

pytestmark = [pytest.mark.short, pytest.mark.timeout(3600)]

BYTES_A_NET = 1024
SLACK = 4 << 20  # bytes that a process may keep whatever it does: too much to see a small leak in a short run
THREADS = 16


def soak(name, *arguments, seconds=3000, **environment):
    done = child("-m", "hard.soak", name, *map(str, arguments), seconds=seconds, **environment)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("openmp", "each", "short"), [(1, 100_000, 500), (2, 10_000, 20)], ids=["1", "2"])
def test_calls(hard, seed, figures, openmp, each, short):
    """In one OpenMP thread a call; few with more, as waiting for each other is most of what they do on two cores."""
    figures(**soak("calls", seed, THREADS, each if hard else short, OMP_NUM_THREADS=str(openmp)))


@pytest.mark.parametrize("kind", REBUILDS)
def test_rebuilds(hard, seed, figures, kind):
    if kind == "shapes" and not hard:
        pytest.skip("stores must fill first")
    warm, count = (1_000, 10_000) if hard else (50, 150)
    counted = soak("rebuilds", seed, kind, warm, count, OMP_NUM_THREADS="1")
    figures(**counted)
    assert counted["grown"] < BYTES_A_NET * (count - warm) + (0 if hard else SLACK)


def test_endings(hard, seed, figures):
    figures(**soak("endings", seed, 2_000 if hard else 30, OMP_NUM_THREADS="1"))


def test_forks(hard, seed, figures):
    counted = soak("forks", seed, 1_000 if hard else 20, OMP_NUM_THREADS="1")
    figures(**counted)
    assert counted["hangs"] == counted["wrong"] == 0


def test_spawns(hard, seed, figures):
    figures(**soak("spawns", seed, 50 if hard else 2, OMP_NUM_THREADS="1"))


def test_interrupts(hard, seed, figures, tmp_path):
    counted = soak("interrupts", seed, 1_000 if hard else 20, OMP_NUM_THREADS="1", XDG_CACHE_HOME=str(tmp_path))
    figures(**counted)
    assert counted["interrupted"]


def start(name, *arguments, cache):
    """A process of hard.soak that is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hard.soak", name, *map(str, arguments)],
        cwd=TESTS,
        env=surroundings(XDG_CACHE_HOME=str(cache), OMP_NUM_THREADS="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


def test_ended_while_a_tuning_file_is_written(hard, seed, figures, tmp_path):
    """At any moment there is the old file or the new one, whole."""
    moments = random.Random(seed)
    rounds, lengths = 300 if hard else 6, []
    for _ in range(rounds):
        process = start("write_for_ever", seed, cache=tmp_path)
        time.sleep(moments.random() * 0.1)
        process.terminate()
        assert process.wait(30) == -15, process.stderr.read()
        process.communicate()
        for path in tmp_path.rglob("*.json"):
            lengths.append(len(json.loads(path.read_text("utf-8"))))
    left = len(list(tmp_path.rglob("*.new")))
    figures(terminations=rounds, inside_a_write=left, old=lengths.count(3), new=lengths.count(2_000))
    assert len(lengths) == rounds and set(lengths) <= {3, 2_000}


def test_one_op_tuned_by_many_processes(hard, seed, figures, tmp_path):
    processes, rounds = 8, 20 if hard else 1
    for number in range(rounds):
        cache = tmp_path / str(number)
        cache.mkdir()
        started = [start("tune_once", seed, n, cache=cache) for n in range(processes)]
        (cache / "go").touch()
        for process in started:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0 and not err, out + err
        files = list((cache / "dnnl_graph_ops" / "tuning").iterdir())
        assert [path.suffix for path in files] == [".json"]
        assert json.loads(files[0].read_text("utf-8"))
    figures(processes=processes * rounds, rounds=rounds)
