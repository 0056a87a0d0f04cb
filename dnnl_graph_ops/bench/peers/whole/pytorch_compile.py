"""PyTorch's compiler on the zoo's module."""

from __future__ import annotations

import torch

from ..task import Loaded, ModelTask, Prepared
from . import pytorch
from .pytorch import versions

__all__ = ["load", "prepare", "versions"]

_FORM = pytorch.Form(
    "torch.compile (inductor)", run=lambda module, vary: torch.compile(module, dynamic=vary), compiles=True
)


def prepare(task: ModelTask) -> Prepared:
    return pytorch.prepare(task, _FORM)


def load(task: ModelTask) -> Loaded:
    return pytorch.load(task, _FORM)
