"""Dynamic quantization written apart: products of integers, scaled by what the call tells, as products of floats after
a DequantizeLinear of each operand.

Source: the ONNX operators DynamicQuantizeLinear, MatMulInteger and ConvInteger, as ONNX Runtime's `quantize_dynamic`
writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..reading.node import Array, OnnxNode
from .functions import fresh_names, names_of

# the operator of floats, and the axis of the weights that the result's channels lie on
_PRODUCTS = {"MatMulInteger": ("MatMul", -1), "ConvInteger": ("Conv", 0)}
_FLOAT = 1
# the opset of DequantizeLinear with an axis
_BY_CHANNEL = 13


class _Scaled(NamedTuple):
    """cast(product of src and weights) times (scale of src times scale of weights): the nodes, and the last scale."""

    product: OnnxNode
    cast: OnnxNode
    ranged: OnnxNode
    weights_scale: str


def written_apart(
    nodes: Sequence[OnnxNode], arrays: Mapping[str, Array], opset: int, others: Iterable[str]
) -> tuple[list[OnnxNode], dict[str, Array]]:
    """Returns the nodes, those of dynamic quantization written apart, and the arrays that these read in addition.

    Args:
        arrays: what is known, by name.
        opset: of the model's operators.
        others: names of the model's inputs and outputs.
    """
    if not any(_type(node) in _PRODUCTS for node in nodes):
        return list(nodes), {}
    others = tuple(others)
    makers = {name: node for node in nodes for name in node.outputs}
    reads = Counter([*others, *(name for node in nodes for name in node.reads)])
    fresh = fresh_names((*others, *names_of(nodes)))
    found: list[OnnxNode] = []
    gone: set[str] = set()
    more: dict[str, Array] = {}
    for node in nodes:
        parts = _parts(node, makers, arrays)
        if parts is None or any(reads[one.outputs[0]] > 1 for one in parts[:2]):
            found.append(node)
        else:
            made, numbers = _in_floats(node, parts, arrays, opset, fresh)
            found += made
            more |= numbers
            gone.update(one.outputs[0] for one in parts[:2])
    return [node for node in found if gone.isdisjoint(node.outputs)], more


def _parts(node: OnnxNode, makers: Mapping[str, OnnxNode], arrays: Mapping[str, Array]) -> _Scaled | None:
    """Returns the product that a Mul scales; None if it is no such product, or its weights are unknown."""
    if _type(node) != "Mul":
        return None
    cast, scales = sorted((makers.get(name) for name in node.inputs), key=lambda one: _type(one) != "Cast")
    if cast is None or scales is None or (_type(cast), _type(scales)) != ("Cast", "Mul"):
        return None
    product = makers.get(cast.inputs[0])
    if product is None or _type(product) not in _PRODUCTS or cast.attrs.get("to") != _FLOAT:
        return None
    src, weights, *points = (*product.inputs, "", "")[:4]
    ranged = makers.get(src)
    if ranged is None or _type(ranged) != "DynamicQuantizeLinear":
        return None
    rest = [name for name in scales.inputs if name != ranged.outputs[1]]
    if (src, points[0]) != (ranged.outputs[0], ranged.outputs[2]) or len(rest) != 1:
        return None
    known = all(name in arrays for name in (weights, rest[0], points[1] or weights))
    return _Scaled(product, cast, ranged, rest[0]) if known and _fits(product, arrays, rest[0]) else None


def _fits(product: OnnxNode, arrays: Mapping[str, Array], scale: str) -> bool:
    """Whether the weights' scale and zero point are single numbers, or lie along the result's channels."""
    weights, numbers, point = arrays[product.inputs[1]], arrays[scale], arrays.get("".join(product.inputs[3:]))
    if weights.ndim < 2 or (point is not None and point.size not in (1, numbers.size)):
        return False
    axis = _PRODUCTS[product.op_type][1] % weights.ndim
    along = (weights.shape[axis], *(1,) * (max(weights.ndim - 2, 0) if axis == 0 else 0))
    return numbers.size == 1 or numbers.shape in (along, (1, *along))


def _in_floats(
    node: OnnxNode, parts: _Scaled, arrays: Mapping[str, Array], opset: int, fresh: Callable[[str], str]
) -> tuple[list[OnnxNode], dict[str, Array]]:
    product, kind = parts.product, _PRODUCTS[parts.product.op_type]
    weights = product.inputs[1]
    floats = [fresh(name) for name in product.inputs[:2]]
    axis = kind[1] % arrays[weights].ndim
    # vectors of one length, as DequantizeLinear has them
    scales = arrays[parts.weights_scale].reshape(-1)
    more = {fresh(parts.weights_scale): scales}
    more |= {fresh(name): np.resize(arrays[name], scales.shape) for name in product.inputs[3:] if name}

    def dequantized(inputs: Sequence[str], output: str, attrs: Mapping[str, int]) -> OnnxNode:
        name, version = f"{product.name}/DequantizeLinear", max(opset, _BY_CHANNEL)
        return OnnxNode(name, "DequantizeLinear", "", "", version, tuple(inputs), (output,), attrs, node.source)

    made = [
        dequantized(parts.ranged.outputs, floats[0], {}),
        dequantized((weights, *more), floats[1], {"axis": axis}),
        replace(product, op_type=kind[0], inputs=tuple(floats), outputs=node.outputs, opset=opset),
    ]
    return made, more


def _type(node: OnnxNode | None) -> str:
    return "" if node is None or node.domain else node.op_type
