"""PyTorch: the zoo's module itself, channels first or channels last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from ....errors import UnsupportedError
from ... import zoo
from ..pytorch import CHANNELS_LAST, versions
from ..task import ModelTask, Prepared, flattened

__all__ = ["prepare", "versions"]


def prepare(task: ModelTask, compiled: bool = False) -> Prepared:
    """`compiled`: by torch.compile."""
    if not task.zoo:
        raise UnsupportedError("it reads no ONNX file: models of the zoo only")
    torch.set_num_threads(task.threads)
    begin = time.perf_counter()
    module: Any = zoo.build(task.zoo)
    inputs = [torch.from_numpy(array) for array in task.inputs()]
    if task.layout == "NXC":
        if inputs[0].ndim not in CHANNELS_LAST:
            raise UnsupportedError("it has a channels-last format of images and volumes only")
        memory = CHANNELS_LAST[inputs[0].ndim]
        module = module.to(memory_format=memory)
        inputs = [tensor.contiguous(memory_format=memory) for tensor in inputs]
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
        out = outputs[0]
        return flattened(part.contiguous().numpy() for part in (out if isinstance(out, tuple) else (out,)))

    def poison() -> None:
        outputs[0] = None

    prepared = Prepared(streams[0], result, "torch.compile (inductor)" if compiled else "eager", poison)
    prepared.compile_s, prepared.streams = seconds, streams
    return prepared
