"""This package inside PyTorch: `dgt.optimize` of the zoo's module, otherwise run as PyTorch's own."""

from __future__ import annotations

import dnnl_graph_ops.torch as dgt

from ....torch.choice import measuring
from ....torch.whole import CALLS
from .. import own
from ..task import Loaded, ModelTask, Prepared
from . import pytorch

__all__ = ["load", "prepare", "versions"]

_FORM = pytorch.Form("dgt.optimize", dgt.optimize)


def versions() -> dict[str, str]:
    return {**own.versions(), **pytorch.versions()}


def prepare(task: ModelTask) -> Prepared:
    prepared = pytorch.prepare(task, _FORM)
    # who computes is settled before times are taken
    with measuring():
        for _ in range(CALLS):
            prepared.run()
    return prepared


def load(task: ModelTask) -> Loaded:
    return pytorch.load(task, _FORM)
