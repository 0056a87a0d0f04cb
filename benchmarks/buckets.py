"""Times a model of unknown length at many lengths: each called once, prepared before, or padded to buckets.

`python benchmarks/buckets.py` prints the table of docs/howto/shapes.md: seconds of the processor on one thread, medians
of processes. Each way loads the model in a process of its own, calls it at COUNT lengths, and calls all again. A bucket
is the next multiple of its size: the input is padded with zeros, and the result cut. ONNX Runtime calls each length.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops.bench.zoo import export

MODEL, CHANNELS, LENGTHS, COUNT, SEED = "hifigan_v2", 80, range(20, 201), 100, 7
SAMPLES = 256  # of the result, for each position of the input
WAYS = ("every length", "prepared", "buckets of 8", "buckets of 16", "buckets of 32", "onnxruntime")


def lengths() -> list[int]:
    return random.Random(SEED).sample(LENGTHS, COUNT)


def bucket_of(length: int, size: int) -> int:
    return -(-length // size) * size


def caller(way: str) -> tuple[Callable[[np.ndarray], np.ndarray], Any]:
    """Returns a function of one input (1, CHANNELS, length), and the net if it is this package's."""
    path = export.path(MODEL, unknown=True)
    if way == "onnxruntime":
        import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return lambda x: session.run(None, {name: x})[0], None
    net = dgo.from_onnx(path).compile()
    size = int(way.rpartition(" ")[2]) if way.startswith("buckets") else 1

    def call(x: np.ndarray) -> np.ndarray:
        length = x.shape[2]
        padded = np.pad(x, ((0, 0), (0, 0), (0, bucket_of(length, size) - length))) if size > 1 else x
        result: np.ndarray = net(padded)[:, :, : SAMPLES * length]
        return result

    return call, net


def measured(way: str) -> dict[str, Any]:
    """Returns the seconds of preparing, of the first calls and of later calls, and the number of plans."""
    dgo.set_num_threads(1)
    call, net = caller(way)
    call(np.zeros((1, CHANNELS, LENGTHS[0]), np.float32))  # packs the weights
    inputs = [np.zeros((1, CHANNELS, length), np.float32) for length in lengths()]
    clock = time.process_time
    begin = clock()
    if way == "prepared":
        net.prepare([(1, CHANNELS, length) for length in lengths()])
    ready = clock()
    passes = []
    for _ in range(2):
        start = clock()
        for x in inputs:
            call(x)
        passes.append(clock() - start)
    return {"prepare": ready - begin, "first": passes[0], "later": passes[1], "plans": net and net.plan_count()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=WAYS, help="measure one way in this process, and print JSON")
    parser.add_argument("--turns", type=int, default=3, help="processes of each way")
    options = parser.parse_args(arguments)
    if options.way:
        print(json.dumps(measured(options.way)))
        return
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(options.turns):
        for way in WAYS:
            command = [sys.executable, __file__, "--way", way]
            found[way].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    print(f"| way | plans | `prepare` | first calls of {COUNT} lengths | the same again |\n|---|---:|---:|---:|---:|")
    for way, runs in found.items():
        prepare, first, later = (statistics.median(run[key] for run in runs) for key in ("prepare", "first", "later"))
        print(f"| {way} | {runs[0]['plans'] or ''} | {f'{prepare:.2f} s' if way == 'prepared' else ''} "
              f"| {first:.2f} s | {later:.2f} s |")  # fmt: skip


if __name__ == "__main__":
    main()
