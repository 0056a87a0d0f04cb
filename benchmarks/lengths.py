"""Calls an optimized vocoder with random lengths, each beside PyTorch: what trials cost, and how good the choice is.

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
import torch.nn.functional as functional
from torch import nn

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.bench.zoo.audio import HifiGan

LIMIT = 1.2
MELS = 80


class Block(nn.Module):
    """Two dilated convolutions, each added to its input."""

    def __init__(self, width: int, kernel: int, dilations: tuple[int, int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, kernel, 1, (kernel - 1) // 2 * dilation, dilation) for dilation in dilations
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(functional.leaky_relu(x, 0.1))
        return x


class Stage(nn.Module):
    """A transposed convolution to half the width, and the mean of three blocks."""

    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose1d(width, width // 2, 2 * stride, stride, stride // 2)
        self.blocks = nn.ModuleList(
            Block(width // 2, kernel, dilations) for kernel, dilations in ((3, (1, 2)), (5, (2, 6)), (7, (3, 12)))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(functional.leaky_relu(x, 0.1))
        return sum(block(x) for block in self.blocks) / 3  # type: ignore[return-value]


def vocoder(width: int) -> nn.Module:
    """HiFi-GAN v3 at a width of 256: 23 layers, 256 samples for each frame of a spectrogram."""
    stages = (Stage(width >> level, stride) for level, stride in enumerate((8, 8, 4)))
    last = nn.Conv1d(width >> 3, 1, 7, 1, 3)
    return nn.Sequential(nn.Conv1d(MELS, width, 7, 1, 3), *stages, nn.LeakyReLU(), last, nn.Tanh())


Run = Callable[[torch.Tensor], None]


def inference(model: nn.Module) -> Run:
    model.eval()

    def run(x: torch.Tensor) -> None:
        with torch.inference_mode():
            model(x)

    return run


def step(model: nn.Module) -> Run:
    def run(x: torch.Tensor) -> None:
        model.zero_grad()
        model(x).square().mean().backward()

    return run


def seconds(run: Run, x: torch.Tensor) -> float:
    start = time.process_time()
    run(x)
    return time.process_time() - start


def series(runs: tuple[Run, Run], lengths: list[int]) -> list[tuple[float, float]]:
    """The seconds of both for each length, called in turn in changing order."""
    times = []
    for number, length in enumerate(lengths):
        x = torch.randn(1, MELS, length)
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
    parser.add_argument("--width", type=int, default=256, help="of the vocoder's first layer")
    parser.add_argument("--layers", type=int, choices=(23, 78), default=23, help="HiFi-GAN v3, or v1 and v2")
    parser.add_argument("--lengths", type=int, default=40, metavar="N")
    parser.add_argument("--range", type=int, nargs=2, default=(20, 120), metavar=("LEAST", "MOST"), help="of a length")
    parser.add_argument("--later", type=int, default=2, help="how often so many lengths are called afterwards")
    parser.add_argument("--train", action="store_true", help="steps forwards and back in place of inference")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    draw = random.Random(options.seed)
    model = (vocoder if options.layers == 23 else HifiGan)(options.width)
    make = step if options.train else inference
    runs = make(model), make(dgt.optimize(model))
    # PyTorch's own first calls
    runs[0](torch.randn(1, MELS, options.range[0]))
    possible = range(options.range[0], options.range[1] + 1)
    first = told("first", series(runs, draw.sample(possible, options.lengths)))
    for _ in range(options.later):
        told("later", series(runs, draw.sample(possible, options.lengths)))
    return int(first > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
