"""This package: the graph built as a user would, compiled once, called with `out=`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo

from .. import data, quantized
from .task import ModelTask, Prepared, Task

# per op: the builders of its directions, and what the shape of diff_src is called
_BUILDERS = {
    "conv_transpose": (
        "conv_transpose",
        "conv_transpose_backward_data",
        "conv_transpose_backward_weights",
        "src_shape",
    ),
    "conv": ("convolution", "convolution_backward_data", "convolution_backward_weights", "dst_shape"),
}


def versions() -> dict[str, str]:
    """Versions of the package and of every library that it found."""
    found = {f"oneDNN {r.name}": str(r.version) for r in dgo.runtimes()}
    return {"dnnl_graph_ops": str(dgo.info().get("package", "?")), **found}


def prepare(task: Task) -> Prepared:
    dgo.set_num_threads(task.threads)
    engine = dgo.engine(task.options.get("engine", "cpu"))
    graph, output, inputs = graph_of(task, engine)
    net = graph.compile(
        output,
        tune=task.options.get("tune", "heuristic"),
        algorithm=task.options.get("algorithm", "auto"),
        **precision(task, inputs),
    )
    out: Any = net(*inputs)

    def result() -> np.ndarray:
        array: np.ndarray = out.astype(np.float32)
        if task.direction != "bwd_w":
            array = data.from_layout(array, task.layout)
        return array if rounding is None else rounding.rounded(array)

    layer = quantized.layer(task.problem, task.weights) if task.dtype == quantized.DTYPE else None
    rounding = layer if task.options.get("precision") == "f32" else None

    def native(count: int) -> list[float]:
        return [float(t) for t in net.benchmark(*inputs, repeat=count).times]

    return Prepared(lambda: net(*inputs, out=out), result, detail(net), lambda: poison(out), native)


def poison(buffer: np.ndarray) -> None:
    """Overwrites a result: an execution that writes nothing shows then."""
    buffer.fill(np.nan if buffer.dtype.kind not in "iub" else 0)


def precision(task: Task | ModelTask, inputs: Sequence[np.ndarray]) -> dict[str, Any]:
    """Keywords of `Graph.compile`: what it computes f32 in, and with "auto" what it measures that on."""
    name = task.options.get("precision")
    samples = {"samples": [tuple(inputs)]} if name == "auto" else {}
    return {"precision": name, **samples} if name not in (None, "f32") else {}


def _quantized(task: Task, engine: Any) -> tuple[Any, Any, list[np.ndarray]]:
    """A layer in QDQ format, or with precision "f32" in floats."""
    problem, ops = task.problem, dgo.ops
    layer = quantized.layer(problem, task.weights)
    operands = task.operands()
    floats = layer.floats(operands)
    in_floats = task.options.get("precision") == "f32"
    graph = dgo.Graph(engine)
    array = data.to_layout((floats if in_floats else operands)["src"], task.layout, "f32" if in_floats else "u8")
    src = graph.input("src", array.shape, "f32" if in_floats else "u8")
    weights = graph.constant(floats["weights"] if in_floats else operands["weights"].astype(np.int8))
    if not in_floats:
        src = ops.dequantize(src, **quantized.keywords(quantized.SRC_SCALE, 0))
        weights = ops.dequantize(weights, **quantized.keywords(layer.weights_scales, 0, layer.axis))
    bias = (graph.constant(floats["bias"]),) if "bias" in floats else ()
    value = getattr(ops, _BUILDERS[problem.op][0])(src, weights, *bias, **problem.attributes(task.layout))
    if not in_floats:
        value = ops.quantize(value, dtype="u8", **quantized.keywords(layer.dst_scale, layer.dst_zero))
    return graph, value, [array]


def graph_of(task: Task, engine: Any) -> tuple[Any, Any, list[np.ndarray]]:
    """The graph of one layer; its inputs in order, as arrays of the task's layout."""
    if task.dtype == quantized.DTYPE:
        return _quantized(task, engine)
    problem = task.problem
    ops: Any = dgo.ops
    graph = dgo.Graph(engine)
    operands = task.operands()
    arrays: list[np.ndarray] = []

    def give(name: str, constant: bool = False) -> Any:
        is_activation = name in ("src", "diff_dst")
        array = data.to_layout(operands[name], task.layout if is_activation else "NCX", task.dtype)
        if constant:
            return graph.constant(array, name=name)
        arrays.append(array)
        return graph.input(name, array.shape, task.dtype)

    attributes = problem.attributes(task.layout)
    forward, backward_data, backward_weights, shape_name = _BUILDERS[problem.op]
    if task.direction == "bwd_d":
        shape = {shape_name: problem.src_shape(task.layout)}
        operand, weights = give("diff_dst"), give("weights", task.weights == "constant")
        value = getattr(ops, backward_data)(operand, weights, **shape, **attributes)
    elif task.direction == "bwd_w":
        value = getattr(ops, backward_weights)(
            give("src"), give("diff_dst"), weights_shape=problem.weights_shape, **attributes
        )
    else:
        src, weights = give("src"), give("weights", task.weights == "constant")
        bias = (give("bias", True),) if "bias" in operands else ()
        value = getattr(ops, forward)(src, weights, *bias, **attributes)
    return graph, value, arrays


def detail(net: Any) -> str:
    """The formulations and implementations that run, from `net.explain()`."""
    try:
        record = net.explain().to_dict()
    except Exception as error:  # a row is worth more than its remark
        return f"explain() failed: {error}"
    forms = [f"{p['formulation']} in {p['compute_dtype']}" for p in record.get("groups", ())]
    steps = [str(step["implementation"]) for step in record.get("steps", ())]
    said = ", ".join(dict.fromkeys(forms))
    return f"{said} ({'; '.join(dict.fromkeys(steps))})" if steps else said
