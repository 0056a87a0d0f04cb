"""PyTorch's compiler on the zoo's module."""

from __future__ import annotations

from ..task import Loaded, ModelTask, Prepared
from . import pytorch
from .pytorch import versions

__all__ = ["load", "prepare", "versions"]


def prepare(task: ModelTask) -> Prepared:
    return pytorch.prepare(task, True)


def load(task: ModelTask) -> Loaded:
    return pytorch.load(task, True)
