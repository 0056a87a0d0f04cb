"""Models of the zoo by each way that PyTorch runs them: eager, inductor, `torch.compile` for this package, `optimize`.

`python benchmarks/torch_roads.py inference [NAME...]` calls each model for SECONDS by each way, then times all in
turns, at sizes that no table of times was made with. `training [NAME...]` times the first steps of small models with
lengths that vary, by each way in a process of its own: what the captures cost, what a step takes afterwards, and the
largest relative difference of the losses from eager mode's, also from weights that are perturbed by 1e-7.
`packages [NAME...]` times the models of `packages.json` in eager mode and optimized, and adds a line for each to the
file `--rows`, but for models that it has a line of; `table` prints the page's table of them.
Seconds are of the processor, compilers that inductor starts included.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch
from torch import Tensor, nn
from torch.nn import functional
from turns import counts, in_turns, within

import dnnl_graph_ops as dgo
from dnnl_graph_ops.bench import zoo

SECONDS: Final = 10.0
ROUNDS_SECONDS: Final = 6.0
LEAST_SECONDS: Final = 0.03
# names of the zoo: shapes of inference
HELD_OUT: Final[Mapping[str, tuple[tuple[int, ...], ...]]] = {
    "erfnet": ((1, 3, 200, 160),),
    "encodec_decoder": ((1, 128, 36),),
    "hifigan_v2": ((1, 80, 45),),
    "dcgan": ((3, 100, 1, 1),),
    "cyclegan": ((1, 3, 96, 112),),
    "unet": ((1, 1, 176, 144),),
    "resnet18": ((2, 3, 160, 192),),
    "mobilenet": ((1, 3, 192, 160),),
    "edsr": ((1, 3, 40, 56),),
    "centernet_head": ((1, 512, 12, 20),),
}
# small models whose sizes vary from step to step: the shapes of three steps
TRAINED: Final[Mapping[str, tuple[tuple[int, ...], ...]]] = {
    "erfnet": ((2, 3, 64, 64), (2, 3, 64, 80), (2, 3, 64, 96)),
    "dcgan": ((2, 100, 1, 1), (3, 100, 1, 1), (4, 100, 1, 1)),
    "mobilenet": ((2, 3, 32, 32), (2, 3, 32, 48), (2, 3, 32, 64)),
    "edsr": ((2, 3, 16, 16), (2, 3, 16, 20), (2, 3, 16, 24)),
    "centernet_head": ((2, 32, 4, 4), (2, 32, 4, 6), (2, 32, 4, 8)),
    "hifigan": ((2, 80, 8), (2, 80, 10), (2, 80, 12)),
    "encodec_decoder": ((2, 128, 8), (2, 128, 10), (2, 128, 12)),
    "unet": ((2, 1, 32, 32), (2, 1, 32, 48), (2, 1, 32, 64)),
    "vae_decoder": ((1, 4, 8, 8), (1, 4, 8, 12), (1, 4, 8, 16)),
    "resnet18": ((2, 3, 32, 32), (2, 3, 32, 48), (2, 3, 32, 64)),
    "cyclegan": ((1, 3, 32, 32), (1, 3, 32, 48), (1, 3, 32, 64)),
}
BACKEND: Final = "dnnl_graph_ops"


def clock() -> float:
    return sum(os.times()[:4])


def _line(model: nn.Module) -> nn.Module:
    import dnnl_graph_ops.torch as dgt

    return dgt.optimize(model)


def _inductor(model: nn.Module) -> nn.Module:
    import torch._inductor.config

    torch._inductor.config.freezing = not model.training
    compiled: nn.Module = torch.compile(model)
    return compiled


def _perturbed(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 1e-7 * torch.randn_like(parameter))
    return model


WAYS: Final[Mapping[str, Callable[[nn.Module], Any]]] = {
    "eager": lambda model: model,
    "perturbed": _perturbed,
    "aot_eager": lambda model: torch.compile(model, backend="aot_eager"),
    "inductor": _inductor,
    "compile": lambda model: torch.compile(model, backend=BACKEND),
    "line": _line,
}


def _first(out: Any) -> Tensor:
    tensor: Tensor = out[0] if isinstance(out, tuple | list) else out
    return tensor


def inference(name: str) -> dict[str, Any]:
    """The ratios of times of a model by each way, after each has had its seconds of calls."""
    inputs = [torch.randn(shape) for shape in HELD_OUT[name]]
    model = zoo.build(name)
    runs, first, errors = {}, {}, {}
    with torch.no_grad():
        wanted = _first(model(*inputs))
        for way in ("eager", "inductor", "compile", "line"):
            module = WAYS[way](copy.deepcopy(model))
            begin = clock()
            out = _first(module(*inputs))
            first[way] = round(clock() - begin, 3)
            calls = 1
            while clock() - begin < SECONDS and (way == "line" or calls < 5):
                out, calls = _first(module(*inputs)), calls + 1
            errors[way] = float((out - wanted).abs().max() / wanted.abs().max())
            runs[way] = lambda module=module: module(*inputs)
        times = in_turns(runs, counts(runs, LEAST_SECONDS), within(ROUNDS_SECONDS, 6, 25))
    of = {way: statistics.median(some) for way, some in times.items()}
    best = [min(pair) for pair in zip(times["eager"], times["inductor"], strict=True)]

    def gain(over: list[float], way: str) -> float:
        return round(statistics.median(a / b for a, b in zip(over, times[way], strict=True)), 3)

    return {
        "name": name,
        "ms": {way: round(1e3 * seconds, 3) for way, seconds in of.items()},
        "first s": first,
        "line over compile": gain(times["compile"], "line"),
        "line over the better": gain(best, "line"),
        "compile over the better": gain(best, "compile"),
        "errors": {way: float(f"{error:.1e}") for way, error in errors.items()},
    }


def package(row: Mapping[str, Any]) -> dict[str, Any]:
    """The ratio of eager mode's times to those of an optimized model, after its seconds of calls, and how it runs.

    The error is the largest difference of results, relative to the largest result; random numbers have one state.
    """
    from package_files import built
    from package_models import operators

    import dnnl_graph_ops.torch as dgt
    from dnnl_graph_ops.torch.whole_model.capture import states

    operators()
    module, inputs = built(row)
    line = dgt.optimize(module)
    runs: dict[str, Callable[[], Any]] = {"eager": lambda: module(*inputs), "line": lambda: line(*inputs)}
    with torch.no_grad():
        begin = clock()
        while clock() - begin < SECONDS:
            line(*inputs)
        times = in_turns(runs, counts(runs, LEAST_SECONDS), within(ROUNDS_SECONDS, 6, 25))
        results = []
        for run in runs.values():
            torch.manual_seed(0)
            results.append(run())
    scale = max(float(x.abs().max()) for x in results[0] if x.numel())
    error = max(float((x - y).abs().max()) for x, y in zip(*results, strict=True) if x.numel()) / scale
    ms = {way: round(1e3 * statistics.median(some), 3) for way, some in times.items()}
    gain = statistics.median(a / b for a, b in zip(times["eager"], times["line"], strict=True))
    row = {"package": row["package"], "name": row["name"], "gain": round(gain, 3), "ms": ms}
    return {**row, "error": float(f"{error:.1e}"), "captures": states(line)}


def packages(names: Sequence[str], rows: Path, seconds: float) -> None:
    """Times each model in a process of its own."""
    drawn = json.loads(Path(__file__).with_name("packages.json").read_text())["models"]
    lines = map(json.loads, rows.read_text().splitlines() if rows.exists() else ())
    measured = {(line["package"], line["name"]) for line in lines}
    for row in drawn:
        if (names and row["name"] not in names) or (row["package"], row["name"]) in measured:
            continue
        command = [sys.executable, __file__, "package", json.dumps(row)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
            printed = [line for line in done.stdout.splitlines() if line.startswith('{"package"')]
            failed = done.stderr.strip().splitlines()[-1:]
        except subprocess.TimeoutExpired:
            printed, failed = [], [f"took more than {seconds} s"]
        line = (
            printed[-1] if printed else json.dumps({"package": row["package"], "name": row["name"], "failed": failed})
        )
        print(line, flush=True)
        with rows.open("a") as file:
            file.write(line + "\n")


def table(rows: Path) -> None:
    """Prints a row for each model of a package, the least speedup first, and geometric means by package."""
    lines = sorted(map(json.loads, rows.read_text().splitlines()), key=lambda line: line.get("gain", 0.0))
    print("| model | package | eager, ms | `dgt.optimize`, ms | speedup |\n|---|---|---:|---:|---:|")
    gains: dict[str, list[float]] = {"all": []}
    for line in lines:
        if "gain" not in line:
            print(f"| {line['name']} | {line['package']} | {line['failed']} | | |")
            continue
        ms = line["ms"]
        print(f"| {line['name']} | {line['package']} | {ms['eager']:.2f} | {ms['line']:.2f} | {line['gain']:.2f} |")
        for group in ("all", line["package"]):
            gains.setdefault(group, []).append(line["gain"])
    for group, some in gains.items():
        print(f"{group}: {statistics.geometric_mean(some):.2f}, lowest {min(some):.2f}, of {len(some)}")
    errors = {line["error"]: line["name"] for line in lines if "error" in line}
    print(f"results differ by {max(errors):.1e} of the largest at most ({errors[max(errors)]})")


def training(name: str, way: str, steps: int) -> dict[str, Any]:
    """The seconds of the first steps of a model, whose lengths vary, and of later ones."""
    model = zoo.build(name, small=True).train().requires_grad_(True)
    torch.manual_seed(0)
    batches = [torch.randn(shape) for shape in TRAINED[name]]
    targets = [torch.randn_like(_first(model(x)).detach()) for x in batches]
    run = WAYS[way](model)
    optimizer = torch.optim.SGD(run.parameters(), 1e-3, momentum=0.9)
    times, losses = [], []
    for step in range(steps):
        begin = clock()
        optimizer.zero_grad()
        loss = functional.mse_loss(_first(run(batches[step % 3])), targets[step % 3])
        loss.backward()
        optimizer.step()
        times.append(clock() - begin)
        losses.append(loss.item())
    later = times[steps // 2 :]
    row = {"name": name, "way": way, "all s": sum(times), "step ms": 1e3 * statistics.fmean(later), "losses": losses}
    row["captures s"] = sum(times[: steps // 2]) - statistics.fmean(later) * (steps // 2)
    if way == "compile":
        import dnnl_graph_ops.torch as dgt

        report = dgt.report(run)
        row |= {"graphs": len(report.captures), "again": sum(report.recompilations.values())}
    return row


def trainings(name: str, ways: Sequence[str], steps: int) -> None:
    """Prints a row for each way, with the first and last losses and the largest difference from eager mode's."""
    wanted: list[float] = []
    for way in ("eager", *(way for way in ways if way != "eager")):
        command = [sys.executable, __file__, "training", name, "--way", way, "--steps", str(steps)]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
        for row in rows:
            losses = row.pop("losses")
            wanted = wanted or losses
            apart = [abs(a - b) / abs(b) for a, b in zip(losses, wanted, strict=True)]
            row |= {"first loss": losses[0], "last loss": losses[-1], "apart at first": apart[0], "apart": max(apart)}
            print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("what", choices=("inference", "training", "packages", "package", "table"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--way", choices=WAYS, help="this process trains by one way")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS, help="ways of training")
    parser.add_argument("--rows", type=Path, default=Path(__file__).parent / "times" / "packages" / "zen5_line.jsonl")
    parser.add_argument("--seconds", type=float, default=300, help="at most, for a model of a package")
    options = parser.parse_args()
    if options.what == "packages":
        return packages(options.names, options.rows, options.seconds)
    if options.what == "table":
        return table(options.rows)
    torch.set_num_threads(1)
    dgo.set_num_threads(1)
    if options.what == "package":
        return print(json.dumps(package(json.loads(options.names[0]))))
    for name in options.names or (HELD_OUT if options.what == "inference" else TRAINED):
        if options.way:
            print(json.dumps(training(name, options.way, options.steps)))
        elif options.what == "training":
            trainings(name, options.ways, options.steps)
        elif options.names and len(options.names) == 1:
            print(json.dumps(inference(name)), flush=True)
        else:
            subprocess.run([sys.executable, __file__, "inference", name], check=False)


if __name__ == "__main__":
    main()
