"""PyTorch's compiler (torch.compile, inductor), forward only; constant weights are frozen into it."""

from __future__ import annotations

import torch

from . import pytorch
from .task import Prepared, Task, keeping


def versions() -> dict[str, str]:
    return pytorch.versions()


def prepare(task: Task) -> Prepared:
    torch.set_num_threads(task.threads)
    torch._dynamo.reset()
    held = pytorch.layer_of(task)
    layer, tensors = pytorch.forward(held), held.tensors
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

    def compute() -> torch.Tensor:
        with torch.no_grad():
            out: torch.Tensor = constant(src) if task.weights == "constant" else variable(src, weights)
        return out

    prepared = keeping(compute, lambda out: pytorch.as_numpy(task, out), "torch.compile (inductor)")
    prepared.run()
    return prepared
