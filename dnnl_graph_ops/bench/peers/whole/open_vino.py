"""OpenVINO, CPU plug-in, in f32: the file as it is, one request with its own outputs."""

from __future__ import annotations

import time
from typing import Any

import openvino as ov  # type: ignore[import-untyped, import-not-found, unused-ignore]

from ..open_vino import settings, versions
from ..task import Loaded, ModelTask, Prepared, flattened

__all__ = ["load", "prepare", "versions"]


def prepare(task: ModelTask, precision: Any = ov.Type.f32) -> Prepared:
    """`precision`: None leaves it to the plug-in."""
    begin = time.perf_counter()
    compiled = _compiled(task, precision)
    seconds = time.perf_counter() - begin
    inputs = task.inputs()
    request = compiled.create_infer_request()
    for index, array in enumerate(inputs):
        request.set_input_tensor(index, ov.Tensor(array))

    def result() -> Any:
        return flattened(tensor.data for tensor in request.output_tensors)

    return Prepared(request.infer, result, _detail(compiled), hold=tuple(inputs), compile_s=seconds)


def load(task: ModelTask, precision: Any = ov.Type.f32) -> Loaded:
    compiled = _compiled(task, precision)
    request = compiled.create_infer_request()

    def call(inputs: list[Any]) -> Any:
        # results lie in the request, which the next call writes
        return request.infer(inputs, share_inputs=True, share_outputs=True)

    return Loaded(list, call, lambda made: flattened(made.values()), _detail(compiled))


def _compiled(task: ModelTask, precision: Any) -> Any:
    return ov.Core().compile_model(task.path, "CPU", settings(task.threads, precision))


def _detail(compiled: Any) -> str:
    return f"latency mode, {compiled.get_property('INFERENCE_PRECISION_HINT').get_type_name()}"
