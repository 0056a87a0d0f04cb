"""Generators of images: DCGAN, pix2pix's U-Net, CycleGAN's residual one."""

from __future__ import annotations

import itertools

import torch
from torch import nn

_NORMS = {"instance": nn.InstanceNorm2d, "batch": nn.BatchNorm2d}


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

    def __init__(self, norm: str = "batch", width: int = 64) -> None:
        super().__init__()
        make = _NORMS[norm]
        bias = norm == "instance"
        widths = [width * n for n in (1, 2, 4, 8, 8, 8, 8, 8)]
        self.first = nn.Conv2d(3, width, 4, 2, 1, bias=bias)
        self.down = nn.ModuleList()
        for given, made in itertools.pairwise(widths):
            layers = [nn.LeakyReLU(0.2), nn.Conv2d(given, made, 4, 2, 1, bias=bias)]
            innermost = len(self.down) == len(widths) - 2
            self.down.append(nn.Sequential(*layers, *([] if innermost else [make(made)])))
        self.up = nn.ModuleList()
        for level in range(len(widths) - 1, 0, -1):
            given = widths[level] * (1 if level == len(widths) - 1 else 2)
            made = widths[level - 1]
            self.up.append(nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(given, made, 4, 2, 1, bias=bias), make(made)))
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


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        half = [nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width)]
        other = [nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width)]
        self.body = nn.Sequential(*half, nn.ReLU(), *other)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.body(x)
        return out


class CycleGan(nn.Sequential):
    """Residual blocks between two strided convolutions and two transposed ones; reflected borders."""

    def __init__(self, width: int = 64, blocks: int = 6) -> None:
        def layer(convolution: nn.Module, made: int) -> list[nn.Module]:
            return [convolution, nn.InstanceNorm2d(made), nn.ReLU()]

        super().__init__(
            nn.ReflectionPad2d(3),
            *layer(nn.Conv2d(3, width, 7), width),
            *layer(nn.Conv2d(width, 2 * width, 3, 2, 1), 2 * width),
            *layer(nn.Conv2d(2 * width, 4 * width, 3, 2, 1), 4 * width),
            *(_Residual(4 * width) for _ in range(blocks)),
            *layer(nn.ConvTranspose2d(4 * width, 2 * width, 3, 2, 1, 1), 2 * width),
            *layer(nn.ConvTranspose2d(2 * width, width, 3, 2, 1, 1), width),
            nn.ReflectionPad2d(3),
            nn.Conv2d(width, 3, 7),
            nn.Tanh(),
        )
