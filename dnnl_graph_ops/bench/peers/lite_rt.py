"""LiteRT (TensorFlow Lite) with XNNPACK, channels last: a model of one op, weights in it, run by `invoke` in place.

A 1D layer is a 2D one of height 1; 3D ones have no XNNPACK kernels. Padding that is not SAME is a PAD before, which
XNNPACK takes into the convolution. The model is written with the schema that comes with the package.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from typing import Any

import flatbuffers  # type: ignore[import-untyped, import-not-found, unused-ignore]
import numpy as np
from ai_edge_litert import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
    interpreter as runtime,
)
from ai_edge_litert import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
    schema_py_generated as schema,
)

from ...errors import UnsupportedError
from .. import data
from ..problem import Problem
from .task import Prepared, Task, keeping, raised

_POST = {"relu": "RELU", "sigmoid": "LOGISTIC", "tanh": "TANH"}


def versions() -> dict[str, str]:
    return {"ai-edge-litert": importlib.metadata.version("ai-edge-litert")}


def prepare(task: Task) -> Prepared:
    if task.weights != "constant":
        raise UnsupportedError("weights are part of its model: constant ones only")
    if task.problem.rank == 3:
        raise UnsupportedError("no 3D convolution of XNNPACK")
    flat = replace(task, problem=raised(task.problem))
    operands = flat.operands()
    session = runtime.Interpreter(model_content=_Model(flat, operands).content(), num_threads=task.threads)
    session.allocate_tensors()
    place, result = session.get_input_details()[0]["index"], session.get_output_details()[0]["index"]
    session.set_tensor(place, data.to_layout(operands["src"], "NXC", "f32"))

    def read(out: Any) -> np.ndarray:
        return data.from_layout(session.get_tensor(out), "NXC").reshape(task.problem.dst_shape())

    def run() -> Any:
        session.invoke()
        return result

    prepared = keeping(run, read, "")
    prepared.run()
    ran = [details["op_name"] for details in session._get_ops_details()]
    prepared.detail = "XNNPACK" if "DELEGATE" in ran else f"without XNNPACK: {', '.join(ran)}"
    return prepared


class _Model:
    """A model of one layer while it is being put together."""

    def __init__(self, task: Task, operands: dict[str, np.ndarray]) -> None:
        self._model = schema.ModelT()
        self._model.version = 3
        # the first buffer is that of tensors without one
        self._model.buffers = [schema.BufferT()]
        self._model.operatorCodes = []
        self._graph = schema.SubGraphT()
        self._graph.tensors, self._graph.operators = [], []
        problem = task.problem
        src = self._tensor(problem.src_shape("NXC"))
        self._graph.inputs = [src]
        build = self._transposed if problem.transposed else self._ordinary
        out = build(problem, src, operands["weights"], operands.get("bias", np.zeros(problem.out_channels, np.float32)))
        for name in task.post_ops:
            out = self._op(_POST[name], [out], problem.dst_shape("NXC"))
        self._graph.outputs = [out]
        self._model.subgraphs = [self._graph]

    def content(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _tensor(self, shape: tuple[int, ...], values: np.ndarray | None = None) -> int:
        tensor = schema.TensorT()
        tensor.shape, tensor.type = list(shape), schema.TensorType.FLOAT32
        if values is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
            if values.dtype == np.int32:
                tensor.type = schema.TensorType.INT32
            tensor.buffer = len(self._model.buffers)
            self._model.buffers.append(buffer)
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def _constant(self, values: np.ndarray) -> int:
        return self._tensor(values.shape, values)

    def _op(self, kind: str, inputs: list[int], shape: tuple[int, ...], options: Any = None, version: int = 1) -> int:
        code = schema.OperatorCodeT()
        code.builtinCode, code.version = getattr(schema.BuiltinOperator, kind), version
        # of the schema before there were more than 127
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        step = schema.OperatorT()
        step.opcodeIndex, step.inputs = len(self._model.operatorCodes), inputs
        if options is not None:
            step.builtinOptions = options
            step.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
        self._model.operatorCodes.append(code)
        self._graph.operators.append(step)
        step.outputs = [self._tensor(shape)]
        return int(step.outputs[0])

    def _ordinary(self, problem: Problem, src: int, weights: np.ndarray, bias: np.ndarray) -> int:
        over = [max((a.out - 1) * a.stride + a.extent - a.size, 0) for a in problem.axes]
        same = [(-(-a.size // a.stride), a.pad_begin) for a in problem.axes]
        padding = schema.Padding.VALID
        if same == [(a.out, total // 2) for a, total in zip(problem.axes, over, strict=True)]:
            padding = schema.Padding.SAME
        elif any(problem.pads_begin) or any(problem.pads_end):
            pads = [(0, 0), *zip(problem.pads_begin, problem.pads_end, strict=True), (0, 0)]
            sizes = [a.pad_begin + a.size + a.pad_end for a in problem.axes]
            shape = (problem.batch, *sizes, problem.in_channels)
            src = self._op("PAD", [src, self._constant(np.array(pads, np.int32))], shape, schema.PadOptionsT())
        depthwise = problem.groups > 1 and problem.groups == problem.in_channels
        options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
        options.padding = padding
        options.strideH, options.strideW = problem.strides
        options.dilationHFactor, options.dilationWFactor = problem.dilations
        # (OC, IC/groups, y, x) -> (OC, y, x, IC/groups); depthwise (1, y, x, OC)
        kernel = np.moveaxis(weights, 1, -1)
        if depthwise:
            options.depthMultiplier = problem.out_channels // problem.groups
            kernel = np.moveaxis(weights[:, 0], 0, -1)[None]
        inputs = [src, self._constant(kernel), self._constant(bias)]
        kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return self._op(kind, inputs, problem.dst_shape("NXC"), options, 2)

    def _transposed(self, problem: Problem, src: int, weights: np.ndarray, bias: np.ndarray) -> int:
        if problem.groups > 1 or any(d > 1 for d in problem.dilations):
            raise UnsupportedError("no grouped or dilated transposed convolution")
        options = schema.TransposeConvOptionsT()
        options.strideH, options.strideW = problem.strides
        over = [a.stride * (a.size - 1) + a.extent - a.out for a in problem.axes]
        # the convolution of dst with this padding must give src
        valid = [(0, (a.out - a.extent) // a.stride + 1) for a in problem.axes]
        same = [(max(total, 0) // 2, -(-a.out // a.stride)) for a, total in zip(problem.axes, over, strict=True)]
        given = [(a.pad_begin, a.size) for a in problem.axes]
        if given == valid and max(over) <= 0:
            options.padding = schema.Padding.VALID
        elif given == same:
            options.padding = schema.Padding.SAME
        else:
            raise UnsupportedError("its padding is neither SAME nor VALID")
        shape = self._constant(np.array(problem.dst_shape("NXC"), np.int32))
        # (IC, OC, y, x) -> (OC, y, x, IC)
        kernel = self._constant(np.moveaxis(weights, 0, -1))
        return self._op(
            "TRANSPOSE_CONV", [shape, kernel, src, self._constant(bias)], problem.dst_shape("NXC"), options, 3
        )
