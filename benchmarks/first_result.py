"""Times the way from an ONNX file to its first result beside ONNX Runtime and OpenVINO, in fresh processes.

`python benchmarks/first_result.py FILE... [--rounds N]` prints a Markdown table with a row for each file: the seconds
of reading and compiling, and those with the first call, over the rivals'. Imports do not count, nor loading libraries.
Each process runs one engine on one thread; times are the processor's, medians of rounds in changing order. Inputs have
the file's shapes, with 1 for sizes that the file leaves open.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

Call = Callable[[], object]
Make = Callable[[], Callable[[Mapping[str, Any]], object]]


def ours(path: str) -> Make:
    import dnnl_graph_ops as dgo
    from dnnl_graph_ops.frontends import onnx as reader  # noqa: F401 (an import, which does not count)

    dgo.set_num_threads(1)
    dgo.engine()
    return lambda: dgo.from_onnx(path).compile().run


def onnxruntime(path: str) -> Make:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1

    def make() -> Callable[[Mapping[str, Any]], object]:
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda inputs: session.run(None, dict(inputs))

    return make


def openvino(path: str) -> Make:
    import openvino as ov

    options = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    core = ov.Core()
    return lambda: core.compile_model(path, "CPU", options)


ENGINES: Mapping[str, Callable[[str], Make]] = {"ours": ours, "onnxruntime": onnxruntime, "openvino": openvino}


def inputs_of(path: str) -> dict[str, Any]:
    """Returns a random array for each input of a file."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    weights = {each.name for each in graph.initializer}
    rng, arrays = np.random.default_rng(0), {}
    for each in graph.input:
        kind = each.type.tensor_type
        shape = [max(dim.dim_value, 1) for dim in kind.shape.dim]
        if each.name not in weights:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            arrays[each.name] = (10 * rng.random(shape) if dtype.kind in "iu" else rng.standard_normal(shape)).astype(
                dtype
            )
    return arrays


def time_once(engine: str, path: str) -> None:
    """Prints the seconds until the model can be called, and the seconds until its first result."""
    make, inputs = ENGINES[engine](path), inputs_of(path)
    start = time.process_time()
    run = make()
    ready = time.process_time() - start
    run(inputs)
    print(ready, time.process_time() - start)


def seconds(engine: str, path: str) -> tuple[float, float]:
    """Returns the seconds of `time_once` in a process of its own."""
    command = [sys.executable, __file__, path, "--engine", engine]
    ready, first = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-2:]
    return float(ready), float(first)


def measure(path: str, rounds: int) -> dict[str, tuple[float, float]]:
    """Returns the medians of each engine; an engine that fails on a file has infinite times."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ENGINES}
    for number in range(rounds):
        for name in list(ENGINES)[:: 1 if number % 2 else -1]:
            try:
                times[name].append(seconds(name, path))
            except subprocess.CalledProcessError as error:
                print(f"{name} on {path}: {error.stderr.splitlines()[-1:]}", file=sys.stderr)
                times[name].append((float("inf"), float("inf")))
    return {
        name: (median(ready for ready, _ in some), median(first for _, first in some)) for name, some in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=ENGINES, help="prints the seconds of one engine on one file")
    options = parser.parse_args()
    if options.engine:
        return time_once(options.engine, options.files[0])
    print("| model | ready, s | / ONNX Runtime | / OpenVINO | first result, s | / ONNX Runtime | / OpenVINO |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for path in options.files:
        times = measure(path, options.rounds)
        mine = times["ours"]
        row = [value for i in (0, 1) for value in (mine[i], *(mine[i] / times[n][i] for n in list(ENGINES)[1:]))]
        rows.append(row)
        print(f"| {Path(path).stem} | " + " | ".join(f"{value:.2f}" for value in row) + " |", flush=True)
    means = (geometric_mean(column) for column in zip(*rows, strict=True))
    print("| geometric mean | " + " | ".join(f"{value:.2f}" for value in means) + " |")


if __name__ == "__main__":
    main()
