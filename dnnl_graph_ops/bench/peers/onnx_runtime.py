"""ONNX Runtime, CPU provider: a model of one ConvTranspose or Conv node, input and output bound once."""

from __future__ import annotations

from typing import Any

import onnx
import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]
from onnx import TensorProto, helper, numpy_helper

from ...dtypes import numpy_dtype
from .. import data
from .task import Prepared, Task

_DTYPES = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16}
_NODES = {"conv_transpose": "ConvTranspose", "conv": "Conv"}
_POST = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}


def versions() -> dict[str, str]:
    return {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}


def prepare(task: Task) -> Prepared:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = task.threads
    options.inter_op_num_threads = 1
    # its threads spin while a run is under way, as by default, and no longer
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        _model(task).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    operands = task.operands()
    binding = session.io_binding()
    names = ["src"] if task.weights == "constant" else ["src", "weights"]
    for name in names:
        value = onnxruntime.OrtValue.ortvalue_from_numpy(operands[name].astype(numpy_dtype(task.dtype)))
        binding.bind_ortvalue_input(name, value)
    output = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
        list(task.problem.dst_shape()), numpy_dtype(task.dtype).type, "cpu"
    )
    binding.bind_ortvalue_output("dst", output)
    return Prepared(
        lambda: session.run_with_iobinding(binding),
        lambda: data.from_layout(output.numpy(), "NCX"),
        f"{_NODES[task.problem.op]}, CPUExecutionProvider, bound input and output",
    )


def _model(task: Task) -> onnx.ModelProto:
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
    steps = [_NODES[problem.op], *(_POST[name] for name in task.post_ops)]
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
