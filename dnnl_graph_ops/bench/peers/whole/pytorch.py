"""PyTorch: the zoo's module itself, channels first or channels last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ....errors import UnsupportedError
from ... import zoo
from ..pytorch import CHANNELS_LAST, versions
from ..task import Loaded, ModelTask, Prepared, flattened

__all__ = ["load", "prepare", "versions"]


def prepare(task: ModelTask, compiled: bool = False) -> Prepared:
    """`compiled`: by torch.compile."""
    torch.set_num_threads(task.threads)
    begin = time.perf_counter()
    given = task.inputs() if task.zoo else []
    module, memory = _module(task, given[0].ndim if given else 0)
    inputs = _taken(given, memory)
    if compiled:
        module = torch.compile(module, dynamic=False)
    outputs: list[Any] = [None] * task.streams

    def stream(place: int) -> Callable[[], object]:
        def run() -> None:
            # one by the thread that runs it: modes are each thread's own
            with torch.inference_mode(not compiled), torch.no_grad():
                outputs[place] = module(*inputs)

        return run

    streams = tuple(map(stream, range(task.streams)))
    if compiled:
        streams[0]()
    seconds = time.perf_counter() - begin

    def result() -> Any:
        return _flat(outputs[0])

    def poison() -> None:
        outputs[0] = None

    prepared = Prepared(streams[0], result, "torch.compile (inductor)" if compiled else "eager", poison)
    prepared.compile_s, prepared.streams = seconds, streams
    return prepared


def load(task: ModelTask, compiled: bool = False) -> Loaded:
    """`compiled`: by torch.compile, for any sizes."""
    torch.set_num_threads(task.threads)
    module, memory = _module(task, len(zoo.shapes(task.zoo)[0]) if task.zoo else 0)
    if compiled:
        module = torch.compile(module, dynamic=True)

    def call(inputs: list[Any]) -> Any:
        with torch.inference_mode(not compiled), torch.no_grad():
            return module(*inputs)

    said = "torch.compile (inductor), dynamic" if compiled else "eager"
    return Loaded(lambda arrays: _taken(arrays, memory), call, _flat, said)


def _module(task: ModelTask, ndim: int) -> tuple[Any, Any]:
    """The zoo's module in the task's layout, and PyTorch's name of that."""
    if not task.zoo:
        raise UnsupportedError("it reads no ONNX file: models of the zoo only")
    module: Any = zoo.build(task.zoo)
    if task.layout != "NXC":
        return module, torch.contiguous_format
    if ndim not in CHANNELS_LAST:
        raise UnsupportedError("it has a channels-last format of images and volumes only")
    return module.to(memory_format=CHANNELS_LAST[ndim]), CHANNELS_LAST[ndim]


def _taken(arrays: list[np.ndarray], memory: Any) -> list[Any]:
    return [torch.from_numpy(array).contiguous(memory_format=memory) for array in arrays]


def _flat(out: Any) -> np.ndarray:
    return flattened(part.contiguous().numpy() for part in (out if isinstance(out, tuple) else (out,)))
