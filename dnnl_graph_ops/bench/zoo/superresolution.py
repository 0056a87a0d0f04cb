"""Larger images: FSRCNN, EDSR."""

from __future__ import annotations

import torch
from torch import nn


class Fsrcnn(nn.Sequential):
    """Three times as large, by one transposed convolution at the end."""

    def __init__(self, scale: int = 3, wide: int = 56, narrow: int = 12, middle: int = 4) -> None:
        def layer(given: int, made: int, kernel: int) -> list[nn.Module]:
            return [nn.Conv2d(given, made, kernel, 1, kernel // 2), nn.PReLU(made)]

        super().__init__(
            *layer(1, wide, 5),
            *layer(wide, narrow, 1),
            *(part for _ in range(middle) for part in layer(narrow, narrow, 3)),
            *layer(narrow, wide, 1),
            nn.ConvTranspose2d(wide, 1, 9, scale, 4, scale - 1),
        )


class _Residual(nn.Module):
    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(width, width, 3, 1, 1) for _ in range(2)]
        self.body = nn.Sequential(convolutions[0], nn.ReLU(), convolutions[1])
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.body(x) * self.scale
        return out


class Edsr(nn.Module):
    """Four times as large, by two pixel shuffles; the mean of images is taken off and put back by 1x1 convolutions."""

    def __init__(self, width: int = 64, blocks: int = 16, scale: float = 0.1) -> None:
        super().__init__()
        self.mean, self.back = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)
        self.first = nn.Conv2d(3, width, 3, 1, 1)
        self.body = nn.Sequential(*(_Residual(width, scale) for _ in range(blocks)), nn.Conv2d(width, width, 3, 1, 1))
        ups: list[nn.Module] = []
        for _ in range(2):
            ups += [nn.Conv2d(width, 4 * width, 3, 1, 1), nn.PixelShuffle(2)]
        self.tail = nn.Sequential(*ups, nn.Conv2d(width, 3, 3, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(self.mean(x))
        out: torch.Tensor = self.back(self.tail(x + self.body(x)))
        return out
