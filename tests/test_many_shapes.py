"""One-shot functions over hundreds of shapes in any order: exact, bounded, from many threads, and around a fork."""

import random
import sys

import pytest
from children import child
from concurrently import in_threads
from many_shapes import calls

import dnnl_graph_ops as dgo

# drawn with a seed of their own, whatever --seed says
FIXED, SHAPES, SOME = 7, 500, 150
THREADS, LIMIT = 16, 1 << 20


def in_order(todo, seed):
    return random.Random(seed).sample(todo, len(todo))


def held():
    bytes = dgo.cache_info()["bytes"]
    return bytes["total"] - bytes["shared_scratch"]


@pytest.mark.slow
def test_all_plans_are_kept_where_there_is_room(limit):
    todo = calls(FIXED, SHAPES)
    for order in range(2):
        for call in in_order(todo, order):
            call.check()
        assert dgo.cache_info()["size"] == SHAPES
    assert dgo.cache_info()["misses"] == SHAPES


@pytest.mark.slow
def test_plans_that_do_not_fit_go(limit):
    todo = calls(FIXED, SHAPES)
    limit(LIMIT)
    before = held()
    largest = 0
    for call in in_order(todo, 2):
        call.check()
        largest = max(largest, held())
    assert largest <= max(LIMIT, before) + LIMIT / 4
    assert 1 < dgo.cache_info()["size"] < SHAPES


@pytest.mark.slow
@pytest.mark.parametrize("bytes", [None, LIMIT, 0], ids=["room", "a small limit", "no room"])
def test_threads(bytes, limit, seed, full):
    """Each in an order of its own; caches are emptied meanwhile, and the limit changes."""
    print(f"--seed={seed}")
    todo = calls(seed, SHAPES if full else SOME)
    limit(bytes)

    def work(number):
        for step, call in enumerate(in_order(todo, seed + number)[:: 1 if full else 3]):
            call.check()
            if number == 0 and step % 25 == 24:
                dgo.clear_caches()
            if number == 1 and step % 40 == 39:
                limit(bytes if step % 80 == 79 else LIMIT)

    in_threads(THREADS, work)


FORKS = """
import os, sys, threading, warnings
import dnnl_graph_ops as dgo
from many_shapes import calls

warnings.simplefilter("ignore", DeprecationWarning)
todo = calls({seed}, {count})

def in_child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def everything():
    for call in todo:
        call.check()

def told():
    for call in todo[:3]:
        try:
            call.check()
        except dgo.Error as error:
            assert "spawn" in str(error), error

# nothing has run here yet
in_child(everything)

failed, ended = [], threading.Event()
def work(number):
    try:
        while not ended.is_set():
            for call in todo[number::4]:
                call.check()
            if number == 0:
                dgo.clear_caches()
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
todo[0].check()
for _ in range({forks}):
    in_child(told)
ended.set()
for thread in threads:
    thread.join()
everything()
# with one thread
in_child(everything)
print("failed", failed)
"""


@pytest.mark.child
@pytest.mark.skipif(sys.platform != "linux", reason="fork")
def test_forks(seed, full):
    """A child of a process whose threads compute may be told; others compute; the parent goes on."""
    script = FORKS.format(seed=seed, count=SHAPES if full else 60, forks=40 if full else 8)
    done = child("-c", script, OMP_NUM_THREADS="2")
    assert done.returncode == 0 and done.stdout.splitlines()[-1:] == ["failed []"], done.stdout + done.stderr[-3000:]
