"""Builds whole models with seeded random weights, listed in one table.

PyTorch is imported when a model is built, not before.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ...errors import InvalidArgumentError

if TYPE_CHECKING:
    import torch

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Entry:
    """A model: who builds it, with which arguments, and the shapes of its inputs.

    Attributes:
        builder: module of this folder and class in it.
        small, small_shapes: what tests take instead.
        batch: how many a training step takes where that is not what `shapes` have.
        step: what every extent of the first input is a multiple of, where a file may leave the extents open; 0: they
            are fixed.
    """

    builder: str
    shapes: Shapes
    arguments: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    small_shapes: Shapes = ()
    step: int = 0
    batch: int = 0


def _square(channels: int, size: int, batch: int = 1) -> Shapes:
    return ((batch, channels, size, size),)


def _pyramid(channels: tuple[int, ...], finest: int) -> Shapes:
    """Volumes from the coarsest to the finest, each of twice the extent."""
    last = len(channels) - 1
    return tuple((1, c, *[finest >> (last - i)] * 3) for i, c in enumerate(channels))


_VOLUMES: Final = (320, 256, 128, 64, 32)
_FEW_VOLUMES: Final = (16, 12, 8)

ENTRIES: Final[Mapping[str, Entry]] = MappingProxyType(
    {
        "dcgan": Entry("generators:DcGan", _square(100, 1), {}, {"width": 8}),
        "dcgan_b16": Entry("generators:DcGan", _square(100, 1, 16), {}, {"width": 8}),
        "pix2pix_in": Entry("generators:Pix2Pix", _square(3, 256), {"norm": "instance"}, {"width": 4}, (), 256),
        "pix2pix_bn": Entry("generators:Pix2Pix", _square(3, 256), {"norm": "batch"}, {"width": 4}, (), 256),
        "cyclegan": Entry("generators:CycleGan", _square(3, 128), {}, {"width": 8, "blocks": 2}, _square(3, 32), 4),
        "unet": Entry("segmentation:UNet", _square(1, 256), {"base": 32}, {"base": 4}, _square(1, 32), 16, 2),
        "unet_wide": Entry(
            "segmentation:UNet", _square(3, 128), {"base": 64, "channels": 3}, {"base": 4}, _square(3, 32), 16, 2
        ),
        "nnunet_decoder": Entry(
            "segmentation:NnUNetDecoder",
            _pyramid(_VOLUMES, 32),
            {"channels": _VOLUMES},
            {"channels": _FEW_VOLUMES},
            _pyramid(_FEW_VOLUMES, 8),
            1,
        ),
        "erfnet": Entry("segmentation:ErfNet", _square(3, 256), {}, {}, _square(3, 64), 8, 2),
        "deeplab": Entry("segmentation:DeepLab", _square(3, 224), {}, {"width": 8}, _square(3, 64), batch=2),
        "hifigan": Entry("audio:HifiGan", ((1, 80, 32),), {}, {"width": 32}, ((1, 80, 4),), 1),
        "hifigan_v2": Entry("audio:HifiGan", ((1, 80, 32),), {"width": 128}, {"width": 32}, ((1, 80, 4),), 1),
        "encodec_decoder": Entry("audio:EncodecDecoder", ((1, 128, 50),), {}, {"width": 4}, ((1, 128, 8),), 1),
        "wavenet": Entry(
            "audio:WaveNet",
            ((1, 1, 4096), (1, 80, 4096)),
            {},
            {"layers": 3, "stacks": 1, "width": 8},
            ((1, 1, 64), (1, 80, 64)),
            1,
        ),
        "fsrcnn": Entry("superresolution:Fsrcnn", _square(1, 160), {}, {}, _square(1, 24), 1),
        "edsr": Entry("superresolution:Edsr", _square(3, 64), {}, {"width": 8, "blocks": 2}, _square(3, 16), 1),
        "resnet18": Entry("vision:ResNet18", _square(3, 224), {}, {"width": 8}, _square(3, 64), 1, 4),
        "mobilenet": Entry("vision:MobileNetV3", _square(3, 224), {}, {}, _square(3, 64), 1, 4),
        "centernet_head": Entry("vision:CenterNetHead", _square(512, 16), {}, {"width": 32}, _square(32, 4), 1),
        "convnext": Entry("vision:ConvNeXt", _square(3, 128), {}, {"width": 8}, _square(3, 64), 32, 2),
        "vae_decoder": Entry("diffusion:VaeDecoder", _square(4, 32), {}, {"width": 8}, _square(4, 8), 1),
        "convtranspose1d": Entry(
            "audio:Enlargement", ((1, 512, 100),), {}, {"given": 16, "made": 8}, ((1, 16, 10),), 1
        ),
    }
)


def entry(name: str) -> Entry:
    """Raises: InvalidArgumentError: no model of the zoo is called so."""
    if name not in ENTRIES:
        raise InvalidArgumentError(f"model {name!r} is not in the zoo; known: {', '.join(ENTRIES)}")
    return ENTRIES[name]


def shapes(name: str, *, small: bool = False, train: bool = False) -> Shapes:
    """Of the inputs, in order; `train`: of a training step's."""
    found = entry(name)
    given = (small and found.small_shapes) or found.shapes
    return tuple((found.batch, *shape[1:]) for shape in given) if train and found.batch else given


def build(name: str, *, small: bool = False) -> torch.nn.Module:
    """The model in eval mode, the same numbers each time."""
    from . import weights

    found = entry(name)
    module, _, builder = found.builder.partition(":")
    make = getattr(importlib.import_module(f"{__name__}.{module}"), builder)
    return weights.seeded(make(**{**found.arguments, **(found.small if small else {})}))
