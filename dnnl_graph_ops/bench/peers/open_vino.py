"""OpenVINO, CPU plug-in, latency mode: a model of one (Group)ConvolutionBackpropData or (Group)Convolution, or a file.

A layer's input and output are shared with it; a file has one request with its own outputs. A file is computed in f32,
with the option `hint` "default" in the precision that the plug-in takes by itself.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import openvino as ov  # type: ignore[import-untyped, import-not-found, unused-ignore]
from openvino import opset13 as opset

from ...errors import UnsupportedError, extra
from .. import data, quantized
from ..timing import clock
from .task import Loaded, ModelTask, Prepared, Task, flattened

_DTYPES = {"f32": ov.Type.f32, "bf16": ov.Type.bf16, "f16": ov.Type.f16, quantized.DTYPE: ov.Type.u8}
# per op: of one group, of several
_BUILDERS = {
    "conv_transpose": (opset.convolution_backprop_data, opset.group_convolution_backprop_data),
    "conv": (opset.convolution, opset.group_convolution),
}
_POST = {"relu": opset.relu, "sigmoid": opset.sigmoid, "tanh": opset.tanh}


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
    kind = _DTYPES[task.dtype]
    in_integers = task.dtype == quantized.DTYPE
    model = _quantized(task) if in_integers else _model(task, kind)
    # with integers the hint is of what is left in floats
    hint = ov.Type.f32 if in_integers else kind
    compiled = ov.Core().compile_model(model, "CPU", settings(task.threads, hint))
    request = compiled.create_infer_request()
    operands = task.operands()
    names = ["src"] if task.weights == "constant" else ["src", "weights"]
    for index, name in enumerate(names):
        request.set_input_tensor(index, _tensor(operands[name], kind))
    output = ov.Tensor(kind, ov.Shape(task.problem.dst_shape()))
    request.set_output_tensor(output)

    def result() -> np.ndarray:
        return data.from_layout(_numpy(output, kind), "NCX")

    request.infer()
    return Prepared(request.infer, result, _detail(compiled))


def _quantized(task: Task) -> Any:
    """As OpenVINO reads the ONNX model that others are given."""
    try:
        from .onnx_model import model
    except ImportError:
        raise UnsupportedError(f"reads int8 layers from ONNX: {extra('onnx')}") from None
    return ov.Core().read_model(io.BytesIO(model(task).SerializeToString()))


def _tensor(array: np.ndarray, kind: Any) -> Any:
    tensor = ov.Tensor(kind, ov.Shape(array.shape))
    if kind != ov.Type.bf16:
        tensor.data[:] = array
    else:
        # small integers: the upper half of a float32 is the bf16 value exactly
        tensor.data.view(np.uint16)[:] = (array.view(np.uint32) >> 16).astype(np.uint16)
    return tensor


def _numpy(tensor: Any, kind: Any) -> np.ndarray:
    if kind != ov.Type.bf16:
        return np.asarray(tensor.data, dtype=np.float32)
    widened: np.ndarray = tensor.data.view(np.uint16).astype(np.uint32) << 16
    return widened.view(np.float32)


def _model(task: Task, kind: Any) -> Any:
    problem, operands = task.problem, task.operands()
    src = opset.parameter(list(problem.src_shape()), kind, "src")
    parameters = [src]
    shape = problem.weights_shape
    weights: Any
    if problem.groups > 1:
        shape = (problem.groups, shape[0] // problem.groups, *shape[1:])
    if task.weights == "constant":
        weights = opset.constant(_tensor(operands["weights"].reshape(shape), kind))
    else:
        weights = opset.parameter(list(problem.weights_shape), kind, "weights")
        parameters.append(weights)
        if problem.groups > 1:
            weights = opset.reshape(weights, opset.constant(np.array(shape, np.int64)), False)
    build = _BUILDERS[problem.op][problem.groups > 1]
    more = [list(problem.output_padding)] if problem.transposed else []
    node = build(
        src,
        weights,
        list(problem.strides),
        *([None] if problem.transposed else []),
        list(problem.pads_begin),
        list(problem.pads_end),
        list(problem.dilations),
        "explicit",
        *more,
    )
    if "bias" in operands:
        bias = operands["bias"].reshape(1, -1, *(1,) * problem.rank)
        node = opset.add(node, opset.constant(_tensor(bias, kind)))
    for name in task.post_ops:
        node = _POST[name](node)
    return ov.Model([opset.result(node)], parameters, "layer")


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
