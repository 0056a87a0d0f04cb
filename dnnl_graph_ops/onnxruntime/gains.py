"""Which nodes this package computes faster than ONNX Runtime: a table of operators, and the time that groups save."""

from __future__ import annotations

import math
import operator
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
# those that ONNX Runtime fuses with a convolution that they alone read; sums in 2-D only
_FUSED = frozenset({"Clip", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Tanh"})
# Picoseconds that a group saves for each multiply-add of a convolution by class, against ONNX Runtime 1.32, for each
# element of the columns that its ConvTranspose adds up, and takes for each element that crosses its border: lines
# through the times of 120 single layers, on one thread of a CPU with AVX-512, lowered until no slower layer is claimed.
_SAVED = {
    "Conv": 4.0, "1-D Conv": 3.0, "3-D Conv": 7.0, "dilated Conv": 1.0, "few-channel Conv": 0.0, "pointwise Conv": 0.0,
    "ConvTranspose": 3.0, "overlapping ConvTranspose": 5.0,
}  # fmt: skip
_COLUMNS = 1000.0
_CROSSING = 600.0
# channels of an input of few, and of a vector
_FEW, _VECTOR = 4, 16
# and saves for each element of what operators between convolutions and matrix products compute, as they are fused, and
# as channels stay last
_PASSED = 300.0
# the least that a group saves for each multiply-add of its matrix products, where those are most of its work: products
# themselves are about as fast in both
_PRODUCTS_SAVE = 2.0
# for a call; and for each multiply-add of convolutions: what estimates may be wrong by
_CALL = 5e6
_UNSURE = 0.5
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
    """Returns the class of a convolution, by its weights' shape, strides and dilations."""
    _, kind, _, inputs, _, _, attrs = graph.nodes[number]
    weights = _sizes(graph, inputs[1])
    kernel, ones = weights[2:], [1] * len(weights[2:])
    if kind == "ConvTranspose":
        classes = {"overlapping": any(map(operator.gt, kernel, attrs.get("strides") or ones))}
    else:
        classes = {
            "pointwise": math.prod(kernel) == 1,
            "few-channel": math.prod(weights[1:2]) <= _FEW and attrs.get("group", 1) == 1,
            "dilated": (attrs.get("dilations") or ones) != ones,
            f"{len(kernel)}-D": len(kernel) != 2,
        }
    name = next((name for name, holds in classes.items() if holds), "")
    return f"{name} {kind}".lstrip()


def _work(graph: SessionGraph, number: int) -> tuple[float, float, float]:
    """Returns the estimated multiply-adds of a node, of convolutions and of matrix products, and the time it saves."""
    _, kind, _, inputs, _, outputs, attrs = graph.nodes[number]
    if kind in _CONVOLUTIONS:
        weights = _sizes(graph, inputs[1])
        # each weight meets every position of the tensor that has the taps' results
        positions = _sizes(graph, outputs[0] if kind == "Conv" else inputs[0])
        count = math.prod(weights) * math.prod(positions[:1] + positions[2:])
        saved = count * _SAVED[_class(graph, number)]
        if kind == "ConvTranspose":
            groups = attrs.get("group", 1)
            channels = math.prod(weights[1:2]) * groups
            filled = channels / (math.ceil(channels / _VECTOR) * _VECTOR)
            saved += _COLUMNS * filled * groups * count / max(1, math.prod(weights[:1]))
        return count, 0.0, saved
    if kind in _PRODUCTS:
        rows = _sizes(graph, inputs[0])
        summed = rows[0] if attrs.get("transA") else (rows or [1])[-1]
        return 0.0, math.prod(_sizes(graph, outputs[0])) * summed, 0.0
    is_free = kind in _FREE or _is_fused(graph, number)
    return 0.0, 0.0, 0.0 if is_free else math.prod(_sizes(graph, outputs[0])) * _PASSED


def _is_fused(graph: SessionGraph, number: int) -> bool:
    """Whether ONNX Runtime computes a node within a convolution, too."""
    _, kind, _, inputs, _, outputs, _ = graph.nodes[number]
    fusable = kind in _FUSED or (kind == "Add" and len(_sizes(graph, outputs[0])) == 4)
    return fusable and any(
        name in graph.producers
        and graph.nodes[graph.producers[name]][1] == "Conv"
        and len(graph.readers.get(name, ())) == 1
        for name in inputs
    )


def _border(graph: SessionGraph, numbers: Sequence[int]) -> float:
    """Returns the elements of the tensors that a group reads of others, or makes for others."""
    made = set(graph.produced(numbers))
    read = {name for i in numbers for name in graph.nodes[i][3] if name and name not in made}
    crossing = {name for name in read if not graph.is_known(name)}.union(graph.results(numbers))
    return float(sum(math.prod(_sizes(graph, name)) for name in crossing))


def gains(graph: SessionGraph, numbers: Sequence[int]) -> bool:
    """Whether a group with convolutions surely saves more than its call and its border take."""
    convolutions, products, saved = (sum(some) for some in zip(*(_work(graph, i) for i in numbers), strict=True))
    least = 0.0 if convolutions >= products else _PRODUCTS_SAVE * products
    cost = _CALL + _CROSSING * _border(graph, numbers) + _UNSURE * convolutions
    return convolutions > 0 and saved >= max(least, cost)
