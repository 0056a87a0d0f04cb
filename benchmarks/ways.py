"""Times each way into the package beside PyTorch and ONNX Runtime: a vocoder, a U-Net and a codec, called 100 times.

`python benchmarks/ways.py [--threads N]` prints a Markdown table a model, sizes fixed and random: the seconds of making
(optimize, compile, export, read) and the first calls, all of them together, and the median of later calls. All ways
take each input in turn, in changing order; times are those of the process. Before the later calls the optimized model
alone is called until it is captured, which waits for nothing then. Each table is measured by a process of its own.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import onnxruntime
import torch

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.bench import zoo
from dnnl_graph_ops.bench.zoo import export
from dnnl_graph_ops.torch.choice import measuring
from dnnl_graph_ops.torch.whole import CALLS

Call = Callable[[torch.Tensor], object]
# of the zoo: what it is, a fixed size, and the random ones
MODELS = {
    "hifigan_v2": ("vocoder", 32, range(20, 121)),
    "unet": ("U-Net", 128, range(64, 193, 16)),
    "encodec_decoder": ("codec", 50, range(20, 121)),
}


def from_torch(name: str, x: torch.Tensor, varies: bool) -> Call:
    axes = dict.fromkeys(range(2, x.ndim), torch.export.Dim.AUTO)
    program = torch.export.export(zoo.build(name), (x,), dynamic_shapes=(axes,) if varies else None)
    net = dgo.from_torch(program).compile()
    return lambda x: net(x.numpy())


def from_onnx(name: str, x: torch.Tensor, varies: bool) -> Call:
    net = dgo.from_onnx(export.path(name, unknown=True)).compile()
    return lambda x: net(x.numpy())


def ort(name: str, x: torch.Tensor, varies: bool) -> Call:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(export.path(name, unknown=True)), options)
    return lambda x: session.run(None, {"x0": x.numpy()})


def compiled(name: str, x: torch.Tensor, varies: bool) -> Call:
    return torch.compile(zoo.build(name), backend="dnnl_graph_ops", dynamic=varies or None)


WAYS: dict[str, Callable[[str, torch.Tensor, bool], Call]] = {
    "PyTorch": lambda name, x, varies: zoo.build(name),
    "dgt.optimize": lambda name, x, varies: dgt.optimize(zoo.build(name)),
    "torch.compile(backend=)": compiled,
    "dgo.from_torch": from_torch,
    "dgo.from_onnx": from_onnx,
    "ONNX Runtime": ort,
}


@dataclass
class Way:
    """The seconds of making one way, and of each of its calls."""

    call: Call
    making: float
    seconds: list[float] = field(default_factory=list)


def made(name: str, x: torch.Tensor, varies: bool) -> dict[str, Way]:
    ways = {}
    for way, make in WAYS.items():
        start = time.process_time()
        call = make(name, x, varies)
        ways[way] = Way(call, time.process_time() - start)
    return ways


def call_all(ways: dict[str, Way], inputs: Iterator[torch.Tensor], calls: int, draw: random.Random) -> None:
    for way in ways.values():
        way.seconds = []
    for _ in range(calls):
        x, order = next(inputs), list(ways.values())
        draw.shuffle(order)
        for way in order:
            start = time.process_time()
            way.call(x)
            way.seconds.append(time.process_time() - start)


def settle(model: Call, inputs: Iterator[torch.Tensor], varies: bool) -> None:
    """Calls an optimized model as often as it takes to capture it, and to find out who is faster."""
    with measuring():
        for _ in range(CALLS * (12 if varies else 1)):
            model(next(inputs))


def rows(name: str, varies: bool, options: argparse.Namespace) -> Iterator[str]:
    _, fixed, sizes = MODELS[name]
    draw = random.Random(options.seed)
    batch, channels, *spatial = zoo.shapes(name)[0]

    def inputs() -> Iterator[torch.Tensor]:
        while True:
            size = draw.choice(sizes) if varies else fixed
            yield torch.randn(batch, channels, *[size] * len(spatial))

    with torch.no_grad():
        # files are written, and PyTorch's first call is made
        export.path(name, unknown=True)
        zoo.build(name)(next(inputs()))
        ways = made(name, next(inputs()), varies)
        call_all(ways, inputs(), options.calls, draw)
        first = {way: each.making + sum(each.seconds) for way, each in ways.items()}
        settle(ways["dgt.optimize"].call, inputs(), varies)
        call_all(ways, inputs(), options.later, draw)
    later = {way: each.seconds for way, each in ways.items()}
    for way in WAYS:
        ratio = statistics.median(theirs / mine for theirs, mine in zip(later["PyTorch"], later[way], strict=True))
        yield (
            f"| {way} | {first[way]:.2f} | {first['PyTorch'] / first[way]:.2f} "
            f"| {1e3 * statistics.median(later[way]):.1f} | {ratio:.2f} |"
        )


def cpu() -> str:
    """Its name, or the machine's where the system does not tell."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def table(name: str, varies: bool, options: argparse.Namespace) -> None:
    what, fixed, sizes = MODELS[name]
    said = f"sizes of {sizes[0]} to {sizes[-1]}" if varies else f"a size of {fixed}"
    print(f"\n## {what} ({name}), {said}\n")
    print("| way | making and first calls, s | gain | a later call, ms | gain |\n|---|---:|---:|---:|---:|")
    for row in rows(name, varies, options):
        print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100, help="first ones")
    parser.add_argument("--later", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", choices=MODELS, help="one table alone, with --sizes")
    parser.add_argument("--sizes", choices=("fixed", "random"), default="fixed")
    options = parser.parse_args()
    if options.model is None:
        versions = f"PyTorch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}"
        print(f"{cpu()}, {versions}, threads: {options.threads}, first calls: {options.calls}", flush=True)
        for name in MODELS:
            for sizes in ("fixed", "random"):
                command = [*sys.argv, "--model", name, "--sizes", sizes]
                subprocess.run([sys.executable, *command], check=True)
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    dgo.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    table(options.model, options.sizes == "random", options)


if __name__ == "__main__":
    main()
