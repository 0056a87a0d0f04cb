"""This package inside PyTorch: `dgt.optimize` of the zoo's module, otherwise run as PyTorch's own."""

from __future__ import annotations

import dnnl_graph_ops.torch as dgt

from .. import own
from ..task import Loaded, ModelTask, Prepared
from . import pytorch

__all__ = ["load", "prepare", "versions"]

_FORM = pytorch.Form("dgt.optimize", dgt.optimize)


def versions() -> dict[str, str]:
    return {**own.versions(), **pytorch.versions()}


def prepare(task: ModelTask) -> Prepared:
    return pytorch.prepare(task, _FORM)


def load(task: ModelTask) -> Loaded:
    return pytorch.load(task, _FORM)
