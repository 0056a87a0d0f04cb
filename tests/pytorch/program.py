"""A program of random calls, its results by eager PyTorch, and how far off they may be."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from reference.closeness import ROUNDING, VAGUE, distance, largest
from torch.nn import functional as F

from .drawing import NAME, NAMES

NUMPY = {"f32": "f4", "f16": "f2", "bf16": "bf2"}

Tensors = dict[str, torch.Tensor]


class Step(NamedTuple):
    """One line: the value's name, and the call as text. `rounds`: its result may differ by rounding."""

    op: str
    name: str
    text: str
    rounds: bool

    @property
    def reads(self) -> list[str]:
        return NAME.findall(self.text)


@dataclass
class Program:
    """Lines over inputs and parameters. `grown`: inputs of other sizes, where a program of dynamic sizes takes such."""

    dynamic: bool = False
    equal: bool = False
    # eager refuses the last line
    refused: bool = False
    steps: list[Step] = field(default_factory=list)
    inputs: Tensors = field(default_factory=dict)
    parameters: Tensors = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    grown: Tensors = field(default_factory=dict)

    @property
    def calls(self) -> list[Tensors]:
        return [self.inputs, *[self.grown] * bool(self.grown)]

    def module(self) -> torch.nn.Module:
        lines = [f"{name} = self.{name}" for name in self.parameters]
        lines += [f"{step.name} = {step.text}" for step in self.steps]
        body = "\n    ".join([*lines, f"return ({', '.join(self.outputs)},)"])
        names = {"torch": torch, "F": F}
        exec(f"def forward(self, {', '.join(self.inputs)}):\n    {body}", names)
        module = type("Module", (torch.nn.Module,), {"forward": names["forward"]})()
        for name, tensor in self.parameters.items():
            enter, tensor = module.register_buffer, tensor.clone()
            if tensor.is_floating_point():
                enter, tensor = module.register_parameter, torch.nn.Parameter(tensor, requires_grad=False)
            enter(name, tensor)
        return module

    def pruned(self, **changes: Any) -> "Program":
        """The changed program without inputs and parameters that no line reads; lines may write to what others read."""
        program = replace(self, **changes)
        reads = {name for step in program.steps for name in step.reads}
        inputs, parameters, grown = (
            {name: tensor for name, tensor in part.items() if name in reads}
            for part in (program.inputs, program.parameters, program.grown)
        )
        return replace(program, inputs=inputs, parameters=parameters, grown=grown)


Seen = Callable[[Step, list[torch.Tensor]], Any]


@torch.no_grad()
def values_of(
    program: Program,
    inputs: Tensors,
    change: Callable[[torch.Tensor], Any] | None = None,
    seen: Seen | None = None,
) -> Tensors:
    """All values by eager PyTorch; `change` writes to results that round, `seen` sees what a line reads and gives."""
    values = {name: tensor.clone() for name, tensor in {**program.parameters, **inputs}.items()}
    for step in program.steps:
        result = values[step.name] = computed(step.text, values)
        if seen is not None:
            seen(step, [*(values[name] for name in step.reads), result])
        if change is not None and step.rounds:
            change(result)
    return values


@torch.no_grad()
def computed(text: str, values: Tensors) -> torch.Tensor:
    return eval(text, {"torch": torch, "F": F}, values)


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Numbers that NumPy has."""
    return tensor.detach().double().numpy() if tensor.dtype is torch.bfloat16 else tensor.detach().numpy()


def tolerances(program: Program, inputs: Tensors, results: list[torch.Tensor]) -> list[float]:
    """How far off results may be: as far as they move where each result that rounds is moved; infinite: not judged.

    Each is moved alone: what two move together may cancel.
    """
    rng = random.Random(1)
    errors = [0.0] * len(results)
    for step in (step for step in program.steps if step.rounds):
        alone = replace(program, steps=[one._replace(rounds=one is step) for one in program.steps])
        for sign in (lambda: 1, lambda: -1, lambda: rng.choice((1, -1))):

            def moved(result: torch.Tensor, sign: Callable[[], int] = sign) -> None:
                kind = NUMPY[NAMES[result.dtype]]
                signs = torch.tensor([sign() for _ in range(result.numel())], dtype=result.dtype).reshape(result.shape)
                result.add_(signs * ROUNDING[kind] * largest(array_of(result)))

            others = results_of(program, values_of(alone, inputs, moved))
            errors = [e + distance(array_of(a), array_of(b)) for e, a, b in zip(errors, results, others, strict=True)]
    return [np.inf if e > VAGUE * largest(array_of(one)) else e for e, one in zip(errors, results, strict=True)]


def results_of(program: Program, values: Tensors) -> list[torch.Tensor]:
    """The outputs, and the inputs, which lines may have written to."""
    return [values[name] for name in (*program.outputs, *program.inputs)]
