"""Which ops of a float graph are quantized, and the graph with Quantize and Dequantize around their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import ops
from ..graph import Graph, Node, Value
from ..schema import OPS, kinds
from ..shapes import resolved
from ..shapes.common import channel_axes
from ..weights import convert_weights
from .report import NOT_A_LAYER, LayerReport, LeftReport

Array = np.ndarray[Any, Any]

# the largest integers: of u8, and of s8 with a symmetric range
_U8, _S8 = 255, 127


def divided(graph: Graph, chosen: Callable[[str], bool] | None) -> tuple[list[Node], tuple[LeftReport, ...]]:
    """The nodes to quantize, and why the others are not; `chosen`: what a user says of a layer's name."""
    reasons = {node: _reason(node, chosen) for node in graph.nodes}
    left = (LeftReport(node.name, node.kind, reason) for node, reason in reasons.items() if reason)
    return [node for node, reason in reasons.items() if not reason], tuple(left)


def _reason(node: Node, chosen: Callable[[str], bool] | None) -> str:
    """Why a node is not quantized; empty if it is."""
    if node.kind not in kinds("convolves"):
        return NOT_A_LAYER
    src, weights = node.inputs[:2]
    if weights.node is not None and weights.node.kind == "Dequantize":
        return "it is quantized already"
    if src.dtype != "f32":
        return f"its data is {src.dtype}, not f32"
    if not weights.is_constant:
        return "its weights are no constant; make them Graph.constant"
    return "" if chosen is None or chosen(node.name) else "'layers' says so"


def quantized(
    source: Graph, name: str, ranges: Mapping[Node, tuple[float, float]]
) -> tuple[Graph, dict[Value, Value], tuple[LayerReport, ...]]:
    """A graph like `source` with the nodes of `ranges` (lowest and highest of src) quantized."""
    graph = Graph(source.engine, fpmath_mode=source.fpmath_mode, name=name)
    graph._keeps_inputs = source._keeps_inputs
    graph._promise([*(value.name for value in source.constants), *(node.name for node in source.nodes)])
    mapped = {value: graph.input(value.name, value.shape, value.dtype, value.strides) for value in source.inputs}
    layers = []
    rounded: dict[Value, Value] = {}
    for node in source.nodes:
        for value in node.inputs:
            if value not in mapped and value.is_constant and not (node in ranges and value is node.inputs[1]):
                mapped[value] = graph.constant(value.constant, value.name)
        if node in ranges:
            result, layer = _quantized_node(graph, node, mapped, rounded, ranges[node])
            mapped[node.outputs[0]] = result
            layers.append(layer)
            continue
        metas = [value._meta for value in node.outputs]
        slots = [value.name.rpartition(".")[2] for value in node.outputs]
        inputs = [mapped[v] for v in node.inputs]
        made = graph._add_node(node.kind, node.name, inputs, node.attrs, metas, slots, node.name, late=node.late)
        mapped.update(zip(node.outputs, made, strict=True))
    return graph, mapped, tuple(layers)


def _quantized_node(
    graph: Graph,
    node: Node,
    mapped: Mapping[Value, Value],
    rounded: dict[Value, Value],
    limits: tuple[float, float],
) -> tuple[Value, LayerReport]:
    """rounded: what is quantized already, by the float value; all its readers have the same range."""
    dtype, scale, zero_point = _source_scale(*limits)
    qparams: dict[str, Any] = {"scales": [scale], "zps": [zero_point], "qtype": "per_tensor"}
    value = node.inputs[0]
    if value not in rounded:
        rounded[value] = ops.quantize(mapped[value], dtype=dtype, **qparams)
    src = ops.dequantize(rounded[value], **qparams)
    op = OPS[node.kind]
    weights, scales, axis = _quantized_weights(node, op.pytorch)
    qparams = {"scales": list(scales), "zps": [0] * len(scales), "qtype": "per_channel", "axis": axis}
    w = ops.dequantize(graph.constant(weights), **qparams)
    rest = [mapped[value] for value in node.inputs[2:]]
    attrs = {**node.attrs, "weights_format": op.pytorch}
    result = getattr(ops, op.builder)(src, w, *rest, name=node.name, **attrs)
    return result, LayerReport(node.name, dtype, scale, zero_point, scales, node.kind)


def _source_scale(low: float, high: float) -> tuple[str, float, int]:
    """dtype, scale and zero point; zero is always exact."""
    if low == 0.0 == high:
        return "u8", 1.0, 0
    if low < 0 and max(-low, high) < 1.1 * min(-low, high):
        return "s8", max(-low, high) / _S8, 0
    scale = (high - low) / _U8
    return "u8", scale, int(np.clip(round(-low / scale), 0, _U8))


def _quantized_weights(node: Node, target: str) -> tuple[Array, tuple[float, ...], int]:
    """s8 weights in the order `target`, the scales of their output channels, and the axis of these."""
    weights = node.inputs[1].constant
    assert weights is not None
    attrs = resolved(node.kind, [value.shape for value in node.inputs], node.attrs, node.name)
    fmt = f"documented_{attrs.weights_format}" if attrs.known.weights.documented else attrs.weights_format
    array = convert_weights(
        weights,
        fmt,
        target,
        groups=attrs.groups,
        op="convolution" if node.kind == "Convolution" else "conv_transpose",
    )
    _, axis = channel_axes(target, array.ndim)
    peaks = np.abs(array).max(axis=tuple(a for a in range(array.ndim) if a != axis), initial=0.0)
    scales = np.where(peaks > 0, peaks / _S8, 1.0).astype(np.float32)
    spread = scales.reshape([-1 if a == axis else 1 for a in range(array.ndim)])
    levels = np.clip(np.rint(array / spread), -_S8, _S8)
    return levels.astype(np.int8), tuple(map(float, scales)), axis
