"""Threads in the native code under the thread sanitizer: no race in code of ours."""

import subprocess
import time

import pytest

from .builds import build

pytestmark = pytest.mark.timeout(3600)

ROUNDS = 30

# an unguarded counter, and Python threads that raise it with the GIL released
COUNTER = 'int counter = 0;\nextern "C" void count() { for (int i = 0; i < 20000000; ++i) ++counter; }\n'
COUNT = """
import ctypes, sys, threading, dnnl_graph_ops._core
threads = [threading.Thread(target=ctypes.CDLL(sys.argv[1]).count) for _ in range(2)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
"""


def test_without_a_race(tmp_path, seed, figures):
    built = build("races", "thread")
    source, library = tmp_path / "counter.cpp", tmp_path / "counter.so"
    source.write_text(COUNTER)
    subprocess.run([built.compiler, "-fsanitize=thread", "-shared", "-fPIC", "-o", library, source], check=True)
    found, _ = built.python("-c", COUNT, library, reports=tmp_path / "awake")
    assert "data race" in "".join(found)

    start = time.monotonic()
    found, done = built.python("-m", "hard.races", seed, ROUNDS, reports=tmp_path / "races", OMP_NUM_THREADS="1")
    assert not found, f"{len(found)} findings\n" + "\n".join(text[:5000] for text in found[:10])
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0 and last and last[0].startswith("DONE"), done.stdout[-500:] + done.stderr[-5000:]
    figures(scenes=int(last[0].split()[1]), threads=4, findings=len(found), seconds=round(time.monotonic() - start))
