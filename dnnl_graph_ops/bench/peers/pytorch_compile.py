"""PyTorch's compiler (torch.compile, inductor), forward only; constant weights are frozen into it."""

from __future__ import annotations

import torch

from . import pytorch
from .task import Prepared, Task


def versions() -> dict[str, str]:
    return pytorch.versions()


def prepare(task: Task) -> Prepared:
    torch.set_num_threads(task.threads)
    torch._dynamo.reset()
    tensors, attributes, crop = pytorch.operands(task)
    layer = pytorch.forward(task, tensors, attributes, crop)
    src = tensors["src"]

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(tensors["weights"], requires_grad=False)

        def forward(self, src: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = layer(src, self.weights)
            return result

    variable = torch.compile(layer, dynamic=False)
    constant = torch.compile(Layer().eval(), dynamic=False)
    weights = tensors["weights"]
    state: dict[str, torch.Tensor] = {}

    def execute() -> None:
        with torch.no_grad():
            state["out"] = constant(src) if task.weights == "constant" else variable(src, weights)

    execute()
    return Prepared(execute, lambda: pytorch.as_numpy(task, state["out"]), "torch.compile (inductor)", state.clear)
