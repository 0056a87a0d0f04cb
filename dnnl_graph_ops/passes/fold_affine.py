"""Folds constant scales and shifts of a convolution's channels into its weights and bias."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph import Node, Value
from ..graph.constants import Constant
from ..ir import GraphView, Twin, constant_like, conv_twin, like, linked, twin
from ..ir.rewrites import ALONE, NOT_RETURNED, READ_ONCE, Rewrite
from ..schema import kinds
from ..shapes import Attributes
from ..shapes.common import channel_axes, channel_axis

Array = np.ndarray[Any, Any]
# scale and shift of each channel of a result y, in float64: scale * y + shift
Affine = tuple[Array, Array]

_HEADS = kinds("convolves")
F32 = "all tensors are in f32"
OPERANDS = "the op's other operands are constant"
FINITE = "scale and shift are finite"
_BY_CHANNEL = "the constants have one value per channel"
FOLD_AFFINE = Rewrite(
    "fold_affine",
    "an op that scales or shifts the channels of a Convolution or ConvTranspose is part of its weights and bias",
    (
        "the convolution's weights and bias are constant",
        F32,
        *ALONE,
        "both ops have one data format",
        "the result has the operand's shape",
        OPERANDS,
        _BY_CHANNEL,
        FINITE,
    ),
)
DECOMPOSE_BATCH_NORM = Rewrite(
    "decompose_batch_norm",
    "a BatchNormInference runs as a Multiply and an Add",
    (F32, OPERANDS, FINITE),
)


def run(graph: GraphView) -> None:
    """Folds constant scales and shifts that follow a convolution into its weights and bias.

    Only in f32: weights in other dtypes would be rounded once more.
    """
    affines: dict[Node, Affine] = {}  # convolution -> the scale and shift to be folded into it
    for node in graph:
        if node.kind not in READERS:
            continue
        makers = (value.node for value in node.inputs[:2])
        head = next((maker for maker in makers if maker is not None and maker in graph and maker.kind in _HEADS), None)
        if head is None or not _absorbs(node, head, graph):
            continue
        affine = affine_of(FOLD_AFFINE, node, head.outputs[0], head.attrs["data_format"])
        if affine is None:
            continue
        FOLD_AFFINE.fired(node)
        folded = twin(head)
        folded.mark(node, folded=True)
        if head in affines:
            (first_scale, first_shift), (scale, shift) = affines.pop(head), affine
            affine = first_scale * scale, first_shift * scale + shift
        affines[folded] = affine
        graph.remove(node)
        graph.replace(head, folded, node.outputs)
    for head, affine in affines.items():
        graph.replace(head, _with(head, *affine))


def _absorbs(node: Node, head: Node, graph: GraphView) -> bool:
    """Whether `node` may be folded into the convolution `head`, whose result it reads; if not, reports why."""
    result = head.outputs[0]
    unmet = ""
    if not all(value.is_constant for value in head.inputs[1:]):
        unmet = "the convolution's weights and bias are constant"
    elif result.dtype != "f32":
        unmet = F32
    elif graph.reads(result) > 1:
        unmet = READ_ONCE
    elif result in graph.returned:
        unmet = NOT_RETURNED
    elif "data_format" in node.attrs and node.attrs["data_format"] != head.attrs["data_format"]:
        unmet = "both ops have one data format"
    elif node.outputs[0].shape != result.shape:
        unmet = "the result has the operand's shape"
    if unmet:
        FOLD_AFFINE.declined(node, unmet)
    return not unmet


def decompose_batch_norm(graph: GraphView) -> None:
    """Replaces a batch norm with constant operands by a Multiply and an Add, which may join element-wise groups."""
    for node in graph:
        if node.kind != "BatchNormInference":
            continue
        if node.outputs[0].dtype != "f32":
            DECOMPOSE_BATCH_NORM.declined(node, F32)
            continue
        affine = affine_of(DECOMPOSE_BATCH_NORM, node, node.inputs[0], node.attrs["data_format"])
        if affine is None:
            continue
        DECOMPOSE_BATCH_NORM.fired(node)
        src, gamma = node.inputs[:2]
        shape = (-1, *(1,) * (src.ndim - 2)) if node.attrs["data_format"] == "NCX" else (-1,)
        scale, shift = (constant_like(gamma, vector.reshape(shape)) for vector in affine)
        attrs = {"auto_broadcast": "numpy"}
        product = linked(Node(node.id, "Multiply", node.name, (src, scale), attrs), [like(node.outputs[0], "f32")])
        graph.insert(product, before=node)
        graph.replace(node, twin(node, "Add", (*product.outputs, shift), attrs))


def affine_of(rewrite: Rewrite, node: Node, result: Value, data_format: str) -> Affine | None:
    """Returns the scale and shift that a node applies to channels of `result`; None if they are not finite constants.

    `result`: the operand of the node that is scaled and shifted. With None the unmet condition is reported.
    """
    axis = channel_axis(result.ndim, data_format)
    vectors = []
    for value in node.inputs:
        if value is result:
            continue
        if value.constant is None:
            return rewrite.declined(node, OPERANDS)
        # ops with a data_format read vectors of channels, whose axis is as in the format; others broadcast operands
        vector = _by_channel(value.constant, result, axis, "data_format" in node.attrs)
        if vector is None:
            return rewrite.declined(node, _BY_CHANNEL)
        vectors.append(vector)
    channels = int(result.shape[axis] or 0)
    with np.errstate(invalid="ignore", over="ignore"):
        scale, shift = READERS[node.kind](node, *(np.broadcast_to(vector, (channels,)) for vector in vectors))
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        return rewrite.declined(node, FINITE)
    return scale, shift


def _by_channel(array: Array, result: Value, axis: int, named: bool) -> Array | None:
    """Returns a constant that is the same at all positions as a vector, one number a channel or one for all, else None.

    `named`: the op has a data_format, so that a vector always lies along the channels.
    """
    if array.size not in (1, result.shape[axis]):
        return None
    # axes are counted from the last one, as NumPy broadcasts them
    along = array.ndim + axis - result.ndim
    if array.size > 1 and not named and (along < 0 or array.shape[along] != array.size):
        return None
    return array.astype(np.float64).reshape(-1)


def _batch_norm(node: Node, gamma: Array, beta: Array, mean: Array, variance: Array) -> Affine:
    scale = gamma / np.sqrt(variance + node.attrs["epsilon"])
    return scale, beta - mean * scale


def _sum(node: Node, term: Array) -> Affine:
    return np.ones_like(term), term


# by the kind of op that a convolution takes over
READERS: dict[str, Callable[..., Affine]] = {
    "Add": _sum,
    "BatchNormInference": _batch_norm,
    "BiasAdd": _sum,
    "Multiply": lambda node, factor: (factor, np.zeros_like(factor)),
}


def _with(head: Node, scale: Array, shift: Array) -> Node:
    """Returns the convolution with weights and bias changed so that its result is scaled and shifted."""
    assert isinstance(head.attrs, Attributes)
    held = held_of(head)
    if (scale != 1).any():
        read, made = channel_axes(head.attrs.weights_format, head.inputs[1].ndim)
        held = scaled(held, along_weights(head.inputs[1].shape, made, read, head.attrs.groups, scale))
    return with_constants(head, held, bias_of(head) * scale + shift)


def held_of(head: Node) -> Constant:
    """Returns the weights of a convolution, which are constant."""
    held = head.inputs[1]._held
    assert held is not None
    return held


def bias_of(head: Node) -> Array:
    """Returns the bias of a convolution, which is constant, in float64; zeros if it has none."""
    if len(head.inputs) > 2:
        return np.asarray(head.inputs[2].constant, np.float64)
    result = head.outputs[0]
    return np.zeros(int(result.shape[channel_axis(result.ndim, head.attrs["data_format"])] or 0))


def with_constants(head: Node, held: Constant, bias: Array) -> Twin:
    """Returns a twin of a convolution with other weights and another bias."""
    src, weights, *rest = head.inputs
    if held is not weights._held:
        weights = like(weights)
        weights._held = held
    return conv_twin(head, (src, weights, constant_like(rest[0] if rest else weights, bias)))


def scaled(weights: Constant, factors: Array) -> Constant:
    """Returns weights times factors as a constant that is computed when its elements are needed."""

    def products(array: Array) -> Array:
        # each product is rounded once from float64, without a float64 copy of all products
        rounded = np.empty(array.shape, np.float32)
        return np.multiply(array, factors, out=rounded, casting="same_kind")

    return weights.derived(("scaled", factors.shape, factors.tobytes()), products, weights.shape)


def along_weights(shape: Sequence[int | None], own: int, other: int, groups: int, scale: Array) -> Array:
    """Returns `scale`, a factor for each channel read or made, in a shape that broadcasts over weights of `shape`.

    own: the axis of the channels that `scale` is for, other: that of the others. One of both has the channels of all
    groups, the other those of one group.
    """
    sizes = [1] * len(shape)
    if shape[own] == len(scale):
        sizes[own] = len(scale)
        return scale.reshape(sizes)
    sizes[other], sizes[own] = int(shape[other] or 0), len(scale) // groups
    matrix = np.repeat(scale.reshape(groups, -1), sizes[other] // groups, axis=0)
    return (matrix if other < own else matrix.T).reshape(sizes)
