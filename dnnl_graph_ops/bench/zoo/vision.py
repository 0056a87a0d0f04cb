"""Features and classes of images: ResNet-18, MobileNetV3, CenterNet's head, ConvNeXt."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import nn

from .segmentation import conv_norm_relu


class _Basic(nn.Module):
    def __init__(self, given: int, made: int, stride: int = 1) -> None:
        super().__init__()
        self.first = conv_norm_relu(given, made, 3, stride)
        self.second = nn.Sequential(nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made))
        same = stride == 1 and given == made
        projection = nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))
        self.shortcut = nn.Identity() if same else projection

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.second(self.first(x)) + self.shortcut(x))


class ResNet18(nn.Sequential):
    """Four stages of two basic blocks."""

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        layers: list[nn.Module] = [conv_norm_relu(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
        given = width
        for stage in range(4):
            made = width << stage
            layers += [_Basic(given, made, 2 if stage else 1), _Basic(made, made)]
            given = made
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(given, classes))


class _Squeeze(nn.Module):
    """Every channel scaled by what a small net makes of all channels' means."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = max(8, (width // 4 + 4) // 8 * 8)
        self.body = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, inner, 1), nn.ReLU(), nn.Conv2d(inner, width, 1), nn.Hardsigmoid()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x * self.body(x)
        return out


class _Inverted(nn.Module):
    def __init__(self, given: int, kernel: int, inner: int, made: int, squeeze: bool, hard: bool, stride: int) -> None:
        super().__init__()

        def layer(convolution: nn.Module, width: int, active: bool = True) -> list[nn.Module]:
            norm = nn.BatchNorm2d(width, eps=1e-3)
            return [convolution, norm, *([nn.Hardswish() if hard else nn.ReLU()] if active else [])]

        depthwise = nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False)
        self.body = nn.Sequential(
            *(layer(nn.Conv2d(given, inner, 1, bias=False), inner) if inner != given else []),
            *layer(depthwise, inner),
            *([_Squeeze(inner)] if squeeze else []),
            *layer(nn.Conv2d(inner, made, 1, bias=False), made, False),
        )
        self.adds = stride == 1 and given == made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.body(x) if self.adds else self.body(x)
        return out


# kernel, inner, out, squeeze-excite, hardswish, stride
_LARGE = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


class MobileNetV3(nn.Sequential):
    """The large one: depthwise convolutions, squeeze-excite, hardswish."""

    def __init__(self, classes: int = 1000) -> None:
        layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()]
        given = 16
        for kernel, inner, made, squeeze, hard, stride in _LARGE:
            layers.append(_Inverted(given, kernel, inner, made, squeeze, hard, stride))
            given = made
        layers += [nn.Conv2d(given, 960, 1, bias=False), nn.BatchNorm2d(960), nn.Hardswish()]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(960, 1280), nn.Hardswish()]
        super().__init__(*layers, nn.Linear(1280, classes))


class CenterNetHead(nn.Module):
    """From a ResNet's last features: a block, three transposed convolutions, and three heads."""

    def __init__(self, width: int = 512, classes: int = 80) -> None:
        super().__init__()
        layers: list[nn.Module] = [_Basic(width, width)]
        for made in (width // 2, width // 4, width // 8):
            layers += [nn.ConvTranspose2d(2 * made, made, 4, 2, 1, bias=False), nn.BatchNorm2d(made), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        last = width // 8
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Conv2d(last, last, 3, 1, 1), nn.ReLU(), nn.Conv2d(last, made, 1))
            for made in (classes, 2, 2)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.body(x)
        heat, *others = (head(x) for head in self.heads)
        return (torch.sigmoid(heat), *others)


class _LastNorm(nn.LayerNorm):
    """Layer norm over the channels of NCX."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.body = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        out: torch.Tensor = x + (self.body(inner) * self.scale).permute(0, 3, 1, 2)
        return out


class ConvNeXt(nn.Sequential):
    """The tiny one with fewer blocks: depthwise 7x7, layer norm, products, exact GELU."""

    def __init__(self, width: int = 96, classes: int = 1000) -> None:
        layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4), _LastNorm(width, eps=1e-6)]
        for stage, blocks in enumerate((2, 2, 4, 2)):
            made = width << stage
            if stage:
                layers += [_LastNorm(made // 2, eps=1e-6), nn.Conv2d(made // 2, made, 2, 2)]
            layers += [_ConvNeXtBlock(made) for _ in range(blocks)]
        wide = width << 3
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.LayerNorm(wide, eps=1e-6), nn.Linear(wide, classes)]
        super().__init__(*layers)
