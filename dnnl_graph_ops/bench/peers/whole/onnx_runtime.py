"""ONNX Runtime, CPU provider: the file as it is, inputs and outputs bound once for each stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]

from ..onnx_runtime import session_options, versions
from ..task import ModelTask, Prepared, flattened

__all__ = ["prepare", "versions"]


def prepare(task: ModelTask) -> Prepared:
    begin = time.perf_counter()
    session = onnxruntime.InferenceSession(task.path, session_options(task.threads), providers=["CPUExecutionProvider"])
    compiled = time.perf_counter() - begin
    inputs = task.inputs()
    bound = [_bound(session, inputs) for _ in range(task.streams)]

    def stream(binding: Any) -> Callable[[], object]:
        return lambda: session.run_with_iobinding(binding)

    streams = tuple(map(stream, bound))
    prepared = Prepared(streams[0], lambda: flattened(bound[0].copy_outputs_to_cpu()), "CPUExecutionProvider")
    prepared.compile_s, prepared.streams = compiled, streams
    return prepared


def _bound(session: Any, inputs: list[Any]) -> Any:
    """Outputs stay where the first execution put them."""
    binding = session.io_binding()
    for argument, array in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_ortvalue_input(argument.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for result in session.get_outputs():
        binding.bind_output(result.name, "cpu")
    session.run_with_iobinding(binding)
    for result, value in zip(session.get_outputs(), binding.get_outputs(), strict=True):
        binding.bind_ortvalue_output(result.name, value)
    return binding
