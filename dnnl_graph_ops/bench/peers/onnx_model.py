"""A layer as an ONNX model of one ConvTranspose or Conv node, for the peers that read such models, and its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...dtypes import numpy_dtype
from .. import quantized
from ..problem import Problem
from .task import Task

NODES = {"conv_transpose": "ConvTranspose", "conv": "Conv"}
_DTYPES = {"f32": TensorProto.FLOAT, "bf16": TensorProto.BFLOAT16, "f16": TensorProto.FLOAT16}


def model(task: Task) -> onnx.ModelProto:
    """From src, and variable weights, to dst; anything else is a constant in it."""
    if task.dtype == quantized.DTYPE:
        return _quantized(task)
    problem, kind = task.problem, _DTYPES[task.dtype]
    operands = task.operands()
    inputs = [helper.make_tensor_value_info("src", kind, problem.src_shape())]
    constants = []
    for name in ("weights", "bias"):
        if name in operands:
            array = operands[name].astype(numpy_dtype(task.dtype))
            if name == "weights" and task.weights == "variable":
                inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
            else:
                constants.append(numpy_helper.from_array(array, name))
    names = ["src", *(name for name in ("weights", "bias") if name in operands)]
    nodes = [helper.make_node(NODES[problem.op], names, ["dst"], **_attributes(problem))]
    graph = helper.make_graph(
        nodes, "layer", inputs, [helper.make_tensor_value_info("dst", kind, problem.dst_shape())], constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Returns the inputs of a call: old files name their constants among the inputs too."""
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def given(task: Task) -> list[np.ndarray]:
    """Returns the arrays of a call: src, and variable weights."""
    kind = np.dtype(np.uint8) if task.dtype == quantized.DTYPE else numpy_dtype(task.dtype)
    names = ("src",) if task.weights == "constant" else ("src", "weights")
    operands = task.operands()
    return [operands[name].astype(kind) for name in names]


def _attributes(problem: Problem) -> dict[str, Any]:
    more: dict[str, Any] = {"output_padding": problem.output_padding} if problem.transposed else {}
    return {
        "strides": problem.strides,
        "pads": [*problem.pads_begin, *problem.pads_end],
        "dilations": problem.dilations,
        "group": problem.groups,
        "kernel_shape": problem.kernel,
        **more,
    }


def _quantized(task: Task) -> onnx.ModelProto:
    """The layer between DequantizeLinear and QuantizeLinear, from u8 to u8."""
    problem, operands = task.problem, task.operands()
    layer = quantized.layer(problem, task.weights)
    constants = {
        "src_scale": np.float32(quantized.SRC_SCALE),
        "src_zero": np.uint8(0),
        "weights": operands["weights"].astype(np.int8),
        "weights_scale": layer.weights_scales,
        "weights_zero": np.zeros(layer.weights_scales.shape, np.int8),
        "dst_scale": np.float32(layer.dst_scale),
        "dst_zero": np.uint8(layer.dst_zero),
    }
    if "bias" in operands:
        constants |= {
            "bias": operands["bias"].astype(np.int32),
            "bias_scale": layer.bias_scale,
            "bias_zero": np.zeros(layer.bias_scale.shape, np.int32),
        }

    def wide(name: str, **axis: Any) -> onnx.NodeProto:
        return helper.make_node("DequantizeLinear", [name, f"{name}_scale", f"{name}_zero"], [f"{name}_f32"], **axis)

    nodes = [wide("src"), wide("weights", axis=layer.axis), *([wide("bias", axis=0)] if "bias" in operands else [])]
    given = [f"{name}_f32" for name in ("src", "weights", "bias") if name in operands]
    nodes.append(helper.make_node(NODES[problem.op], given, ["dst_f32"], **_attributes(problem)))
    nodes.append(helper.make_node("QuantizeLinear", ["dst_f32", "dst_scale", "dst_zero"], ["dst"]))
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("src", TensorProto.UINT8, problem.src_shape())],
        [helper.make_tensor_value_info("dst", TensorProto.UINT8, problem.dst_shape())],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
