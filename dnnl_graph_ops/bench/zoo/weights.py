"""Random weights that keep every activation near unit size, however deep the model."""

from __future__ import annotations

import math

import torch
from torch import nn

_SEED = 20230
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_GAIN = 1.3


def seeded(module: nn.Module) -> nn.Module:
    """The module itself with weights drawn anew, in eval mode and without gradients."""
    draw = torch.Generator().manual_seed(_SEED)
    with torch.no_grad():
        for part in module.modules():
            _fill(part, draw)
    return module.eval().requires_grad_(False)


def _fill(part: nn.Module, draw: torch.Generator) -> None:
    def normal(tensor: torch.Tensor, spread: float, centre: float = 0.0) -> None:
        tensor.copy_(torch.randn(tensor.shape, generator=draw) * spread + centre)

    if isinstance(part, (*_CONVOLUTIONS, *_TRANSPOSED, nn.Linear)):
        normal(part.weight, _GAIN / math.sqrt(_products(part)))
        if part.bias is not None:
            normal(part.bias, 0.05)
        return
    # norms: torch has no common class of them, but they have common names
    weight, bias = getattr(part, "weight", None), getattr(part, "bias", None)
    if isinstance(part, nn.PReLU):
        normal(part.weight, 0.05, 0.25)
    elif isinstance(weight, nn.Parameter) and isinstance(bias, nn.Parameter):
        normal(weight, 0.1, 1.0)
        normal(bias, 0.1)
    mean, variance = getattr(part, "running_mean", None), getattr(part, "running_var", None)
    if isinstance(mean, torch.Tensor) and isinstance(variance, torch.Tensor):
        normal(mean, 0.1)
        variance.copy_(0.5 + torch.rand(variance.shape, generator=draw))


def _products(part: nn.Module) -> float:
    """How many products an element of the result sums."""
    weight: torch.Tensor = part.weight  # type: ignore[assignment]
    if isinstance(part, _TRANSPOSED):
        return part.in_channels / part.groups * math.prod(weight.shape[2:]) / math.prod(part.stride)
    return math.prod(weight.shape[1:])
