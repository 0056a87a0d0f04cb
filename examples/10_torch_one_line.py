"""One line makes a PyTorch model faster: `model = dgt.optimize(model)`.

A HiFi-GAN generator and a U-Net, defined here in plain PyTorch. First inference, as the models are and optimized: times
in turns, and who computes which layer. Then training from the same start on synthetic data, spectrograms of tones to
sound and drawn shapes to a map of them: both curves of loss in one picture, the time of a step next to them.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from statistics import median
from typing import NamedTuple

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F

    import dnnl_graph_ops.torch as dgt
except ImportError as error:
    print(f"nothing to show: {error} (pip install '.[torch]')")
    sys.exit(0)
import dnnl_graph_ops as dgo

# how far the loss must fall, the mean of the last losses from the first one; how far the two means may be apart
FALL, APART, LAST = 0.1, 0.1, 5
BANDS, CLASSES = 64, 3  # of the spectrogram; background, disc and bar


class ResidualBlock(nn.Module):
    """Dilated convolutions with one kernel size, each pair with a way around."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()

        def pair(dilation: int) -> nn.Sequential:
            wide = nn.Conv1d(channels, channels, kernel, padding="same", dilation=dilation)
            near = nn.Conv1d(channels, channels, kernel, padding="same")
            return nn.Sequential(nn.LeakyReLU(0.1), wide, nn.LeakyReLU(0.1), near)

        self.pairs = nn.ModuleList(pair(dilation) for dilation in (1, 3, 5))

    def forward(self, x: Tensor) -> Tensor:
        for pair in self.pairs:
            x = x + pair(x)
        return x


class HiFiGan(nn.Module):
    """Kong et al. 2020: frames of a spectrogram to sound, `prod(RATES)` samples a frame."""

    RATES = (8, 8, 2, 2)

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width >> level for level in range(len(self.RATES) + 1)]
        self.first = nn.Conv1d(BANDS, width, 7, padding=3)
        self.up = nn.ModuleList(
            nn.ConvTranspose1d(a, b, 2 * rate, rate, rate // 2)
            for a, b, rate in zip(widths, widths[1:], self.RATES, strict=False)
        )
        self.blocks = nn.ModuleList(nn.ModuleList(ResidualBlock(c, k) for k in (3, 7, 11)) for c in widths[1:])
        self.last = nn.Conv1d(widths[-1], 1, 7, padding=3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for up, blocks in zip(self.up, self.blocks, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            x = torch.stack([block(x) for block in blocks]).mean(0)
        return torch.tanh(self.last(F.leaky_relu(x, 0.1)))


class UNet(nn.Module):
    """Ronneberger et al. 2015: images to a class for each pixel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width << level for level in range(4)]

        def twice(given: int, made: int) -> nn.Sequential:
            layers = [
                layer
                for channels in (given, made)
                for layer in (nn.Conv2d(channels, made, 3, padding=1, bias=False), nn.BatchNorm2d(made), nn.ReLU())
            ]
            return nn.Sequential(*layers)

        self.down = nn.ModuleList(twice(a, b) for a, b in zip([1, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.joined = nn.ModuleList(twice(2 * w, w) for w in widths[-2::-1])
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips: list[Tensor] = []
        for down in self.down:
            skips.append(x := down(F.max_pool2d(x, 2) if skips else x))
        skips.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            x = joined(torch.cat([skips.pop(), up(x)], 1))
        return self.head(x)


def spectrum(sound: Tensor, window: int = 1024, hop: int = 256) -> Tensor:
    """Logarithms of magnitudes: (batch, bands, frames)."""
    magnitudes = torch.stft(sound, window, hop, window=torch.hann_window(window), return_complex=True).abs()
    return torch.log(magnitudes + 0.1)


def tones(count: int, frames: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Spectrograms, and the sound that they are of: four sines each."""
    samples = frames * prod(HiFiGan.RATES)
    pitch, loud, phase = torch.rand(3, count, 4, 1, generator=rng).unbind()
    sound = (0.2 * loud * torch.sin(0.3 * pitch * torch.arange(samples) + 6.3 * phase)).sum(1)
    return spectrum(sound)[:, :BANDS, :frames], sound


def spectral_loss(made: Tensor, sound: Tensor) -> Tensor:
    """Mean differences of spectra with short and with long windows."""
    differences = [(spectrum(made[:, 0], *r) - spectrum(sound, *r)).abs().mean() for r in ((256, 64), (1024, 256))]
    return torch.stack(differences).sum()


def shapes(count: int, side: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noisy images of a disc and a bar, and the class of each pixel."""
    rows, columns = torch.meshgrid(torch.linspace(0, 1, side), torch.linspace(0, 1, side), indexing="ij")
    at = 0.2 + 0.6 * torch.rand(4, count, 1, 1, generator=rng)
    size = 0.05 + 0.15 * torch.rand(3, count, 1, 1, generator=rng)
    disc = (rows - at[0]) ** 2 + (columns - at[1]) ** 2 < size[0] ** 2
    bar = ((rows - at[2]).abs() < size[1]) & ((columns - at[3]).abs() < size[2])
    classes = torch.where(bar, 2, disc.long())
    images = (classes > 0) + 0.5 * torch.randn(count, side, side, generator=rng)
    return images[:, None], classes


class Task(NamedTuple):
    """A model with something to learn; a batch is an input and what the loss compares with."""

    name: str
    model: nn.Module
    batch: Callable[[torch.Generator], tuple[Tensor, Tensor]]
    loss: Callable[[Tensor, Tensor], Tensor]


def tasks(large: bool) -> list[Task]:
    """As published, or of a size for a first look."""
    wide, width, side = (512, 64, 128) if large else (256, 32, 96)
    return [
        Task("HiFi-GAN", HiFiGan(wide), partial(tones, 1, 32), spectral_loss),
        Task("U-Net", UNet(width), partial(shapes, 2, side), F.cross_entropy),
    ]


def in_turns(rounds: int, *calls: Callable[[], object]) -> list[list[float]]:
    """Seconds of each call, in every round."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, taken in zip(calls, times, strict=True):
            begin = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begin)
    return times


def inference(task: Task, rounds: int) -> str:
    """Prints times and layers; returns the whole table of layers."""
    plain = copy.deepcopy(task.model).eval()
    model = dgt.optimize(plain)  # the one line

    x, _ = task.batch(torch.Generator().manual_seed(0))
    report = dgt.report(model, x)  # measures now who is faster; calls do it in the course of time
    with torch.inference_mode():
        difference = (plain(x) - model(x)).abs().max()
        model(x)
        before, after = map(median, in_turns(rounds, lambda: plain(x), lambda: model(x)))
    print(
        f"\n{task.name}, inference of {tuple(x.shape)}: PyTorch {1e3 * before:.1f} ms, optimized {1e3 * after:.1f} ms, "
        f"{before / after:.2f} times as fast; largest difference {difference:.1e}"
    )
    ours = sum(row.computed_by == "dnnl_graph_ops" for row in report)
    layers = len({row.layer for row in report})
    print(f"{layers} layers, of {len(report)} kinds of calls dnnl_graph_ops computes {ours}, most saving first")

    def saved(row: dgt.LayerTime) -> float:
        return row.calls * ((row.their_seconds or 0) - (row.our_seconds or 0)) if row.gain > 1 else 0

    print(dgt.Report(sorted(report, key=saved, reverse=True)[:6]))
    return str(report)


class Run:
    """A copy of a task's model in training."""

    def __init__(self, task: Task, optimized: bool) -> None:
        model = copy.deepcopy(task.model).train()
        self.model = dgt.optimize(model) if optimized else model
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-3, fused=True)
        self.task = task
        self.rng = torch.Generator().manual_seed(1)  # the same batches for both
        self.losses: list[float] = []

    def step(self) -> None:
        x, target = self.task.batch(self.rng)
        loss = self.task.loss(self.model(x), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())


class Curves(NamedTuple):
    """The losses and the seconds of each step, as it was and optimized."""

    losses: tuple[list[float], list[float]]
    seconds: list[list[float]]


def train(task: Task, steps: int) -> tuple[Curves, bool]:
    """Whether both learn, and the same."""
    plain, optimized = Run(task, False), Run(task, True)
    seconds = in_turns(steps, plain.step, optimized.step)
    # the first step of an optimized model measures
    before, after = (median(taken[1:]) for taken in seconds)
    ends = [sum(run.losses[-LAST:]) / LAST for run in (plain, optimized)]
    print(
        f"{task.name}, training: {1e3 * before:.0f} ms a step, optimized {1e3 * after:.0f} ms, "
        f"{before / after:.2f} times as fast; loss {plain.losses[0]:.4f} before, {ends[0]:.4f} and {ends[1]:.4f} "
        f"after {steps} steps"
    )
    learned = max(ends) < (1 - FALL) * plain.losses[0] and abs(ends[1] / ends[0] - 1) < APART
    return Curves((plain.losses, optimized.losses), seconds), learned


def draw(path: Path, results: dict[str, Curves]) -> str:
    """A row for each model: losses, and how long steps took."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        return f"not drawn: {error}"
    figure = Figure(figsize=(9, 6), layout="constrained")
    names, colours = ("PyTorch", "optimized"), ("#D55E00", "#0072B2")
    for (name, curves), (left, right) in zip(results.items(), figure.subplots(len(results), 2), strict=True):
        for label, colour, style, losses in zip(names, colours, ("-", "--"), curves.losses, strict=True):
            left.plot(losses, style, color=colour, label=label)
        left.set(title=f"{name}: loss", xlabel="step")
        left.legend()
        times = [[1e3 * t for t in taken[1:]] for taken in curves.seconds]
        for box, colour in zip(right.boxplot(times, showfliers=False)["medians"], colours, strict=True):
            box.set_color(colour)
        right.set(title=f"{name}: milliseconds of a step", xticks=(1, 2), xticklabels=names, ylim=(0, None))
    figure.savefig(path, dpi=100)
    return f"drawn in {path}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path("build"), help="folder of the PNG file and the table of layers"
    )
    parser.add_argument("--steps", type=int, default=30, help="of training")
    parser.add_argument("--rounds", type=int, default=10, help="of inference")
    parser.add_argument("--large", action="store_true", help="models as wide as published, which take minutes")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)

    torch.set_num_threads(chosen.threads)  # this package follows
    print(f"{dgo.info()['cpu']['model']}, {chosen.threads} threads, PyTorch {torch.__version__}")
    torch.manual_seed(0)
    chosen_tasks = tasks(chosen.large)
    tables = [inference(task, chosen.rounds) for task in chosen_tasks]
    (table := chosen.output / "torch_layers.txt").write_text("\n\n".join(tables) + "\n")
    print(f"\nall layers are in {table}\n")

    results, learned = {}, True
    for task in chosen_tasks:
        results[task.name], good = train(task, chosen.steps)
        learned = learned and good
    print(draw(chosen.output / "torch_training.png", results))
    print(f"both learn the same: {'yes' if learned else 'NO'}")
    return 0 if learned else 1


if __name__ == "__main__":
    sys.exit(main())
