"""PyTorch on the zoo's modules, channels first or channels last: inference or a training step.

The option `form` says who computes: PyTorch's eager mode, inductor, or this package by one of its ways into PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...errors import UnsupportedError
from .. import zoo
from ..timing import clock
from ..zoo import training
from . import pytorch
from .pytorch import CHANNELS_LAST, COMPILED, INDUCTOR
from .task import Loaded, ModelTask, Prepared, flattened, keeping


@dataclass(frozen=True)
class Form:
    """A form in which PyTorch runs a module.

    Attributes:
        made: the module that holds the parameters, of the zoo's.
        run: what is called, of that and of whether the sizes of its inputs vary.
        compiles: it does at the first call, and knows no inference mode.
    """

    detail: str
    made: Callable[[torch.nn.Module], torch.nn.Module] = lambda module: module
    run: Callable[[torch.nn.Module, bool], Callable[..., Any]] = lambda module, vary: module
    compiles: bool = False


def _exported(module: torch.nn.Module, vary: bool) -> Callable[..., Any]:
    """The net of `dgo.from_torch`, built from the first call's inputs."""
    import dnnl_graph_ops as dgo

    held: list[Any] = []

    def run(*inputs: torch.Tensor) -> Any:
        if not held:
            axes = tuple(dict.fromkeys(range(2, each.ndim), torch.export.Dim.AUTO) for each in inputs)
            program = torch.export.export(module, inputs, dynamic_shapes=axes if vary else None)
            held.append(dgo.from_torch(program).compile())
        made = held[0](*(each.numpy() for each in inputs))
        return tuple(map(torch.from_numpy, made)) if isinstance(made, tuple) else torch.from_numpy(made)

    return run


def _optimized(module: torch.nn.Module) -> torch.nn.Module:
    import dnnl_graph_ops.torch as dgt

    return dgt.optimize(module)


OPTIMIZED = "optimized"
_FORMS = {
    "": Form("eager"),
    INDUCTOR: Form(COMPILED, run=lambda module, vary: torch.compile(module, dynamic=vary), compiles=True),
    OPTIMIZED: Form("dgt.optimize", _optimized),
    "backend": Form(
        'torch.compile(backend="dnnl_graph_ops")',
        run=lambda module, vary: torch.compile(module, backend="dnnl_graph_ops", dynamic=vary),
        compiles=True,
    ),
    "export": Form("dgo.from_torch", run=_exported, compiles=True),
}


def _form(task: ModelTask) -> Form:
    return _FORMS[task.options.get("form", "")]


def versions() -> dict[str, str]:
    """PyTorch's, and this package's in a process that has it."""
    if not hasattr(sys.modules["dnnl_graph_ops"], "__version__"):
        return pytorch.versions()
    from . import own

    return {**own.versions(), **pytorch.versions()}


def prepare_model(task: ModelTask) -> Prepared:
    torch.set_num_threads(task.threads)
    prepared = (_training if task.train else _inference)(task, _form(task))
    if task.options.get("form") == OPTIMIZED:
        from ...torch.choice.verdicts import measuring
        from ...torch.whole_model.capture import CALLS

        # who computes is settled before times are taken
        with measuring():
            for _ in range(CALLS):
                prepared.run()
    return prepared


def _inference(task: ModelTask, form: Form) -> Prepared:
    begin = clock(task.threads)
    given = task.inputs() if task.zoo else []
    module, formats = _module(task, given[0].ndim if given else 0, form)
    run = form.run(module, False)
    inputs = _taken(given, formats)

    def compute() -> Any:
        with torch.inference_mode(not form.compiles), torch.no_grad():
            return run(*inputs)

    prepared = keeping(compute, _flat, form.detail)
    if form.compiles:
        prepared.run()
    prepared.compile_s = clock(task.threads) - begin
    return prepared


def _training(task: ModelTask, form: Form) -> Prepared:
    """Its result: the gradients, over their scales; of the first step once poisoned."""
    begin = clock(task.threads)
    given = task.inputs() if task.zoo else []
    module, formats = _module(task, given[0].ndim if given else 0, form)
    inputs, targets = (_taken(arrays, formats) for arrays in (given, task.targets()))
    step = training.Step(module, inputs, targets, form.run(module, False))
    if form.compiles:
        step()
    seconds = clock(task.threads) - begin
    scales = task.scales()

    def result() -> Any:
        return flattened(training.scaled(step.gradients(), scales))

    prepared = Prepared(step, result, f"{form.detail}, a training step", step.restart)
    prepared.compile_s = seconds
    return prepared


def load(task: ModelTask) -> Loaded:
    torch.set_num_threads(task.threads)
    form = _form(task)
    module, formats = _module(task, len(zoo.shapes(task.zoo)[0]) if task.zoo else 0, form)
    run = form.run(module, True)

    def call(inputs: list[Any]) -> Any:
        with torch.inference_mode(not form.compiles), torch.no_grad():
            return run(*inputs)

    return Loaded(lambda arrays: _taken(arrays, formats), call, _flat, form.detail)


def _module(task: ModelTask, ndim: int, form: Form) -> tuple[torch.nn.Module, dict[int, torch.memory_format]]:
    """The module in the task's layout, and PyTorch's names of that by the number of dims."""
    if not task.zoo:
        raise UnsupportedError("runs models of the zoo, no ONNX files")
    last = task.layout == "NXC"
    if last and ndim not in CHANNELS_LAST:
        raise UnsupportedError("it has a channels-last format of images and volumes only")
    module = zoo.build(task.zoo)
    if task.train:
        training.trained(module)
    if last:
        module.to(memory_format=CHANNELS_LAST[ndim])  # type: ignore[call-overload]
    return form.made(module), CHANNELS_LAST if last else {}


def _taken(arrays: list[np.ndarray], formats: dict[int, torch.memory_format]) -> list[torch.Tensor]:
    """Returns tensors of the arrays, each in the memory format for its rank; contiguous if there is none."""
    plain = torch.contiguous_format
    return [torch.from_numpy(array).contiguous(memory_format=formats.get(array.ndim, plain)) for array in arrays]


def _flat(out: Any) -> np.ndarray:
    return flattened(part.contiguous().numpy() for part in (out if isinstance(out, tuple) else (out,)))
