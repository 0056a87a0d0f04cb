"""This package inside PyTorch: `dgt.optimize` of the zoo's module, otherwise run as PyTorch's own."""

from __future__ import annotations

import importlib
from typing import Any

import dnnl_graph_ops as dgo

from .. import own
from ..task import Loaded, ModelTask, Prepared
from . import pytorch

__all__ = ["load", "prepare", "versions"]

_dgt: Any = importlib.import_module("dnnl_graph_ops.torch")
_FORM = pytorch.Form("dgt.optimize", _dgt.optimize)


def versions() -> dict[str, str]:
    return {**own.versions(), **pytorch.versions()}


def prepare(task: ModelTask) -> Prepared:
    dgo.set_num_threads(task.threads)
    return pytorch.prepare(task, _FORM)


def load(task: ModelTask) -> Loaded:
    dgo.set_num_threads(task.threads)
    return pytorch.load(task, _FORM)
