"""A training step of a model of the zoo: what it is given, and the gradients of the first one as they must be."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as functional

from . import build, export

_SEED: Final = 11
_RATE: Final = 1e-4
# of the largest gradient of all: below it a parameter's gradients may be what rounding leaves of zero
_LEAST_SCALE: Final = 1e-3


class Step:
    """Forward, mean squared error to fixed targets, backward, Adam; every call is one.

    `run`: what computes in the module's place.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        inputs: Sequence[torch.Tensor],
        targets: Sequence[torch.Tensor],
        run: Callable[..., Any] | None = None,
    ) -> None:
        self._module, self._run = module, run or module
        self._inputs, self._targets = inputs, targets
        self._parameters = list(module.parameters())
        self._optimizer = torch.optim.Adam(self._parameters, _RATE)
        self._begin = copy.deepcopy(module.state_dict())

    def __call__(self) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        out = self._run(*self._inputs)
        made = out if isinstance(out, tuple) else (out,)
        losses = [functional.mse_loss(one, other) for one, other in zip(made, self._targets, strict=True)]
        sum(losses[1:], losses[0]).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def restart(self) -> None:
        """The parameters are those of the beginning."""
        self._module.load_state_dict(self._begin)
        self._optimizer.zero_grad(set_to_none=True)

    def gradients(self) -> list[np.ndarray]:
        """Of the last step, in the order of the parameters."""
        every = (torch.zeros_like(each) if each.grad is None else each.grad for each in self._parameters)
        return [each.float().contiguous().numpy() for each in every]


def trained(module: torch.nn.Module) -> torch.nn.Module:
    """The module itself, in train mode and with gradients."""
    return module.train().requires_grad_(True)


def path(name: str, *, small: bool = False) -> Path:
    """A file of arrays, made if there is none.

    Inputs x0, x1, ..., targets t0, t1, ..., and of each parameter the gradients of the first step, computed in float64
    and over their scale: y0, y1, ... and s.
    """
    target = export.place(f"{name}{'_small' if small else ''}_train", "npz")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        made = target.with_suffix(".part.npz")
        np.savez(made, **arrays(name, small=small))  # type: ignore[arg-type]
        made.replace(target)
    return target


def arrays(name: str, *, small: bool = False) -> dict[str, np.ndarray]:
    """Returns the contents of the file."""
    module = trained(build(name, small=small).double())
    given = export.inputs(name, small=small, train=True)
    examples = [torch.from_numpy(array).double() for array in given]
    with torch.no_grad():
        out = copy.deepcopy(module)(*examples)
    rng = np.random.default_rng(_SEED)
    targets = [
        rng.standard_normal(part.shape, np.float32).astype(np.float32)
        for part in (out if isinstance(out, tuple) else (out,))
    ]
    step = Step(module, examples, [torch.from_numpy(array).double() for array in targets])
    step()
    gradients = step.gradients()
    most = [float(np.abs(each).max(initial=0.0)) for each in gradients]
    scales = np.maximum(most, _LEAST_SCALE * max(most)).astype(np.float32)
    return {**export.held(x=given, t=targets, y=scaled(gradients, scales)), "s": scales}


def scaled(gradients: Sequence[np.ndarray], scales: np.ndarray) -> list[np.ndarray]:
    """Over what is large for each parameter, so that an error of any shows."""
    return [each / scale for each, scale in zip(gradients, scales, strict=True)]
