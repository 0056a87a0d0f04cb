"""A DCGAN in training, both networks optimized: the same losses, and the time of a step.

Optimizers are created after `dgt.optimize`, from the parameters of the optimized copies.
"""

import copy
import sys
from itertools import pairwise

import compare
import torch
from torch import nn
from torch.nn import functional as F

import dnnl_graph_ops.torch as dgt

NOISE, WIDTH, BATCH, STEPS = 64, 64, 16, 6


def generator() -> nn.Module:
    """Noise (batch, NOISE, 1, 1) to images (batch, 1, 32, 32)."""
    widths = (4 * WIDTH, 2 * WIDTH, WIDTH)
    layers: list[nn.Module] = [nn.ConvTranspose2d(NOISE, widths[0], 4), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    for given, wanted in pairwise(widths):
        layers += [nn.ConvTranspose2d(given, wanted, 4, 2, 1), nn.BatchNorm2d(wanted), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(WIDTH, 1, 4, 2, 1), nn.Tanh())


def discriminator() -> nn.Module:
    """Images to a number each, above 0 for images that look real."""
    layers: list[nn.Module] = [nn.Conv2d(1, WIDTH, 4, 2, 1), nn.LeakyReLU(0.2)]
    for given, wanted in ((WIDTH, 2 * WIDTH), (2 * WIDTH, 4 * WIDTH)):
        layers += [nn.Conv2d(given, wanted, 4, 2, 1), nn.BatchNorm2d(wanted), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(4 * WIDTH, 1, 4), nn.Flatten())


class Training:
    """A generator and a discriminator that learn from images of discs."""

    def __init__(self, networks: list[nn.Module]) -> None:
        self.make, self.judge = networks
        self.steps = [torch.optim.Adam(each.parameters(), 2e-4, (0.5, 0.999)) for each in networks]
        self.rng = torch.Generator().manual_seed(1)
        self.losses: list[float] = []

    def step(self) -> None:
        at = 0.3 + 0.4 * torch.rand(BATCH, 1, 1, 1, generator=self.rng)
        line = torch.linspace(0, 1, 32)
        real = torch.where((line - at) ** 2 + (line[:, None] - at) ** 2 < 0.04, 1.0, -1.0)
        fake = self.make(torch.randn(BATCH, NOISE, 1, 1, generator=self.rng))
        judged = F.softplus(-self.judge(real)).mean() + F.softplus(self.judge(fake.detach())).mean()
        self._improve(1, judged)
        made = F.softplus(-self.judge(fake)).mean()
        self._improve(0, made)
        self.losses.append(judged.item() + made.item())

    def _improve(self, which: int, loss: torch.Tensor) -> None:
        self.steps[which].zero_grad()
        loss.backward()
        self.steps[which].step()


networks = [generator().train(), discriminator().train()]
plain = Training([copy.deepcopy(each) for each in networks])
ours = Training([dgt.optimize(each) for each in networks])
compare.in_turns(plain.step, ours.step, rounds=3)  # the first steps measure the layers
seconds = compare.in_turns(plain.step, ours.step, rounds=STEPS)
apart = abs(ours.losses[-1] / plain.losses[-1] - 1)
print(compare.told("DCGAN, a training step", *seconds, f"losses {plain.losses[-1]:.3f} and {ours.losses[-1]:.3f}"))
sys.exit(f"the losses differ by {apart:.1%}" if apart > 0.05 else 0)
