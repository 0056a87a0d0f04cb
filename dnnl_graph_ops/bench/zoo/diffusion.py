"""Stable Diffusion's decoder of latents, narrower."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import nn

_GROUPS = 8


def _norm(width: int) -> nn.GroupNorm:
    return nn.GroupNorm(_GROUPS, width, eps=1e-6)


class _Residual(nn.Module):
    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        first = [_norm(given), nn.SiLU(), nn.Conv2d(given, made, 3, 1, 1)]
        self.body = nn.Sequential(*first, _norm(made), nn.SiLU(), nn.Conv2d(made, made, 3, 1, 1))
        self.shortcut = nn.Identity() if given == made else nn.Conv2d(given, made, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.shortcut(x) + self.body(x)
        return out


class _Attention(nn.Module):
    """One head over all places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.scale = _norm(width), width**-0.5
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = self.norm(x).flatten(2).transpose(1, 2)
        query, key, value = self.query(flat), self.key(flat), self.value(flat)
        scores = torch.softmax(query @ key.transpose(1, 2) * self.scale, -1)
        return x + self.out(scores @ value).transpose(1, 2).reshape(x.shape)


class _Up(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.convolution(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return out


class VaeDecoder(nn.Sequential):
    """Residual blocks of group norm and SiLU, attention in the middle, three nearest enlargements."""

    def __init__(self, width: int = 32) -> None:
        wide = 4 * width
        layers: list[nn.Module] = [
            nn.Conv2d(4, 4, 1),
            nn.Conv2d(4, wide, 3, 1, 1),
            _Residual(wide, wide),
            _Attention(wide),
            _Residual(wide, wide),
        ]
        for level, times in enumerate((4, 4, 2, 1)):
            made = times * width
            layers += [_Residual(wide, made), _Residual(made, made), _Residual(made, made)]
            wide = made
            if level < 3:
                layers.append(_Up(wide))
        super().__init__(*layers, _norm(wide), nn.SiLU(), nn.Conv2d(wide, 3, 3, 1, 1))
