"""OpenVINO, CPU plug-in, latency mode: an ONNX model of one node, or a file; a request with its own outputs.

A file is computed in f32, with the option `hint` "default" in the precision that the plug-in takes by itself.
"""

from __future__ import annotations

import io
from typing import Any

import ml_dtypes
import numpy as np
import openvino as ov  # type: ignore[import-untyped, import-not-found, unused-ignore]

from .. import quantized
from ..timing import clock
from .onnx_model import given, model
from .task import Loaded, ModelTask, Prepared, Task, flattened

# with integers the hint is of what is left in floats
_HINTS = {"f32": ov.Type.f32, "bf16": ov.Type.bf16, "f16": ov.Type.f16, quantized.DTYPE: ov.Type.f32}


def versions() -> dict[str, str]:
    # without the build's hash
    return {"openvino": ov.__version__.split("-")[0]}


def settings(threads: int, precision: Any) -> dict[str, Any]:
    """Of the plug-in. A precision of None is its own choice."""
    return {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,
        **({} if precision is None else {"INFERENCE_PRECISION_HINT": precision}),
    }


def prepare(task: Task) -> Prepared:
    source = ov.Core().read_model(io.BytesIO(model(task).SerializeToString()))
    compiled = ov.Core().compile_model(source, "CPU", settings(task.threads, _HINTS[task.dtype]))
    request = compiled.create_infer_request()
    for index, array in enumerate(given(task)):
        request.set_input_tensor(index, _tensor(array))
    request.infer()

    def result() -> np.ndarray:
        made = request.output_tensors[0]
        array = made.data.view(ml_dtypes.bfloat16) if made.element_type == ov.Type.bf16 else made.data
        return np.asarray(array, dtype=np.float32)

    return Prepared(request.infer, result, _detail(compiled))


def _tensor(array: np.ndarray) -> Any:
    if array.dtype != ml_dtypes.bfloat16:
        return ov.Tensor(array)
    tensor = ov.Tensor(ov.Type.bf16, ov.Shape(array.shape))
    tensor.data.view(np.uint16)[:] = array.view(np.uint16)
    return tensor


def _detail(compiled: Any) -> str:
    """Names of the kernels that the plug-in chose."""
    chosen = []
    for node in compiled.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        kind, kernel = (str(info[k].value) if k in info else "" for k in ("layerType", "primitiveType"))
        if kind not in ("Input", "Output", "Const"):
            chosen.append(f"{kind}:{kernel}")
    return ", ".join(chosen) or "no kernel is named"


def prepare_model(task: ModelTask) -> Prepared:
    begin = clock(task.threads)
    compiled = _compiled(task)
    seconds = clock(task.threads) - begin
    inputs = task.inputs()
    request = compiled.create_infer_request()
    for index, array in enumerate(inputs):
        request.set_input_tensor(index, ov.Tensor(array))

    def result() -> Any:
        return flattened(tensor.data for tensor in request.output_tensors)

    return Prepared(request.infer, result, _precision(compiled), hold=tuple(inputs), compile_s=seconds)


def load(task: ModelTask) -> Loaded:
    compiled = _compiled(task)
    request = compiled.create_infer_request()

    def call(inputs: list[Any]) -> Any:
        # results lie in the request, which the next call writes
        return request.infer(inputs, share_inputs=True, share_outputs=True)

    return Loaded(list, call, lambda made: flattened(made.values()), _precision(compiled))


def _compiled(task: ModelTask) -> Any:
    precision = None if task.options.get("hint") == "default" else ov.Type.f32
    return ov.Core().compile_model(task.path, "CPU", settings(task.threads, precision))


def _precision(compiled: Any) -> str:
    return f"latency mode, {compiled.get_property('INFERENCE_PRECISION_HINT').get_type_name()}"
