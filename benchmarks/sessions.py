"""ONNX models in sessions of ONNX Runtime: the execution provider, the CPU provider and `from_onnx`, in turns.

`python benchmarks/sessions.py MODEL...` compares results and times of each model in a process of its own, and prints a
table. MODEL is `zoo` or a name of it, `packages` or a name of `packages.json` (needs what `packages.py` needs), a layer
of `--layers FILE` (`layers`: all of them), or an ONNX file. Sizes of unknown dims are given as `file.onnx@1x3x640x640`,
for several inputs with commas. With `--sizes LOW:HIGHxCOUNT` models of the zoo are called with so many sizes, each
twice; a row has the sums over all sizes. With several `--threads` there are also sessions whose threads do not spin.
`--times FILE` adds the results to those of a file, and prints all of them.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from turns import Run, counts, in_turns, within

SECONDS: Final = 400
ROUNDS_SECONDS: Final = 6.0
LEAST_SECONDS: Final = 0.03
CPU: Final = "CPUExecutionProvider"
# the largest difference of results, of the largest value
TOLERANCE: Final = 1e-3
CONVOLUTION: Final = re.compile("Conv")
HEAD: Final = (
    "| model | convolutions | ms | CPU provider | from_onnx | groups + nodes left | error | s more to create |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|"
)


def source(name: str, options: argparse.Namespace) -> tuple[str | bytes, dict[str, np.ndarray]]:
    """Returns a model and its inputs."""
    from dnnl_graph_ops.bench import zoo

    if name in zoo.ENTRIES:
        from dnnl_graph_ops.bench.zoo import export

        arrays = export.inputs(name)
        return str(export.path(name)), {f"x{i}": array for i, array in enumerate(arrays)}
    path, _, sizes = name.partition("@")
    if path.endswith(".onnx"):
        return path, _drawn(path, [[int(n) for n in shape.split("x")] for shape in sizes.split(",") if shape])
    for row in _layers(options):
        if row["id"] == name:
            return _layer(row)
    from package_files import case_of
    from package_models import DRAWN, operators

    operators()
    rows = [row for row in json.loads(DRAWN.read_text())["models"] if row["name"] == name]
    if not rows:
        raise SystemExit(f"no model {name!r}")
    case = case_of(rows[0], options.folder)
    return str(case.path), {f"x{i}": x.numpy() for i, x in enumerate(case.inputs)}


def _drawn(path: str, shapes: list[list[int]]) -> dict[str, np.ndarray]:
    import onnxruntime

    rng = np.random.default_rng(7)
    feeds = {}
    for i, each in enumerate(onnxruntime.InferenceSession(path, providers=[CPU]).get_inputs()):
        dims = shapes[i] if i < len(shapes) else [dim if isinstance(dim, int) else 1 for dim in each.shape]
        kind = np.dtype({"float": "f4", "float16": "f2", "double": "f8"}.get(each.type[7:-1], each.type[7:-1]))
        feeds[each.name] = (rng.standard_normal(dims) if kind.kind == "f" else np.ones(dims)).astype(kind)
    return feeds


def _layers(options: argparse.Namespace) -> list[dict[str, Any]]:
    return json.loads(options.layers.read_text()) if options.layers else []


def _layer(row: Mapping[str, Any]) -> tuple[bytes, dict[str, np.ndarray]]:
    """Returns a model of one layer, an input that others make for it, and its activation."""
    from onnx import TensorProto, helper, numpy_helper

    kind = "ConvTranspose" if "OP" in row else "Conv"
    groups, ends = row["groups"], (row["IC"], row["OC"])
    rng = np.random.default_rng(7)
    shape = (ends[0], ends[1] // groups) if kind == "ConvTranspose" else (ends[1], ends[0] // groups)
    arrays = {"w": rng.standard_normal((*shape, *row["K"]), np.float32), "b": np.zeros(row["OC"], np.float32)}
    attributes: dict[str, Any] = {"strides": row["S"], "pads": [*row["P"], *row["P_end"]], "dilations": row["D"]}
    attributes |= {"group": groups} | ({"output_padding": row["OP"]} if kind == "ConvTranspose" else {})
    nodes = [helper.make_node(kind, ["x", "w", "b"], ["c"], **attributes), helper.make_node("Relu", ["c"], ["y"])]
    size = (row["N"], row["IC"], *row["spatial"])
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", size), ("y", None))]
    graph = helper.make_graph(nodes, "layer", infos[:1], infos[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString(), {"x": rng.standard_normal(size, np.float32)}


def session_of(model: str | bytes, provider: bool, threads: int, spinning: bool = True, **entries: Any) -> Any:
    import onnxruntime

    import dnnl_graph_ops.onnxruntime as dgr

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spinning)))
    for key, value in entries.items():
        setattr(options, key, value)
    if not provider:
        return onnxruntime.InferenceSession(model, options, providers=[CPU])
    options.add_provider_for_devices(dgr.register(), {"threads": str(threads)})
    return onnxruntime.InferenceSession(model, options, enable_fallback=0)


def kernels(
    model: str | bytes, provider: bool, threads: int, feeds: Mapping[str, Any]
) -> dict[str, list[tuple[str, float]]]:
    """Returns the operators that a call runs and their microseconds, by provider."""
    with tempfile.TemporaryDirectory() as folder:
        entries = {"enable_profiling": True, "profile_file_prefix": str(Path(folder) / "profile")}
        session = session_of(model, provider, threads, **entries)
        session.run(None, feeds)
        session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    by_provider: dict[str, list[tuple[str, float]]] = collections.defaultdict(list)
    for event in events:
        if event["name"].endswith("kernel_time"):
            by_provider[event["args"]["provider"]].append((event["args"]["op_name"], event["dur"]))
    # those of the second call
    return {name: durations[len(durations) // 2 :] for name, durations in by_provider.items()}


def one(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Returns a row of results: milliseconds, ratios of the rounds to the provider's time, what was claimed."""
    import dnnl_graph_ops as dgo

    dgo.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    model, feeds = source(name, options)
    sessions, created = {}, {}
    for kind, provider in (("cpu", False), ("provider", True)):
        begin = clock()
        sessions[kind] = session_of(model, provider, options.threads)
        created[kind] = round(clock() - begin, 4)
        begin = clock()
        sessions[kind].run(None, feeds)
        created[f"{kind}, first call"] = round(clock() - begin, 4)
    expected, results = (sessions[kind].run(None, feeds) for kind in ("cpu", "provider"))
    error = _error(expected, results)
    alone, ran = (kernels(model, provider, options.threads, feeds) for provider in (False, True))
    times = [took for _, took in alone[CPU]]
    convolutions = [took for kind, took in alone[CPU] if CONVOLUTION.search(kind)]
    left = collections.Counter(kind for kind, _ in ran.get(CPU, ()))
    row: dict[str, Any] = {"name": name, "error": float(f"{error:.1e}"), "created": created}
    row |= {"convolutions": round(sum(convolutions) / sum(times), 3), "nodes": len(times)}
    row |= {"groups": sum(len(some) for key, some in ran.items() if key != CPU), "left": dict(left.most_common())}
    if options.threads > 1:
        still = {kind: session_of(model, kind == "provider", options.threads, spinning=False) for kind in sessions}
        sessions |= {f"{kind}, no spinning": session for kind, session in still.items()}
    runs: dict[str, Run] = {key: functools.partial(session.run, None, feeds) for key, session in sessions.items()}
    try:
        begin = clock()
        net = dgo.from_onnx(model).compile()
        created["from_onnx"] = round(clock() - begin, 4)
        arrays = [feeds[key] for key in net.input_names]
        net(*arrays)
        runs["from_onnx"] = functools.partial(net, *arrays)
    except dgo.Error as refused:
        row["from_onnx"] = str(refused).splitlines()[0]
    seconds = in_turns(runs, counts(runs, LEAST_SECONDS, clock), within(options.seconds_of_rounds, 6, 25), clock)
    row["ms"] = {key: round(1e3 * statistics.median(some), 3) for key, some in seconds.items()}
    row["speedup"] = {
        key: round(statistics.median(b / a for a, b in zip(seconds["provider"], some, strict=True)), 3)
        for key, some in seconds.items()
        if key != "provider"
    }
    return row


def one_by_sizes(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Returns a row of results: seconds of all first and of all second calls, errors included."""
    import dnnl_graph_ops as dgo
    from dnnl_graph_ops.bench import data, models
    from dnnl_graph_ops.bench.zoo import export

    dgo.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    path = str(export.path(name, unknown=True))
    drawn = models.drawn(models.Model(name, path, "", name, options.sizes), options.seed)
    sessions = {
        kind: session_of(path, provider, options.threads) for kind, provider in (("cpu", False), ("provider", True))
    }
    net = dgo.from_onnx(path).compile()
    names = [info.name for info in sessions["cpu"].get_inputs()]
    runs: dict[str, Callable[[dict[str, Any]], Any]] = {
        **{kind: functools.partial(session.run, None) for kind, session in sessions.items()},
        "from_onnx": lambda feeds: list(net.run(feeds).values()),
    }
    seconds: dict[str, list[list[float]]] = {kind: [[], []] for kind in runs}
    error = 0.0
    for number, shapes in enumerate(drawn.shapes):
        feeds = dict(zip(names, data.drawn(shapes, drawn.dtypes, options.seed), strict=True))
        turns = list(runs)[number % 3 :] + list(runs)[: number % 3]
        results = {}
        for again in range(2):
            for kind in turns:
                begin = clock()
                results[kind] = runs[kind](feeds)
                seconds[kind][again].append(clock() - begin)
        error = max(error, *(_error(results["cpu"], results[kind]) for kind in ("provider", "from_onnx")))
    row: dict[str, Any] = {"name": name, "sizes": len(drawn.shapes), "error": float(f"{error:.1e}")}
    for again, calls in enumerate(("first", "second")):
        sums = {kind: sum(some[again]) for kind, some in seconds.items()}
        row[calls] = {kind: round(some, 4) for kind, some in sums.items()}
        row[f"{calls}, provider's over"] = {
            kind: round(sums["provider"] / sums[kind], 3) for kind in sums if kind != "provider"
        }
    return row


def _error(expected: list[np.ndarray], results: list[np.ndarray]) -> float:
    """Returns the largest difference of results, of the largest value."""
    return max(
        (float(np.abs(np.float64(a) - b).max(initial=0) / (np.abs(a).max(initial=0) or 1)))
        for a, b in zip(expected, results, strict=True)
        if a.dtype.kind in "fiu"
    )


def named(names: list[str], options: argparse.Namespace) -> Iterator[str]:
    from dnnl_graph_ops.bench import zoo

    for name in names:
        if name == "zoo":
            yield from zoo.ENTRIES
        elif name == "packages":
            rows = json.loads((Path(__file__).with_name("packages.json")).read_text())["models"]
            yield from (row["name"] for row in rows)
        elif name == "layers":
            yield from (row["id"] for row in _layers(options))
        else:
            yield name


def measure(options: argparse.Namespace) -> None:
    every = json.loads(options.times.read_text()) if options.times and options.times.exists() else {}
    for name in named(options.models, options):
        command = [sys.executable, __file__, "--one", name, *sys.argv[1:]]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            lines = [line for line in done.stdout.splitlines() if line.startswith('{"name"')]
            failed = f"ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
        except subprocess.TimeoutExpired:
            lines, failed = [], f"took more than {SECONDS} s"
        every[name] = json.loads(lines[-1]) if lines else {"name": name, "failed": failed}
        print(line(every[name]), flush=True)
        if options.times:
            lines = [f" {json.dumps(key)}: {json.dumps(row)}" for key, row in every.items()]
            options.times.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    rows = sorted(every.values(), key=lambda row: row.get("speedup", {}).get("cpu", math.inf))
    print("\n".join(["", HEAD, *map(line, rows), ""]))
    summary(rows)


def line(row: Mapping[str, Any]) -> str:
    if "sizes" in row:
        return json.dumps(row)
    if "failed" in row:
        return f"| {row['name']} | {row['failed'][:160]} | | | | | | |"
    ours, left = row["speedup"], sum(row["left"].values())
    cells = [Path(row["name"]).stem if row["name"].startswith("/") else row["name"], f"{row['convolutions']:.2f}"]
    cells += [f"{row['ms']['provider']:.2f}", f"{ours['cpu']:.2f}", f"{ours.get('from_onnx', math.nan):.2f}"]
    cells += [f"{row['groups']} + {left}" if row["groups"] else "none", f"{row['error']:.0e}"]
    cells += [f"{row['created']['provider'] - row['created']['cpu']:.2f}"]
    return f"| {' | '.join(cells)} |"


def summary(rows: list[dict[str, Any]]) -> None:
    timed = [row for row in rows if "ms" in row]
    mostly = [row["speedup"]["cpu"] for row in timed if row["convolutions"] >= 0.5]
    every = [row["speedup"]["cpu"] for row in timed]
    if not every:
        return
    if mostly:
        print(f"mostly convolutions: {statistics.geometric_mean(mostly):.2f} of {len(mostly)} models")
    print(f"all: {statistics.geometric_mean(every):.2f} of {len(every)} models, lowest {min(every):.2f}")
    for row in timed:
        if row["speedup"]["cpu"] < 0.97:
            print(f"loses: {row['name']} {row['speedup']['cpu']:.2f}")
        if not row["left"] and row["speedup"].get("from_onnx", 1) < 0.95:
            print(f"slower than from_onnx: {row['name']} {row['speedup']['from_onnx']:.2f}")
        if row["error"] > TOLERANCE:
            print(f"differs: {row['name']} {row['error']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--layers", type=Path, help="a JSON list of layers, as the corpora have them")
    parser.add_argument("--folder", type=Path, default=Path("packages_onnx"), help="where exported files are kept")
    parser.add_argument("--times", type=Path, help="a file of results, to which those of MODEL are added")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", help="of models of unknown sizes, as in dnnl-graph-ops bench")
    parser.add_argument("--seed", type=int, default=7, help="of the sizes")
    parser.add_argument("--seconds-of-rounds", type=float, default=ROUNDS_SECONDS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.one:
        print(json.dumps((one_by_sizes if options.sizes else one)(options.one, options)))
    else:
        measure(options)


if __name__ == "__main__":
    main()
