"""Measures the rates of this CPU in processes of their own: how far they and the choices by them differ between runs.

Each process has an empty cache and no record of the package. Printed: by unit the least and largest rate, the seconds
that the first choice waits, and the layers for which processes choose different algorithms, or by other corrections.
Layers are drawn from the suites, in f32, bf16 and f16.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms.table import candidates
from dnnl_graph_ops.bench import times
from dnnl_graph_ops.bench.problem import OPS
from dnnl_graph_ops.bench.suite import real_layers
from dnnl_graph_ops.cost import model as cost
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.runtime import rates

DTYPES = ("f32", "bf16", "f16")
LARGEST = 0.3  # billions of products; larger layers are halved


def report(seed: int, count: int) -> dict[str, Any]:
    """Returns the rates, the corrections and the choices of this process."""
    rates.cpu_model = lambda: "a CPU that the package has no record of"
    engine = dgo.engine("cpu")
    wall, thread = time.perf_counter(), time.thread_time()
    record = rates.of(engine)
    wall, thread = time.perf_counter() - wall, time.thread_time() - thread
    assert record is not None
    env, rng = Env(engine, 1), random.Random(seed)
    layers = [layer for op in OPS for layer in real_layers(op)]
    choices = {}
    for _ in range(count):
        layer, dtype = times.smaller(rng.choice(layers), LARGEST), rng.choice(DTYPES)
        if layer is not None:
            direction, constant = rng.choice(times.ASKED[layer.op])
            problem = times.described(layer.adjoint, direction, "NXC", constant, dtype, run=False)
            choices[f"{layer.name} {direction} {dtype}"] = candidates(problem, env)[0][0].name
    corrections = {
        f"{unit}, data in {dtype}": factor
        for dtype in DTYPES
        for unit, factor in cost.corrections(env.isa, env.release, dtype, record).items()
    }
    return {"rates": dict(record.rates), "seconds": [wall, thread], "corrections": corrections, "choices": choices}


def one(seed: int, count: int) -> dict[str, Any]:
    """Returns the report of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--one", "--seed", str(seed), "--layers", str(count)]
        environment = {**os.environ, "XDG_CACHE_HOME": folder, rates.VARIABLE: ""}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    content: dict[str, Any] = json.loads(done.stdout)
    return content


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keeps so many processes computing meanwhile."""
    command = [sys.executable, "-c", "import numpy as np\na = np.ones((600, 600))\nwhile True: a @ a"]
    running = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--layers", type=int, default=200)
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="so many other processes compute meanwhile")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(report(options.seed, options.layers)))
        return
    with busy(options.busy):
        reports = [one(options.seed, options.layers) for _ in range(options.processes)]
    for unit in reports[0]["rates"]:
        values = sorted(one["rates"][unit] for one in reports)
        print(f"{unit}: {values[0]:.1f} to {values[-1]:.1f} GMAC/s, median {values[len(values) // 2]:.1f}")
    for name, column in (("seconds until the first choice", 0), ("seconds of the thread", 1)):
        values = sorted(one["seconds"][column] for one in reports)
        print(f"{name}: {values[0] * 1e3:.0f} to {values[-1] * 1e3:.0f} ms")
    for what in ("corrections", "choices"):
        seen = {key: [one[what][key] for one in reports] for key in reports[0][what]}
        apart = {key: values for key, values in seen.items() if len(set(values)) > 1}
        print(f"{len(apart)} of {len(seen)} {what} differ")
        for key, values in apart.items():
            print(f"  {key}: {', '.join(f'{value} ({values.count(value)})' for value in dict.fromkeys(values))}")


if __name__ == "__main__":
    main()
