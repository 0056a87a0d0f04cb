"""ONNX Runtime, CPU provider: the file as it is, inputs and outputs bound once."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]

from ..onnx_runtime import session_options, versions
from ..task import Loaded, ModelTask, Prepared, flattened

__all__ = ["load", "prepare", "versions"]


def prepare(task: ModelTask) -> Prepared:
    begin = time.perf_counter()
    session = _session(task)
    compiled = time.perf_counter() - begin
    bound = _bound(session, task.inputs())
    return Prepared(
        lambda: session.run_with_iobinding(bound),
        lambda: flattened(bound.copy_outputs_to_cpu()),
        "CPUExecutionProvider",
        compile_s=compiled,
    )


def load(task: ModelTask) -> Loaded:
    session = _session(task)
    names = [argument.name for argument in session.get_inputs()]

    def call(inputs: list[np.ndarray]) -> Any:
        return session.run(None, dict(zip(names, inputs, strict=True)))

    return Loaded(list, call, flattened, "CPUExecutionProvider")


def _session(task: ModelTask) -> Any:
    options = session_options(task.threads)
    return onnxruntime.InferenceSession(task.path, options, providers=["CPUExecutionProvider"])


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
