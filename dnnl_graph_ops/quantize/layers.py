"""Which ops of a float graph are quantized, and the graph with Quantize and Dequantize around their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..graph import Graph, Node, Value
from ..ir import GraphView
from ..net import Net
from ..passes import fold_affine, fold_padding
from ..schema import OPS, kinds
from ..shapes import resolved
from ..shapes.common import channel_axes
from ..weights import convert_weights
from . import equalize
from .ranges import S8, Limits, Ranges, source_scale, weight_scales
from .report import NOT_A_LAYER, LayerReport, LeftReport

Array = np.ndarray[Any, Any]


def divided(graph: Graph, chosen: Callable[[str], bool] | None) -> tuple[list[Node], tuple[LeftReport, ...]]:
    """The nodes to quantize, and why the others are not; `chosen`: what a user says of a layer's name."""
    reasons = {node: _reason(node, chosen) for node in graph.nodes}
    left = (LeftReport(node.name, node.kind, reason) for node, reason in reasons.items() if reason)
    return [node for node, reason in reasons.items() if not reason], tuple(left)


def _reason(node: Node, chosen: Callable[[str], bool] | None) -> str:
    """Why a node is not quantized; empty if it is."""
    if node.kind not in kinds("multiplies"):
        return NOT_A_LAYER
    src, weights = node.inputs[:2]
    if weights.node is not None and weights.node.kind == "Dequantize":
        return "it is quantized already"
    if src.dtype != "f32":
        return f"its data is {src.dtype}, not f32"
    if not weights.is_constant:
        return "its weights are no constant; make them Graph.constant"
    if node.kind not in kinds("convolves") and (weights.ndim != 2 or node.attrs["transpose_a"]):
        return "its weights are no matrix (IC, OC) that rows of data are multiplied by"
    return "" if chosen is None or chosen(node.name) else "'layers' says so"


class Quantized(NamedTuple):
    """A graph like that of a net, and its outputs.

    values: by those of the net's graph. layers: by their nodes there, without errors. twins: of these nodes the
    quantized layers, where floats are computed as before.
    """

    graph: Graph
    outputs: dict[str, Value]
    values: dict[Value, Value]
    layers: dict[Node, LayerReport]
    twins: dict[Node, Value]

    def compile(self) -> Net:
        return self.graph.compile(dict(self.outputs))


def folded(net: Net, equalizes: bool) -> Net:
    """Returns a net with the same outputs whose convolutions have taken in the pads, scales and shifts around them.

    So a batch norm after a convolution becomes part of its weights, which are quantized with it. equalizes: whether
    channels between two convolutions are scaled as well.
    """
    # passes change the values of a graph
    copy = quantized(net, {}, "minmax")
    view = GraphView(copy.graph.nodes, copy.outputs.values())
    fold_padding.run(view)
    fold_affine.run(view)
    if equalizes:
        equalize.run(view)
    copy.graph.nodes[:] = view.nodes()
    return copy.compile()


def quantized(net: Net, limits: Mapping[Node, Limits], ranges: Ranges, *, beside: bool = False) -> Quantized:
    """Returns a graph like that of a net with the nodes of `limits` (lowest and highest of src) quantized.

    ranges: how scales of weights are chosen. beside: the graph computes floats as before, and next to them what each of
    these layers alone makes of the same data.
    """
    source = net.graph
    graph = Graph(source.engine, fpmath_mode=source.fpmath_mode, name=f"{source.name} int8")
    graph._keeps_inputs = source._keeps_inputs
    graph._promise([*(value.name for value in source.constants), *(node.name for node in source.nodes)])
    mapped = {value: graph.input(value.name, value.shape, value.dtype, value.strides) for value in source.inputs}
    made = Quantized(graph, {}, mapped, {}, {})
    rounded: dict[Value, Value] = {}
    for node in source.nodes:
        for value in node.inputs:
            if value not in mapped and value.is_constant and not (node in limits and value is node.inputs[1]):
                mapped[value] = _constant(graph, value)
        if node in limits:
            result, layer = _quantized_node(graph, node, mapped, rounded, limits[node], ranges, beside)
            made.layers[node] = layer
            if not beside:
                mapped[node.outputs[0]] = result
                continue
            made.twins[node] = result
            if node.inputs[1] not in mapped:
                mapped[node.inputs[1]] = _constant(graph, node.inputs[1])
        metas = [value._meta for value in node.outputs]
        slots = [value.name.rpartition(".")[2] for value in node.outputs]
        inputs = [mapped[v] for v in node.inputs]
        outputs = graph._add_node(node.kind, node.name, inputs, node.attrs, metas, slots, node.name, late=node.late)
        mapped.update(zip(node.outputs, outputs, strict=True))
    made.outputs.update((name, mapped[value]) for name, value in net.outputs.items())
    return made


def _constant(graph: Graph, value: Value) -> Value:
    """A copy of a constant; passes give a new bias the name of its weights."""
    return graph.constant(value.constant, None if value.name in graph._names else value.name)


def _quantized_node(
    graph: Graph,
    node: Node,
    mapped: Mapping[Value, Value],
    rounded: dict[Value, Value],
    limits: Limits,
    ranges: Ranges,
    beside: bool,
) -> tuple[Value, LayerReport]:
    """rounded: what is quantized already, by the float value; all its readers have the same range."""
    dtype, scale, zero_point = source_scale(*limits)
    qparams: dict[str, Any] = {"scales": [scale], "zps": [zero_point], "qtype": "per_tensor"}
    value = node.inputs[0]
    if value not in rounded:
        rounded[value] = ops.quantize(mapped[value], dtype=dtype, **qparams)
    src = ops.dequantize(rounded[value], **qparams)
    op = OPS[node.kind]
    convolves = node.kind in kinds("convolves")
    array, axis = _in_order(node, op.pytorch) if convolves else (_columns(node), 1)
    scales = weight_scales(array, axis, ranges)
    spread = scales.reshape([-1 if a == axis else 1 for a in range(array.ndim)])
    levels = np.clip(np.rint(array / spread), -S8, S8).astype(np.int8)
    qparams = {"scales": scales.tolist(), "zps": [0] * scales.size, "qtype": "per_channel", "axis": axis}
    w = ops.dequantize(graph.constant(levels), **qparams)
    rest = [
        _bias(graph, value.constant, scale, scales) if convolves and value.is_constant else mapped[value]
        for value in node.inputs[2:]
    ]
    attrs = {**node.attrs, **({"weights_format": op.pytorch} if convolves else {"transpose_b": False})}
    result = getattr(ops, op.builder)(src, w, *rest, name=None if beside else node.name, **attrs)
    return result, LayerReport(node.name, dtype, scale, zero_point, tuple(scales.tolist()), node.kind, inf)


def _bias(graph: Graph, array: Any, scale: float, scales: Array) -> Value:
    """A bias as multiples of the products of both scales, which QDQ models have as s32."""
    products = np.resize(np.float32(scale) * scales, array.shape)
    levels = np.rint(array / products)
    return graph.constant(np.where(np.abs(levels) < 2**31, levels * products, array).astype(np.float32))


def _columns(node: Node) -> Array:
    """Weights of a MatMul as (IC, OC)."""
    weights = node.inputs[1].constant
    assert weights is not None
    return np.ascontiguousarray(weights.T) if node.attrs["transpose_b"] else weights


def _in_order(node: Node, target: str) -> tuple[Array, int]:
    """Weights of a convolution in the order `target`, and the axis of their output channels."""
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
    return array, channel_axes(target, array.ndim)[1]
