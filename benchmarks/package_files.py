"""Models of other packages with random numbers, and their ONNX files: see `packages.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from package_models import BUILDERS, SEED, named
from torch import Tensor, nn


def seeded(module: nn.Module) -> nn.Module:
    """In eval mode, constant parameters and statistics made to vary: scales of 0 would leave nothing to compute."""
    with torch.no_grad():
        for key, value in module.state_dict().items():
            if not value.is_floating_point() or not value.numel() or value.min() != value.max():
                continue
            noise = 0.1 * torch.randn(value.shape)
            value.add_(noise.abs() if key.endswith("running_var") else noise)
    return module.eval().requires_grad_(False)


class Flat(nn.Module):
    """Gives the tensors of what a model returns, whatever holds them."""

    def __init__(self, module: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(_tensors(self.module(**dict(zip(self.names, inputs, strict=True)))))


def _tensors(made: Any) -> Iterator[Tensor]:
    if isinstance(made, Tensor):
        yield made
    elif isinstance(made, Mapping):
        yield from _tensors(list(made.values()))
    elif isinstance(made, list | tuple):
        for each in made:
            yield from _tensors(each)
    elif hasattr(made, "__dict__"):
        yield from _tensors(vars(made))


class Case(NamedTuple):
    module: Flat
    inputs: tuple[Tensor, ...]
    outputs: list[Tensor]
    path: Path
    exporter: str


def built(row: Mapping[str, Any]) -> tuple[Flat, tuple[Tensor, ...]]:
    """Returns the model in eval mode and its inputs."""
    torch.manual_seed(SEED)
    module, inputs = BUILDERS[row["package"]](row["name"], row["shrink"])
    taken = named(module, inputs)
    return Flat(seeded(module), list(taken)).eval(), tuple(taken.values())


def case_of(row: Mapping[str, Any], folder: Path) -> Case:
    """Returns the model with its outputs and its file, which is written where there is none."""
    flat, given = built(row)
    with torch.inference_mode():
        torch.manual_seed(SEED)
        outputs = list(flat(*given))
    path = folder / f"{re.sub('[^a-z0-9]+', '_', (row['package'] + ' ' + row['name']).lower())}.onnx"
    exporter = path.with_suffix(".txt")
    if not exporter.exists():
        exporter.write_text(_exported(flat, given, path))
    return Case(flat, given, outputs, path, exporter.read_text())


def _exported(module: nn.Module, given: tuple[Tensor, ...], path: Path) -> str:
    """Writes a file by the first exporter whose file ONNX Runtime takes."""
    import onnxruntime

    names = [f"x{number}" for number in range(len(given))]
    said = []
    options: dict[str, dict[str, Any]] = {
        "by tracing": {"dynamo": False, "opset_version": 17},
        "by torch.export": {"dynamo": True, "external_data": False, "verbose": False},
    }
    for exporter, more in options.items():
        try:
            with torch.inference_mode(not more["dynamo"]):
                torch.onnx.export(module, given, str(path), input_names=names, **more)
            onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:
            said.append(f"{exporter}: {type(error).__name__}: {error}".splitlines()[0][:200])
        else:
            return exporter
    raise RuntimeError(f"no export: {'; '.join(said)}")
