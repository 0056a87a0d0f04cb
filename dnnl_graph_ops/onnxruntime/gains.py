"""Which nodes this package computes faster than ONNX Runtime: a table of operators, and multiply-adds of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .session_graph import SessionGraph

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_PRODUCTS = frozenset({"MatMul", "Gemm"})
# operators that run beside convolutions: element-wise, norms, pooling, resizing, and movement
_NEIGHBOURS = frozenset({
    "Abs", "Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Concat", "DepthToSpace", "DequantizeLinear",
    "Div", "Elu", "Erf", "Exp", "Expand", "Flatten", "Gather", "Gelu", "GlobalAveragePool", "GlobalMaxPool",
    "GroupNormalization", "HardSigmoid", "HardSwish", "Identity", "InstanceNormalization", "LayerNormalization",
    "LeakyRelu", "Log", "Max", "MaxPool", "Min", "Mish", "Mul", "Neg", "PRelu", "Pad", "Pow", "QuantizeLinear",
    "ReduceMax", "ReduceMean", "ReduceSum", "Relu", "Reshape", "Resize", "Selu", "Shape", "Sigmoid", "Slice",
    "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose",
    "Unsqueeze", "Upsample",
})  # fmt: skip
# multiply-adds of convolutions below which the call of a group is not worth it
_FEWEST = 2e6
# and those for each element that crosses the border of a group: a depthwise convolution between other nodes has fewer
_FEWEST_OF_ELEMENT = 40
# the size that estimates take for an unknown dim
_USUAL = 64


def may_gain(graph: SessionGraph, number: int, products: bool) -> bool:
    """Whether a node may be in a group; `products`: whether matrix products may."""
    _, kind, domain, *_ = graph.nodes[number]
    taken = kind in _CONVOLUTIONS or kind in _NEIGHBOURS or (products and kind in _PRODUCTS)
    return domain in ("", "ai.onnx") and taken


def _sizes(graph: SessionGraph, name: str) -> list[int]:
    return [_USUAL if dim is None else dim for dim in graph.values[name][1] or ()]


def _work(graph: SessionGraph, number: int) -> tuple[float, float]:
    """Returns the estimated multiply-adds of a node: of convolutions, and of matrix products."""
    _, kind, _, inputs, _, outputs, attrs = graph.nodes[number]
    if kind in _CONVOLUTIONS:
        # each weight meets every position of the tensor that has the taps' results
        positions = _sizes(graph, outputs[0] if kind == "Conv" else inputs[0])
        return math.prod(_sizes(graph, inputs[1])) * math.prod(positions[:1] + positions[2:]), 0.0
    if kind in _PRODUCTS:
        rows = _sizes(graph, inputs[0])
        summed = rows[0] if attrs.get("transA") else (rows or [1])[-1]
        return 0.0, math.prod(_sizes(graph, outputs[0])) * summed
    return 0.0, 0.0


def _border(graph: SessionGraph, numbers: Sequence[int]) -> float:
    """Returns the elements of the tensors that a group reads of others, or makes for others."""
    made = set(graph.produced(numbers))
    read = {name for i in numbers for name in graph.nodes[i][3] if name and name not in made}
    crossing = {name for name in read if not graph.is_known(name)}.union(graph.results(numbers))
    return float(sum(math.prod(_sizes(graph, name)) for name in crossing))


def gains(graph: SessionGraph, numbers: Sequence[int]) -> bool:
    """Whether a group is worth its call: convolutions are enough work, and most of it."""
    work = [_work(graph, i) for i in numbers]
    convolutions, products = (sum(some) for some in zip(*work, strict=True))
    if convolutions < _FEWEST or convolutions < products:
        return False
    return convolutions >= _FEWEST_OF_ELEMENT * _border(graph, numbers)
