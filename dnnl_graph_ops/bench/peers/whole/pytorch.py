"""PyTorch: the zoo's module itself, channels first or channels last; its inference or a training step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ....errors import UnsupportedError
from ... import zoo
from ...zoo import training
from ..pytorch import CHANNELS_LAST, versions
from ..task import Loaded, ModelTask, Prepared, flattened, keeping

__all__ = ["EAGER", "Form", "load", "prepare", "versions"]


@dataclass(frozen=True)
class Form:
    """What runs in a module's place.

    Attributes:
        made: the module that holds the parameters, of the zoo's.
        run: what is called, of that and of whether the sizes of its inputs vary.
        compiles: it does at the first call, and knows no inference mode.
    """

    detail: str
    made: Callable[[torch.nn.Module], torch.nn.Module] = lambda module: module
    run: Callable[[torch.nn.Module, bool], Callable[..., Any]] = lambda module, vary: module
    compiles: bool = False


EAGER = Form("eager")


def prepare(task: ModelTask, form: Form = EAGER) -> Prepared:
    torch.set_num_threads(task.threads)
    return _training(task, form) if task.train else _inference(task, form)


def _inference(task: ModelTask, form: Form) -> Prepared:
    begin = time.perf_counter()
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
    prepared.compile_s = time.perf_counter() - begin
    return prepared


def _training(task: ModelTask, form: Form) -> Prepared:
    """Its result: the gradients, over their scales; of the first step once poisoned."""
    begin = time.perf_counter()
    given = task.inputs() if task.zoo else []
    module, formats = _module(task, given[0].ndim if given else 0, form)
    inputs, targets = (_taken(arrays, formats) for arrays in (given, task.targets()))
    step = training.Step(module, inputs, targets, form.run(module, False))
    if form.compiles:
        step()
    seconds = time.perf_counter() - begin
    scales = task.scales()

    def result() -> Any:
        return flattened(training.scaled(step.gradients(), scales))

    prepared = Prepared(step, result, f"{form.detail}, a training step", step.restart)
    prepared.compile_s = seconds
    return prepared


def load(task: ModelTask, form: Form = EAGER) -> Loaded:
    torch.set_num_threads(task.threads)
    module, formats = _module(task, len(zoo.shapes(task.zoo)[0]) if task.zoo else 0, form)
    run = form.run(module, True)

    def call(inputs: list[Any]) -> Any:
        with torch.inference_mode(not form.compiles), torch.no_grad():
            return run(*inputs)

    return Loaded(lambda arrays: _taken(arrays, formats), call, _flat, form.detail)


def _module(task: ModelTask, ndim: int, form: Form) -> tuple[torch.nn.Module, dict[int, torch.memory_format]]:
    """The module in the task's layout, and PyTorch's names of that by the number of dims."""
    if not task.zoo:
        raise UnsupportedError("it reads no ONNX file: models of the zoo only")
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
    """What has no such format, such as a vector for each image, as it is."""
    plain = torch.contiguous_format
    return [torch.from_numpy(array).contiguous(memory_format=formats.get(array.ndim, plain)) for array in arrays]


def _flat(out: Any) -> np.ndarray:
    return flattened(part.contiguous().numpy() for part in (out if isinstance(out, tuple) else (out,)))
