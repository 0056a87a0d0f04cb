"""Waveforms: HiFi-GAN, EnCodec's decoder, WaveNet."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import nn

_SLOPE = 0.1


class Enlargement(nn.ConvTranspose1d):
    """A layer alone: HiFi-GAN v1's first enlargement, eight times."""

    def __init__(self, given: int = 512, made: int = 256) -> None:
        super().__init__(given, made, 16, 8, 4)


class _Dilated(nn.Module):
    """Three pairs of convolutions, each pair with its own dilation and a sum."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()

        def same(dilation: int) -> nn.Conv1d:
            return nn.Conv1d(width, width, kernel, 1, (kernel - 1) // 2 * dilation, dilation)

        self.first = nn.ModuleList(same(dilation) for dilation in (1, 3, 5))
        self.second = nn.ModuleList(same(1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first, second in zip(self.first, self.second, strict=True):
            inner = functional.leaky_relu(first(functional.leaky_relu(x, _SLOPE)), _SLOPE)
            x = x + second(inner)
        return x


class _Enlarging(nn.Module):
    """A transposed convolution to half the width, and the mean of three residual blocks."""

    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose1d(width, width // 2, 2 * stride, stride, stride // 2)
        self.blocks = nn.ModuleList(_Dilated(width // 2, kernel) for kernel in (3, 7, 11))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(functional.leaky_relu(x, _SLOPE))
        first, second, third = (block(x) for block in self.blocks)
        out: torch.Tensor = (first + second + third) / 3
        return out


class HifiGan(nn.Sequential):
    """A generator of 256 samples for each frame of a spectrogram; weight norm is folded. v1: 512 wide, v2: 128."""

    def __init__(self, width: int = 512) -> None:
        stages = (_Enlarging(width >> level, stride) for level, stride in enumerate((8, 8, 2, 2)))
        last = nn.Conv1d(width >> 4, 1, 7, 1, 3)
        super().__init__(nn.Conv1d(80, width, 7, 1, 3), *stages, nn.LeakyReLU(), last, nn.Tanh())


class _Causal(nn.Module):
    """A convolution that sees the past only, mirrored at its begin."""

    def __init__(self, given: int, made: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.before = (kernel - 1) * dilation
        self.convolution = nn.Conv1d(given, made, kernel, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.convolution(functional.pad(x, (self.before, 0), mode="reflect"))
        return out


class _CausalUp(nn.Module):
    """A transposed convolution, its end cut off."""

    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.cut = stride
        self.convolution = nn.ConvTranspose1d(given, made, 2 * stride, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.convolution(x)[..., : -self.cut]
        return out


class _SeanetBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.ELU(), _Causal(width, width // 2, 3), nn.ELU(), nn.Conv1d(width // 2, width, 1))
        self.shortcut = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.shortcut(x) + self.body(x)
        return out


class EncodecDecoder(nn.Sequential):
    """SEANet at 24 kHz without its LSTM: 320 samples for each frame of 128."""

    def __init__(self, width: int = 32) -> None:
        ratios = (8, 5, 4, 2)
        wide = width << len(ratios)
        layers: list[nn.Module] = [_Causal(128, wide, 7)]
        for ratio in ratios:
            layers += [nn.ELU(), _CausalUp(wide, wide // 2, ratio), _SeanetBlock(wide // 2)]
            wide //= 2
        super().__init__(*layers, nn.ELU(), _Causal(wide, 1, 7))


class _Gated(nn.Module):
    """A dilated convolution into two halves, one gating the other; what goes on and what is summed at the end."""

    def __init__(self, width: int, skip: int, dilation: int) -> None:
        super().__init__()
        self.dilated = nn.Conv1d(width, 2 * width, 3, 1, 2 * dilation, dilation)
        self.cut = 2 * dilation
        self.condition = nn.Conv1d(80, 2 * width, 1, bias=False)
        self.skip = nn.Conv1d(width, skip, 1)
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = self.dilated(x)[..., : -self.cut] + self.condition(condition)
        value, gate = both.chunk(2, 1)
        gated = torch.tanh(value) * torch.sigmoid(gate)
        return (x + self.out(gated)) * 0.5**0.5, self.skip(gated)


class WaveNet(nn.Module):
    """All samples at once, as in training: causal by padding both ends and cutting one."""

    def __init__(self, width: int = 64, skip: int = 64, layers: int = 8, stacks: int = 2, classes: int = 30) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList(_Gated(width, skip, 1 << layer) for _ in range(stacks) for layer in range(layers))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, classes, 1))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        total = None
        for layer in self.layers:
            x, skip = layer(x, condition)
            total = skip if total is None else total + skip
        out: torch.Tensor = self.last(total * (1.0 / len(self.layers)) ** 0.5)
        return out
