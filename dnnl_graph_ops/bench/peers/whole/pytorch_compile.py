"""PyTorch's compiler on the zoo's module."""

from __future__ import annotations

from ..task import ModelTask, Prepared
from . import pytorch
from .pytorch import versions

__all__ = ["prepare", "versions"]


def prepare(task: ModelTask) -> Prepared:
    return pytorch.prepare(task, True)
