"""Models of other packages, drawn by a seed from their registries, compared with ONNX Runtime, OpenVINO, PyTorch.

`python benchmarks/packages.py draw` writes `packages.json`: the drawn models with the shapes of their inputs, and those
that were passed over with the reason. `measure [NAME...]` builds each with random weights, exports it, compares the
results and times all in turns, in a process for each model with a limit of time; what is refused, fails or takes
longer is a row as well. `table` prints the page's table of the recorded times. `--held-out`: 24 models of another seed,
none of those of `packages.json`.

The packages: timm, torchvision, segmentation-models-pytorch, monai, transformers, diffusers; and openvino, onnxscript.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from package_files import Case, case_of
from package_models import DRAWN, DRAWN_HELD_OUT, Unfit, draw, operators
from torch import Tensor, nn
from turns import Run, counts, in_turns, within

SECONDS: Final = 300
ROUNDS_SECONDS: Final = 6.0
LEAST_SECONDS: Final = 0.03
TIMES: Final = Path(__file__).parent / "times" / "packages"
RIVALS: Final = ("onnxruntime", "openvino", "torch", "torch channels last")


def runs(case: Case, inductor: bool) -> Iterator[tuple[str, Callable[[], tuple[Run, Callable[[], Any]]]]]:
    """Yields a name and what prepares a run of it: a call and what then reads its outputs."""
    import dnnl_graph_ops as dgo

    feeds = {f"x{number}": x.numpy() for number, x in enumerate(case.inputs)}

    def ours() -> tuple[Run, Callable[[], Any]]:
        net = dgo.from_onnx(str(case.path)).compile()
        taken = [feeds[name] for name in net.input_names]
        outputs = net(*taken)
        return lambda: net(*taken, out=outputs), lambda: outputs if isinstance(outputs, tuple) else [outputs]

    yield "ours", ours

    def onnxruntime() -> tuple[Run, Callable[[], Any]]:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(case.path), options, providers=["CPUExecutionProvider"])
        taken = {each.name: feeds[each.name] for each in session.get_inputs()}
        return lambda: session.run(None, taken), lambda: session.run(None, taken)

    yield "onnxruntime", onnxruntime

    def openvino(precision: str) -> tuple[Run, Callable[[], Any]]:
        import openvino

        settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        hint = {"INFERENCE_PRECISION_HINT": precision} if precision else {}
        model = openvino.Core().compile_model(str(case.path), "CPU", {**settings, **hint, "ENABLE_CPU_PINNING": False})
        request = model.create_infer_request()
        taken = {each.get_any_name(): feeds[each.get_any_name()] for each in model.inputs}
        return lambda: request.infer(taken, share_inputs=True), lambda: [x.data.copy() for x in request.output_tensors]

    yield "openvino", lambda: openvino("f32")
    yield "openvino default", lambda: openvino("")

    def eager(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Run, Callable[[], Any]]:
        def run() -> list[Any]:
            with torch.inference_mode():
                return [x.numpy(force=True) for x in module(*given)]

        return run, run

    yield "torch", lambda: eager(case.module, case.inputs)

    def last() -> tuple[Run, Callable[[], Any]]:
        forms = {4: torch.channels_last, 5: torch.channels_last_3d}
        axes = max((p.ndim for p in case.module.parameters()), default=0)
        if axes not in forms:
            raise Unfit("no channels-last format")
        module = case.module.to(memory_format=forms[axes])
        plain = torch.contiguous_format
        return eager(module, tuple(x.contiguous(memory_format=forms.get(x.ndim, plain)) for x in case.inputs))

    yield "torch channels last", last
    if inductor:
        yield "inductor", lambda: eager(_compiled(case), case.inputs)


def _compiled(case: Case) -> nn.Module:
    import torch._inductor.config

    torch._inductor.config.freezing = True
    compiled: nn.Module = torch.compile(case.module)
    return compiled


def one(row: Mapping[str, Any], folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """A row of results: medians of milliseconds, and by rival the median of the ratios of the rounds."""
    import dnnl_graph_ops as dgo

    torch.set_num_threads(1)
    dgo.set_num_threads(1)
    result: dict[str, Any] = {"package": row["package"], "name": row["name"], "gmac": row["gmac"]}
    try:
        case = case_of(row, folder)
    except Exception as error:
        return {**result, "failed": f"{type(error).__name__}: {error}"[:500]}
    result["exporter"] = case.exporter
    prepared: dict[str, Run] = {}
    errors, failures = {}, {}
    wanted = [np.asarray(x, np.float64) for x in case.outputs]
    scale = max((float(np.abs(x).max()) for x in wanted if x.size), default=0.0) or 1.0
    for name, prepare in runs(case, options.inductor):
        try:
            begin = time.perf_counter()
            run, read = prepare()
            run()
            arrays = [np.asarray(x, np.float64) for x in read()]
            if len(arrays) == len(wanted):
                pairs = zip(arrays, wanted, strict=True)
                errors[name] = max(float(np.abs(a - b.reshape(a.shape)).max(initial=0)) / scale for a, b in pairs)
            prepared[name] = run
            print(f"{name} {time.perf_counter() - begin:.1f} s", file=sys.stderr)
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    result |= {"errors": {key: float(f"{value:.1e}") for key, value in errors.items()}, "failures": failures}
    if "ours" not in prepared:
        return result
    times = in_turns(prepared, counts(prepared, LEAST_SECONDS), within(ROUNDS_SECONDS, 6, 25))
    result["ms"] = {name: round(1e3 * statistics.median(some), 3) for name, some in times.items()}
    result["ratios"] = {
        name: [round(b / a, 3) for a, b in zip(times["ours"], some, strict=True)] for name, some in times.items()
    }
    del result["ratios"]["ours"]
    return result


def measure(options: argparse.Namespace) -> None:
    """Each model in a process of its own; the file of results is written after each."""
    rows = json.loads((DRAWN_HELD_OUT if options.held_out else DRAWN).read_text())["models"]
    results = json.loads(options.times.read_text())["rows"] if options.times.exists() else []
    by_model = {(row["package"], row["name"]): row for row in results}
    for row in rows:
        key = row["package"], row["name"]
        if (options.names and row["name"] not in options.names) or (key in by_model and not options.names):
            continue
        command = [sys.executable, __file__, "one", json.dumps(row), "--folder", str(options.folder)]
        command += ["--inductor"] if options.inductor else []
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds)
            lines = [line for line in done.stdout.splitlines() if line.startswith('{"package"')]
            failed = f"ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
        except subprocess.TimeoutExpired:
            lines, failed = [], f"took more than {options.seconds} s"
        result = json.loads(lines[-1]) if lines else {"package": key[0], "name": key[1], "failed": failed}
        by_model[key] = result
        every = [by_model[key] for key in ((row["package"], row["name"]) for row in rows) if key in by_model]
        head = {"cpu": options.cpu, "threads": 1, "dtype": "f32", "date": time.strftime("%Y-%m-%d"), "method": METHOD}
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        lines.append(' "rows": [\n' + ",\n".join(f"  {json.dumps(each)}" for each in every) + "\n ]")
        options.times.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{row['name']}: {best(result)}", flush=True)


METHOD: Final = "process seconds, one thread, 6 to 25 rounds in which all take turns; ratios of a round: theirs by ours"


def best(result: Mapping[str, Any]) -> tuple[float, str]:
    """The median ratio of the fastest f32 rival, and which it is; or NaN and the reason."""
    if "ms" not in result:
        return float("nan"), result.get("failed") or str(result["failures"].get("ours"))
    medians = {name: statistics.median(some) for name, some in result["ratios"].items() if name in RIVALS}
    name = min(medians, key=medians.__getitem__)
    return round(medians[name], 3), name


def table(options: argparse.Namespace) -> None:
    """Prints a row for each model, the least ratio first, and geometric means by package."""
    every = json.loads(options.times.read_text())["rows"]
    timed = sorted((row for row in every if "ms" in row), key=lambda row: best(row)[0])
    means: dict[str, list[float]] = {}
    print("| model | package | GMAC | ms | best rival | which | within | OpenVINO at its default | PyTorch |")
    print("|---|---|---:|---:|---:|---|---|---:|---:|")
    for row in timed:
        ratio, name = best(row)
        means.setdefault(row["package"], []).append(ratio)
        low, _, high = np.percentile(row["ratios"][name], (10, 50, 90))
        others = [statistics.median(row["ratios"].get(each, [float("nan")])) for each in ("openvino default", "torch")]
        cells = [row["name"], row["package"], row["gmac"], f"{row['ms']['ours']:.2f}", f"{ratio:.2f}", name]
        cells += [f"{low:.2f} to {high:.2f}", *(f"{other:.2f}" for other in others)]
        print(f"| {' | '.join(map(str, cells))} |")
    for row in every:
        if "ms" not in row:
            print(f"| {row['name']} | {row['package']} | | {best(row)[1][:160]} | | | | | |")
    for package, ratios in {**means, "all": [best(row)[0] for row in timed]}.items():
        print(f"{package}: {statistics.geometric_mean(ratios):.2f} of {len(ratios)}")
    errors = [row["errors"]["ours"] for row in timed if "ours" in row["errors"]]
    print(f"results differ from PyTorch's by {max(errors):.1e} of the largest at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("draw", "measure", "one", "table"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path, default=Path("packages_onnx"), help="where the exported files are kept")
    parser.add_argument("--times", type=Path, default=TIMES / "zen5_f32.json")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="at most, for a model")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--cpu", default="")
    parser.add_argument("--held-out", action="store_true", help="models drawn by another seed; give --times FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.what in ("draw", "one"):
        operators()
    if options.what == "draw":
        draw(options.held_out)
    elif options.what == "measure":
        measure(options)
    elif options.what == "table":
        table(options)
    elif options.what == "one":
        print(json.dumps(one(json.loads(options.names[0]), options.folder, options)))


if __name__ == "__main__":
    main()
