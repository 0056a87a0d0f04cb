"""Generators of images: DCGAN, pix2pix's U-Net."""

from __future__ import annotations

import itertools

import torch
from torch import nn


class DcGan(nn.Sequential):
    """64x64 from a vector of 100."""

    def __init__(self, width: int = 64) -> None:
        def up(given: int, made: int, stride: int, pad: int) -> list[nn.Module]:
            convolution = nn.ConvTranspose2d(given, made, 4, stride, pad, bias=False)
            return [convolution, nn.BatchNorm2d(made), nn.ReLU()]

        super().__init__(
            *up(100, 8 * width, 1, 0),
            *up(8 * width, 4 * width, 2, 1),
            *up(4 * width, 2 * width, 2, 1),
            *up(2 * width, width, 2, 1),
            nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )


class Pix2Pix(nn.Module):
    """Eight halvings of a 256x256 image and back, with a skip at every level."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        widths = [width * n for n in (1, 2, 4, 8, 8, 8, 8, 8)]
        self.first = nn.Conv2d(3, width, 4, 2, 1)
        self.down = nn.ModuleList()
        for given, made in itertools.pairwise(widths):
            layers = [nn.LeakyReLU(0.2), nn.Conv2d(given, made, 4, 2, 1)]
            innermost = len(self.down) == len(widths) - 2
            self.down.append(nn.Sequential(*layers, *([] if innermost else [nn.InstanceNorm2d(made)])))
        self.up = nn.ModuleList()
        for level in range(len(widths) - 1, 0, -1):
            given = widths[level] * (1 if level == len(widths) - 1 else 2)
            made = widths[level - 1]
            self.up.append(nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(given, made, 4, 2, 1), nn.InstanceNorm2d(made)))
        self.last = nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(2 * width, 3, 4, 2, 1), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = [self.first(x)]
        for down in self.down:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for up in self.up:
            x = torch.cat([skips.pop(), up(x)], 1)
        out: torch.Tensor = self.last(x)
        return out
