"""A task as an ONNX model of one ConvTranspose or Conv node, for the peers that read such models."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper

from ...dtypes import numpy_dtype
from .task import Task

NODES = {"conv_transpose": "ConvTranspose", "conv": "Conv"}
_DTYPES = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16}
_POST = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}


def model(task: Task) -> onnx.ModelProto:
    """From src, and variable weights, to dst; anything else is a constant in it."""
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
    more: dict[str, Any] = {"output_padding": problem.output_padding} if problem.transposed else {}
    steps = [NODES[problem.op], *(_POST[name] for name in task.post_ops)]
    edges = [*(f"step{i}" for i in range(len(steps) - 1)), "dst"]
    nodes = [
        helper.make_node(
            steps[0],
            ["src", *(n for n in ("weights", "bias") if n in operands)],
            [edges[0]],
            strides=problem.strides,
            pads=[*problem.pads_begin, *problem.pads_end],
            dilations=problem.dilations,
            group=problem.groups,
            kernel_shape=problem.kernel,
            **more,
        )
    ]
    nodes += [helper.make_node(s, [edges[i]], [edges[i + 1]]) for i, s in enumerate(steps[1:])]
    graph = helper.make_graph(
        nodes, "layer", inputs, [helper.make_tensor_value_info("dst", kind, problem.dst_shape())], constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
