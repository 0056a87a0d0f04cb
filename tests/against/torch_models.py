"""Small PyTorch models with seeded weights, one an idea: what `from_torch` reads. Imports PyTorch when one is built."""

from collections.abc import Callable
from pathlib import Path
from typing import Any


def _torch() -> Any:
    import torch

    torch.manual_seed(0)
    return torch


def _block() -> tuple[Any, tuple[Any, ...]]:
    """Convolution, batch norm and ReLU twice, and a way around."""
    torch = _torch()
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = (nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
            again = (nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
            self.layers = nn.Sequential(*layers, nn.ReLU(), *again)

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.layers(x))

    return Block(), (torch.randn(2, 16, 12, 12),)


def _inverted() -> tuple[Any, tuple[Any, ...]]:
    """Expand, depthwise, project."""
    torch = _torch()
    nn = torch.nn
    expand, project = nn.Conv2d(16, 96, 1), nn.Conv2d(96, 24, 1)
    layers = (expand, nn.Hardswish(), nn.Conv2d(96, 96, 3, padding=1, groups=96), nn.Hardswish(), project)
    return nn.Sequential(*layers), (torch.randn(1, 16, 28, 28),)


def _upsampling() -> tuple[Any, tuple[Any, ...]]:
    torch = _torch()
    nn = torch.nn
    up = (nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.ConvTranspose2d(16, 3, 2, 2), nn.Tanh())
    return nn.Sequential(*up), (torch.randn(1, 32, 8, 8),)


def _volume() -> tuple[Any, tuple[Any, ...]]:
    torch = _torch()
    nn = torch.nn
    layers = (nn.Conv3d(4, 8, 3, padding=1), nn.MaxPool3d(2), nn.ConvTranspose3d(8, 4, 2, 2), nn.AvgPool3d(2))
    return nn.Sequential(*layers), (torch.randn(1, 4, 8, 8, 8),)


def _sound() -> tuple[Any, tuple[Any, ...]]:
    torch = _torch()
    nn = torch.nn
    layers = (nn.Conv1d(8, 32, 7, padding=3), nn.GELU(), nn.ConvTranspose1d(32, 16, 8, 4, 2), nn.Conv1d(16, 1, 3))
    return nn.Sequential(*layers), (torch.randn(1, 8, 64),)


def _perceptron() -> tuple[Any, tuple[Any, ...]]:
    torch = _torch()
    nn = torch.nn
    layers = (nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10), nn.Softmax(-1))
    return nn.Sequential(*layers), (torch.randn(32, 64),)


def _attention() -> tuple[Any, tuple[Any, ...]]:
    torch = _torch()

    class Attention(torch.nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return Attention(), tuple(torch.randn(2, 4, 32, 16) for _ in range(3))


def _norms() -> tuple[Any, tuple[Any, ...]]:
    torch = _torch()
    nn = torch.nn
    layers = (nn.Conv2d(8, 16, 1), nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 8, 3, 2, 1), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*layers), (torch.randn(1, 8, 16, 16),)


MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "attention": _attention,
    "block": _block,
    "inverted": _inverted,
    "norms": _norms,
    "perceptron": _perceptron,
    "sound": _sound,
    "upsampling": _upsampling,
    "volume": _volume,
}


def export(name: str, target: Path) -> None:
    """The model as a program of `torch.export`, and its inputs beside it as .npz."""
    import numpy as np
    import torch

    module, inputs = MODELS[name]()
    with torch.no_grad():
        torch.export.save(torch.export.export(module.eval(), inputs), target)
    np.savez(target.with_suffix(".npz"), *(tensor.numpy() for tensor in inputs))
