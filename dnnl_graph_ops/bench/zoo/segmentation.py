"""Segmentation: U-Net, nnU-Net's decoder of volumes, ERFNet, DeepLab."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as functional
from torch import nn


def conv_norm_relu(given: int, made: int, kernel: int = 3, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """A convolution that keeps the extent (over the stride), batch norm and ReLU."""
    pad = dilation * (kernel // 2)
    convolution = nn.Conv2d(given, made, kernel, stride, pad, dilation, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(made), nn.ReLU())


class UNet(nn.Module):
    """Four levels, two convolutions each."""

    def __init__(self, base: int = 32, channels: int = 1, classes: int = 2) -> None:
        super().__init__()
        widths = [base << level for level in range(5)]

        def twice(given: int, made: int) -> nn.Sequential:
            return nn.Sequential(conv_norm_relu(given, made), conv_norm_relu(made, made))

        self.down = nn.ModuleList(twice(a, b) for a, b in zip([channels, *widths[:-1]], widths, strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.joined = nn.ModuleList(twice(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(base, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips: list[torch.Tensor] = []
        for down in self.down:
            x = down(functional.max_pool2d(x, 2) if skips else x)
            skips.append(x)
        skips.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            x = joined(torch.cat([skips.pop(), up(x)], 1))
        out: torch.Tensor = self.head(x)
        return out


class NnUNetDecoder(nn.Module):
    """From the bottleneck and the encoder's skips, coarsest first, to a segmentation of the finest."""

    def __init__(self, channels: Sequence[int], classes: int = 3) -> None:
        super().__init__()

        def layer(given: int, made: int) -> list[nn.Module]:
            return [nn.Conv3d(given, made, 3, 1, 1), nn.InstanceNorm3d(made, affine=True), nn.LeakyReLU(0.01)]

        pairs = list(itertools.pairwise(channels))
        self.up = nn.ModuleList(nn.ConvTranspose3d(a, b, 2, 2) for a, b in pairs)
        self.stages = nn.ModuleList(nn.Sequential(*layer(2 * b, b), *layer(b, b)) for _, b in pairs)
        self.head = nn.Conv3d(channels[-1], classes, 1)

    def forward(self, x: torch.Tensor, *skips: torch.Tensor) -> torch.Tensor:
        for up, stage, skip in zip(self.up, self.stages, skips, strict=True):
            x = stage(torch.cat([up(x), skip], 1))
        out: torch.Tensor = self.head(x)
        return out


class _Downsample(nn.Module):
    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(given, made - given, 3, 2, 1)
        self.norm = nn.BatchNorm2d(made, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        joined = torch.cat([self.convolution(x), functional.max_pool2d(x, 2, 2)], 1)
        return functional.relu(self.norm(joined))


class _NonBottleneck(nn.Module):
    """Columns and rows apart, twice; the second time dilated."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()

        def pair(step: int) -> list[nn.Module]:
            return [
                nn.Conv2d(width, width, (3, 1), 1, (step, 0), (step, 1)),
                nn.ReLU(),
                nn.Conv2d(width, width, (1, 3), 1, (0, step), (1, step)),
                nn.BatchNorm2d(width, eps=1e-3),
            ]

        self.body = nn.Sequential(*pair(1), nn.ReLU(), *pair(dilation))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + x)


class ErfNet(nn.Sequential):
    """The encoder and the decoder with its transposed convolutions."""

    def __init__(self, classes: int = 20) -> None:
        def up(given: int, made: int) -> list[nn.Module]:
            return [nn.ConvTranspose2d(given, made, 3, 2, 1, 1), nn.BatchNorm2d(made, eps=1e-3), nn.ReLU()]

        super().__init__(
            _Downsample(3, 16),
            _Downsample(16, 64),
            *(_NonBottleneck(64, 1) for _ in range(5)),
            _Downsample(64, 128),
            *(_NonBottleneck(128, dilation) for _ in range(2) for dilation in (2, 4, 8, 16)),
            *up(128, 64),
            *(_NonBottleneck(64, 1) for _ in range(2)),
            *up(64, 16),
            *(_NonBottleneck(16, 1) for _ in range(2)),
            nn.ConvTranspose2d(16, classes, 2, 2),
        )


class DeepLab(nn.Module):
    """A small backbone at a stride of 8, pyramid pooling with dilations and a global branch, bilinear enlargement."""

    def __init__(self, width: int = 64, classes: int = 21) -> None:
        super().__init__()
        self.low = nn.Sequential(
            conv_norm_relu(3, width // 2, 3, 2), conv_norm_relu(width // 2, width, 3, 2), conv_norm_relu(width, width)
        )
        wide = 4 * width
        self.high = nn.Sequential(
            conv_norm_relu(width, 2 * width, 3, 2),
            conv_norm_relu(2 * width, 2 * width),
            conv_norm_relu(2 * width, wide, 3, 1, 2),
            conv_norm_relu(wide, wide, 3, 1, 4),
        )
        self.branches = nn.ModuleList(
            [conv_norm_relu(wide, width, 1), *(conv_norm_relu(wide, width, 3, 1, rate) for rate in (6, 12, 18))]
        )
        self.everywhere = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv_norm_relu(wide, width, 1))
        self.project = conv_norm_relu(5 * width, width, 1)
        self.reduce = conv_norm_relu(width, 3 * width // 4, 1)
        self.head = nn.Sequential(conv_norm_relu(width + 3 * width // 4, width), nn.Conv2d(width, classes, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = self.low(x)
        high = self.high(low)
        parts = [branch(high) for branch in self.branches]
        parts.append(_resized(self.everywhere(high), high))
        joined = torch.cat([_resized(self.project(torch.cat(parts, 1)), low), self.reduce(low)], 1)
        return _resized(self.head(joined), x)


def _resized(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    # numbers, so that a trace holds no sizes to be computed
    height, width = (int(size) for size in like.shape[2:])
    return functional.interpolate(x, (height, width), mode="bilinear", align_corners=False)
