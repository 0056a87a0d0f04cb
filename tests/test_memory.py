"""Plans that are dropped give their memory back."""

import os
import subprocess
import sys

ROUNDS, WARM, LIMIT_MB = 300, 20, 30
CHILD = f"""
import numpy as np
import dnnl_graph_ops as dgo

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

# 4 MB of weights that are new in every round
x = np.ones((1, 2, 2, 128), np.float32)
weights = np.zeros((8, 8, 128, 128), np.float32)
assert weights.nbytes == 1 << 22
for number in range({ROUNDS}):
    weights[...] = number
    graph = dgo.Graph()
    y = dgo.ops.conv_transpose(graph.input("x", x.shape), graph.constant(weights), strides=8)
    result = graph.compile(y)(x)
    assert (result == 128 * number).all(), number
    if number == {WARM}:
        before = resident()
print(resident() - before)
"""


def test_rounds_of_build_compile_run_drop(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < LIMIT_MB
