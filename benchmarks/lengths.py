"""Calls an optimized model of the zoo with random lengths, each beside PyTorch: what trials cost, how good choices are.

`python benchmarks/lengths.py [--train]` prints the time of the first calls, each of another length, and of calls with
lengths of the same range after them, over PyTorch's. Both models take each length in turn, in changing order, on one
thread; times are those of the process. Exits with 1 where the first calls take more than LIMIT times PyTorch's.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.bench import zoo
from dnnl_graph_ops.bench.zoo.training import trained

LIMIT = 1.2

Run = Callable[[torch.Tensor], None]


def inference(model: nn.Module) -> Run:
    model.eval()

    def run(x: torch.Tensor) -> None:
        with torch.inference_mode():
            model(x)

    return run


def step(model: nn.Module) -> Run:
    trained(model)

    def run(x: torch.Tensor) -> None:
        model.zero_grad()
        model(x).square().mean().backward()

    return run


def seconds(run: Run, x: torch.Tensor) -> float:
    start = time.process_time()
    run(x)
    return time.process_time() - start


def series(runs: tuple[Run, Run], channels: int, lengths: list[int]) -> list[tuple[float, float]]:
    """The seconds of both for each length, called in turn in changing order."""
    times = []
    for number, length in enumerate(lengths):
        x = torch.randn(1, channels, length)
        order = runs if number % 2 else runs[::-1]
        pair = tuple(seconds(run, x) for run in order)
        times.append(pair if number % 2 else pair[::-1])
    return times  # type: ignore[return-value]


def told(name: str, times: list[tuple[float, float]]) -> float:
    """Prints a row; the total over PyTorch's."""
    theirs, ours = map(sum, zip(*times, strict=True))
    more = sorted(1e3 * (mine - other) for other, mine in times)
    print(
        f"{name:6} {ours:7.2f} s, PyTorch {theirs:7.2f} s, {ours / theirs:5.2f} times its time in all, "
        f"{statistics.median(mine / other for other, mine in times):5.2f} in the median; "
        f"a call takes {more[-1 - len(more) // 10]:.0f} ms more (90th percentile), {more[-1]:.0f} at most"
    )
    return float(ours / theirs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="hifigan_v2", help="of the zoo, of one input with one spatial axis")
    parser.add_argument("--lengths", type=int, default=40, metavar="N")
    parser.add_argument("--range", type=int, nargs=2, default=(20, 120), metavar=("LEAST", "MOST"), help="of a length")
    parser.add_argument("--later", type=int, default=2, help="how often so many lengths are called afterwards")
    parser.add_argument("--train", action="store_true", help="steps forwards and back in place of inference")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    draw = random.Random(options.seed)
    model = zoo.build(options.model)
    ((_, channels, _),) = zoo.shapes(options.model)
    make = step if options.train else inference
    runs = make(model), make(dgt.optimize(model))
    # PyTorch's own first calls
    runs[0](torch.randn(1, channels, options.range[0]))
    possible = range(options.range[0], options.range[1] + 1)
    first = told("first", series(runs, channels, draw.sample(possible, options.lengths)))
    for _ in range(options.later):
        told("later", series(runs, channels, draw.sample(possible, options.lengths)))
    return int(first > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
