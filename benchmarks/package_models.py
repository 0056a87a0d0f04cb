"""Draws models of other packages by a seed from their own registries, and builds them: see `packages.py`."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

SEED: Final = 48
HELD_OUT_SEED: Final = 20261201
HELD_OUT: Final = {
    "timm": 9,
    "torchvision": 4,
    "segmentation_models_pytorch": 3,
    "monai": 3,
    "transformers": 3,
    "diffusers": 2,
}
COUNTS: Final = {
    "timm": 20,
    "torchvision": 8,
    "segmentation_models_pytorch": 7,
    "monai": 8,
    "transformers": 8,
    "diffusers": 4,
}
MOST_OF_A_FAMILY: Final = 3
MOST_GMAC: Final = 5.0
MOST_PARAMETERS: Final = 100e6
LEAST_EXTENT: Final = 32
# of dnnl_graph_ops.bench.zoo, by the names that the packages have for them
ZOO: Final = re.compile(
    r"resnet18|mobilenet_?v3_large|convnext_tiny|deeplabv3_|DeepLabV3$|Encodec|AutoencoderKL$|DynUNet|Generator$|^UNet$"
)
DRAWN: Final = Path(__file__).with_name("packages.json")
DRAWN_HELD_OUT: Final = Path(__file__).with_name("packages_held_out.json")

Inputs = dict[str, Tensor]


class Unfit(Exception):
    """Why a name is passed over."""


class Built(NamedTuple):
    module: nn.Module
    inputs: Inputs


# --- the packages' registries: names with their families, and a model of a name at `1 / shrink` of its own size ---


def operators() -> None:
    """Declares the operators that torchvision's Python part asks for: its binary part fits one version of PyTorch."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    globals()["_LIBRARY"] = library


def _image(size: int, channels: int = 3, axes: int = 2) -> Tensor:
    return torch.randn(1, channels, *[size] * axes)


def _timm_names() -> Iterator[tuple[str, str]]:
    import timm

    for name in timm.list_models():
        yield name, timm.models.model_entrypoint(name).__module__.rpartition(".")[2]


def _timm(name: str, shrink: int) -> Built:
    import timm

    channels, size, _ = _timm_size(name)
    size //= shrink
    sized: Mapping[str, Any] = {"img_size": size} if shrink > 1 else {}
    try:
        module = timm.create_model(name, **sized)
    except TypeError:
        module = timm.create_model(name)
    return Built(module, {"x": _image(size, channels)})


def _timm_size(name: str) -> tuple[int, int, int]:
    import timm

    config = timm.get_pretrained_cfg(name, allow_unregistered=True)
    shape = tuple(config.input_size) if config is not None else (3, 224, 224)
    return shape[0], shape[1], shape[2]


def _torchvision_names() -> Iterator[tuple[str, str]]:
    import torchvision

    models = torchvision.models
    # detection and quantization need operators of its binary part
    for module in (models, models.segmentation, models.video, models.optical_flow):
        for name in models.list_models(module):
            yield name, models.get_model_builder(name).__module__.rpartition(".")[2]


def _torchvision(name: str, shrink: int) -> Built:
    import torchvision

    models = torchvision.models
    where = models.get_model_builder(name).__module__
    module = models.get_model(name, weights=None, **({"weights_backbone": None} if "segmentation" in where else {}))
    if "optical_flow" in where:
        size = 256 // shrink
        return Built(module, {"image1": _image(size), "image2": _image(size)})
    crop = getattr(models.get_model_weights(name).DEFAULT.transforms(), "crop_size", None) or [512]
    size = crop[0] // shrink
    return Built(module, {"x": torch.randn(1, 3, 16, size, size) if "video" in where else _image(size)})


def _segmentation_names() -> Iterator[tuple[str, str]]:
    import segmentation_models_pytorch as smp

    for kind in sorted(smp.MODEL_ARCHITECTURES_MAPPING):
        for encoder in sorted(smp.encoders.get_encoder_names()):
            yield f"{kind} {encoder}", f"{kind} of smp"


def _segmentation(name: str, shrink: int) -> Built:
    import segmentation_models_pytorch as smp

    kind, encoder = name.split()
    return Built(smp.create_model(kind, encoder, encoder_weights=None), {"x": _image(256 // shrink)})


_OF_MONAI: Final[Mapping[str, Any]] = {
    "spatial_dims": 3,
    "dimensions": 3,
    "in_channels": 1,
    "in_channel": 1,
    "out_channels": 2,
    "out_channel": 2,
    "n_classes": 2,
    "num_classes": 2,
    "channels": (16, 32, 64, 128),
    "strides": (2, 2, 2),
}


def _monai_names() -> Iterator[tuple[str, str]]:
    from monai.networks import nets

    for name, found in sorted(vars(nets).items()):
        if isinstance(found, type) and issubclass(found, nn.Module) and found.__name__ == name:
            yield name, found.__module__.rpartition(".")[2]


def _monai(name: str, shrink: int) -> Built:
    from monai.networks import nets

    size = 64 // shrink
    values = {**_OF_MONAI, "img_size": (size,) * 3, "input_size": (size,) * 3}
    every = inspect.signature(getattr(nets, name)).parameters
    needed = [p for p in every.values() if p.default is p.empty]
    named = [p.name for p in needed if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if missing := [name for name in named if name not in values]:
        raise Unfit(f"no general value for {', '.join(missing)}")
    random_weights = {"pretrained": False} if "pretrained" in every else {}
    module = getattr(nets, name)(**{name: values[name] for name in named}, **random_weights)
    return Built(module, {"x": _image(size, 1, 3)})


def _transformers_names() -> Iterator[tuple[str, str]]:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    yield from ((name, f"{name} of transformers") for name in sorted(MODEL_MAPPING_NAMES))


def _transformers(name: str, shrink: int) -> Built:
    import transformers

    config = transformers.CONFIG_MAPPING[name]()
    size = getattr(config, "image_size", None) or 224
    size = (size if isinstance(size, int) else size[0]) // shrink
    if hasattr(config, "image_size"):
        config.image_size = size if isinstance(config.image_size, int) else type(config.image_size)((size, size))
    config.use_cache = False
    module = transformers.AutoModel.from_config(config, attn_implementation="eager")
    kind = module.main_input_name
    if not any(isinstance(part, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) for part in module.modules()):
        raise Unfit("no convolution")
    if kind == "pixel_values":
        return Built(module, {kind: _image(size, getattr(config, "num_channels", 3))})
    if kind == "input_values":
        return Built(module, {kind: torch.randn(1, 16000 // shrink)})
    raise Unfit(f"its input is {kind}")


def _diffusers_names() -> Iterator[tuple[str, str]]:
    import diffusers

    for name in sorted(dir(diffusers.models)):
        member = getattr(diffusers.models, name)
        if isinstance(member, type) and issubclass(member, diffusers.ModelMixin):
            yield name, f"{name} of diffusers"


def _diffusers(name: str, shrink: int) -> Built:
    import diffusers

    module = getattr(diffusers.models, name)()
    if not any(isinstance(part, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) for part in module.modules()):
        raise Unfit("no convolution")
    config = module.config
    inputs: Inputs = {}
    for each in inspect.signature(module.forward).parameters.values():
        if each.name in ("sample", "x"):
            axes = 3 if any(isinstance(part, nn.Conv3d) for part in module.modules()) else 2
            own = config.get("sample_size") or 64
            inputs[each.name] = _image((own if isinstance(own, int) else own[0]) // shrink, config["in_channels"], axes)
        elif each.name in ("timestep", "timesteps"):
            inputs[each.name] = torch.tensor([10])
        elif each.name == "encoder_hidden_states" and each.default is each.empty:
            inputs[each.name] = torch.randn(1, 16, config["cross_attention_dim"])
        elif each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            raise Unfit(f"no general value for {each.name}")
    return Built(module, inputs)


NAMES: Final[Mapping[str, Callable[[], Iterator[tuple[str, str]]]]] = {
    "timm": _timm_names,
    "torchvision": _torchvision_names,
    "segmentation_models_pytorch": _segmentation_names,
    "monai": _monai_names,
    "transformers": _transformers_names,
    "diffusers": _diffusers_names,
}
BUILDERS: Final[Mapping[str, Callable[[str, int], Built]]] = {
    "timm": _timm,
    "torchvision": _torchvision,
    "segmentation_models_pytorch": _segmentation,
    "monai": _monai,
    "transformers": _transformers,
    "diffusers": _diffusers,
}


# --- drawing ---


def fitting(package: str, name: str) -> dict[str, Any]:
    """How much a model is made smaller, its inputs' shapes, parameters and products, counted without numbers.

    Raises:
        Unfit: it cannot be built as such, or is too large at all sizes.
    """
    shrink, reason = 1, ""
    while True:
        try:
            with torch.device("meta"):
                module, inputs = BUILDERS[package](name, shrink)
            parameters = sum(p.numel() for p in module.parameters())
            if parameters > MOST_PARAMETERS:
                raise Unfit(f"{parameters / 1e6:.0f} M parameters")
            least = min((min(x.shape[2:]) for x in inputs.values() if x.ndim > 3), default=LEAST_EXTENT)
            if least < LEAST_EXTENT:
                raise Unfit(reason)
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                module.eval()(**named(module, inputs))
        except Unfit:
            raise
        except Exception as error:
            raise Unfit(reason or f"{type(error).__name__}: {str(error).splitlines()[:1]}"[:160]) from error
        gmac = counter.get_total_flops() / 2e9
        if gmac <= MOST_GMAC:
            shapes = {key: list(x.shape) for key, x in inputs.items()}
            return {"shrink": shrink, "inputs": shapes, "parameters": parameters, "gmac": round(gmac, 3)}
        shrink, reason = 2 * shrink, f"{gmac:.1f} GMAC at its least size"


def named(module: nn.Module, inputs: Inputs) -> Inputs:
    """Under the names that the module has for them: a single one is called differently everywhere."""
    if len(inputs) > 1:
        return inputs
    first = next(iter(inspect.signature(module.forward).parameters))
    return dict(zip((next(iter(inputs)) if first in ("args", "kwargs") else first,), inputs.values(), strict=True))


def draw(held_out: bool) -> None:
    """Writes the drawn models; those held out are none of the others."""
    seed, counts, file = (HELD_OUT_SEED, HELD_OUT, DRAWN_HELD_OUT) if held_out else (SEED, COUNTS, DRAWN)
    taken = {row["name"] for row in json.loads(DRAWN.read_text())["models"]} if held_out else set()
    rng = random.Random(seed)
    drawn, passed, families = [], [], {}
    for package, count in counts.items():
        names = sorted(NAMES[package]())
        rng.shuffle(names)
        wanted = count
        for name, family in names:
            if not wanted:
                break
            if name in taken or ZOO.search(name) or families.get(family, 0) == MOST_OF_A_FAMILY:
                continue
            try:
                fit = fitting(package, name)
            except Unfit as error:
                passed.append({"package": package, "name": name, "reason": str(error)})
                continue
            families[family] = families.get(family, 0) + 1
            drawn.append({"package": package, "name": name, "family": family, **fit})
            wanted -= 1
            print(drawn[-1], flush=True)
    versions = {package: importlib.metadata.version(package) for package in COUNTS}
    lists = {"models": drawn, "passed_over": passed}
    lines = [f' "seed": {seed}', f' "versions": {json.dumps(versions)}']
    for key, rows in lists.items():
        lines.append(f' "{key}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]")
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
