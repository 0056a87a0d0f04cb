"""OpenVINO in the precision that it takes by itself."""

from __future__ import annotations

from ..task import Loaded, ModelTask, Prepared
from . import open_vino
from .open_vino import versions

__all__ = ["load", "prepare", "versions"]


def prepare(task: ModelTask) -> Prepared:
    return open_vino.prepare(task, None)


def load(task: ModelTask) -> Loaded:
    return open_vino.load(task, None)
