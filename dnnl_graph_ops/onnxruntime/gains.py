"""Which nodes this package computes faster than ONNX Runtime: a table of operators, and the time that groups save."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .session_graph import SessionGraph

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_PRODUCTS = frozenset({"MatMul", "Gemm"})
# operators that run with convolutions: element-wise, norms, pooling, resizing, and movement
_NEIGHBOURS = frozenset({
    "Abs", "Add", "AveragePool", "BatchNormalization", "Cast", "Celu", "Clip", "Concat", "Cos", "DepthToSpace",
    "DequantizeLinear", "Div", "Elu", "Erf", "Exp", "Expand", "Flatten", "Gather", "Gelu", "GlobalAveragePool",
    "GlobalMaxPool", "GroupNormalization", "HardSigmoid", "HardSwish", "Identity", "InstanceNormalization",
    "LayerNormalization", "LeakyRelu", "Log", "Max", "MaxPool", "Mean", "Min", "Mish", "Mul", "Neg", "PRelu", "Pad",
    "Pow", "QuantizeLinear", "Reciprocal", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum",
    "ReduceSumSquare", "Relu", "Reshape", "Resize", "Selu", "Shape", "Sigmoid", "Sin", "Slice", "Softmax",
    "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Tile", "Transpose",
    "Unsqueeze", "Upsample",
})  # fmt: skip
# those that compute nothing, and take no time in ONNX Runtime either
_FREE = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze"})
# Picoseconds that a group saves for each multiply-add of a convolution by class, against ONNX Runtime 1.32, and takes
# for each element that crosses its border: lines through the times of 30 single layers, and of the zoo, on one thread
# of a CPU with AVX-512.
_SAVED = {"Conv": 5.0, "pointwise Conv": 3.0, "ConvTranspose": 5.0, "overlapping ConvTranspose": 8.0}
_CROSSING = 1000.0
# and saves for each element of what operators between convolutions and matrix products compute, as they are fused, and
# as channels stay last
_PASSED = 300.0
# the least that a group saves for each multiply-add of its matrix products, where those are most of its work: products
# themselves are about as fast in both
_PRODUCTS_SAVE = 2.0
# and for a call
_CALL = 5e6
# elements of weights that do not stay in a core's cache between calls
_FROM_MEMORY = 1 << 20
# the size that estimates take for an unknown dim
_USUAL = 64


def may_gain(graph: SessionGraph, number: int, products: bool) -> bool:
    """Whether a node may be in a group; `products`: whether matrix products may."""
    _, kind, domain, *_ = graph.nodes[number]
    taken = kind in _CONVOLUTIONS or kind in _NEIGHBOURS
    if products and kind in _PRODUCTS:
        taken = not _reads_weights(graph, number)
    return domain in ("", "ai.onnx") and taken


def _sizes(graph: SessionGraph, name: str) -> list[int]:
    return [_USUAL if dim is None else dim for dim in graph.values[name][1] or ()]


def _reads_weights(graph: SessionGraph, number: int) -> bool:
    """Whether a matrix product of one row reads weights from memory, in which ONNX Runtime takes 0.7 of the time."""
    _, _, _, inputs, _, outputs, _ = graph.nodes[number]
    return math.prod(_sizes(graph, outputs[0])[:-1]) == 1 and math.prod(_sizes(graph, inputs[1])) >= _FROM_MEMORY


def _class(graph: SessionGraph, number: int) -> str:
    """Returns the class of a convolution, by its kernel and strides."""
    _, kind, _, inputs, _, _, attrs = graph.nodes[number]
    kernel = _sizes(graph, inputs[1])[2:]
    if kind == "Conv":
        return "pointwise Conv" if math.prod(kernel) == 1 else kind
    strides = attrs.get("strides") or [1] * len(kernel)
    return f"overlapping {kind}" if any(k > s for k, s in zip(kernel, strides, strict=False)) else kind


def _work(graph: SessionGraph, number: int) -> tuple[float, float, float]:
    """Returns the estimated multiply-adds of a node, of convolutions and of matrix products, and the time it saves."""
    _, kind, _, inputs, _, outputs, attrs = graph.nodes[number]
    if kind in _CONVOLUTIONS:
        # each weight meets every position of the tensor that has the taps' results
        positions = _sizes(graph, outputs[0] if kind == "Conv" else inputs[0])
        count = math.prod(_sizes(graph, inputs[1])) * math.prod(positions[:1] + positions[2:])
        return count, 0.0, count * _SAVED[_class(graph, number)]
    if kind in _PRODUCTS:
        rows = _sizes(graph, inputs[0])
        summed = rows[0] if attrs.get("transA") else (rows or [1])[-1]
        return 0.0, math.prod(_sizes(graph, outputs[0])) * summed, 0.0
    return 0.0, 0.0, 0.0 if kind in _FREE else math.prod(_sizes(graph, outputs[0])) * _PASSED


def _border(graph: SessionGraph, numbers: Sequence[int]) -> float:
    """Returns the elements of the tensors that a group reads of others, or makes for others."""
    made = set(graph.produced(numbers))
    read = {name for i in numbers for name in graph.nodes[i][3] if name and name not in made}
    crossing = {name for name in read if not graph.is_known(name)}.union(graph.results(numbers))
    return float(sum(math.prod(_sizes(graph, name)) for name in crossing))


def gains(graph: SessionGraph, numbers: Sequence[int]) -> bool:
    """Whether a group with convolutions saves more than its call and its border take."""
    convolutions, products, saved = (sum(some) for some in zip(*(_work(graph, i) for i in numbers), strict=True))
    least = 0.0 if convolutions >= products else _PRODUCTS_SAVE * products
    return convolutions > 0 and saved >= max(least, _CALL + _CROSSING * _border(graph, numbers))
