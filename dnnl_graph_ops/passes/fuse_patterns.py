"""Replaces patterns of ops, as exporters write them, by the one op that they stand for.

A rule looks at the last node of a pattern and back from this node. It returns the op to put in the place of the
pattern, whose inner results nobody else may read. Results are the same up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..graph import Node, Value
from ..ir import GraphView, changes_of, constant_like, dims, scalar, twin
from ..ir.rewrites import ALONE, NOT_RETURNED, READ_ONCE, No, Rewrite
from ..shapes.common import channel_axis

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


FUSE_NORM_AFFINE = Rewrite(
    "fuse_norm_affine",
    "a Multiply or Add of constants after a LayerNorm or GroupNorm is part of its scale and shift",
    (
        "each op of the pattern has one result",
        *ALONE,
        "the result has the operand's shape",
        "the norm is a GroupNorm, or over the last axis",
        "the constant varies along the axis of the norm's scale only",
        "the norm's scale and shift are constant",
    ),
)
FUSE_GROUP_NORM = Rewrite(
    "fuse_group_norm",
    "a reshape to groups, a norm of each and the reshape back are one GroupNorm",
    (
        "each op of the pattern has one result",
        *ALONE,
        "source and result are images of one shape",
        "the reshape keeps the batch axis",
        "the norm is over all elements of a group",
        "the groups divide the channels",
        "the norm's scale and shift are constant",
    ),
)
FUSE_LAYER_NORM = Rewrite(
    "fuse_layer_norm",
    "a distance from a mean over the root of its mean square is one LayerNorm or GroupNorm",
    (
        *ALONE,
        "the squared tensor is the distance from the mean",
        "the mean is subtracted from its own operand",
        "epsilon is one number",
        "both means keep their axes",
        "both means have the same axes",
        "the result has the operand's shape",
        "a LayerNorm or GroupNorm has the means' axes",
    ),
)
FUSE_RMS_NORM = Rewrite(
    "fuse_rms_norm",
    "an operand over the root of its mean square is one RMSNorm",
    (
        *ALONE,
        "the squared tensor is the operand",
        "the Pow divides by a square root",
        "epsilon is one number",
        "the mean keeps its axes",
        "the mean is over the last axis",
        "the result has the operand's shape",
    ),
)
FUSE_RMS_SCALE = Rewrite(
    "fuse_rms_scale",
    "a Multiply by a vector after an RMSNorm is its scale",
    (
        *ALONE,
        "the norm has no scale",
        "the scale varies along the last axis only",
        "the result has the operand's shape",
    ),
)
FUSE_SOFTPLUS = Rewrite(
    "fuse_softplus",
    "a Select of x where x is large, and of SoftPlus(x) elsewhere, is a SoftPlus",
    (
        *ALONE,
        "operand, condition and SoftPlus read one tensor",
        "the threshold is one number",
        "beta is above zero",
        "SoftPlus is its operand from the threshold on",
    ),
)


class Match(NamedTuple):
    """The op that replaces a pattern: its kind, inputs and attributes; `parts`: the pattern's nodes but the last."""

    kind: str
    inputs: tuple[Value, ...]
    attrs: Attrs
    parts: tuple[Node, ...]


# (value, kinds, reads) -> the node of one of the kinds that computes the value for just so many readers
Maker = Callable[..., Node | None]
Rule = Callable[[Node, Maker, No], Match | None]


def _maker(graph: GraphView, no: No, value: Value, *kinds: str, reads: int = 1) -> Node | None:
    """Returns the node of one of the kinds that computes `value` for just `reads` readers; None if there is none.

    A node of the right kind whose result is also read elsewhere, or returned, is reported to `no`.
    """
    node = value.node
    if node is None or node.kind not in kinds:
        return None
    if len(node.outputs) > 1:
        return no("each op of the pattern has one result")
    if graph.reads(value) != reads:
        return no(READ_ONCE)
    return no(NOT_RETURNED) if value in graph.returned else node


def run(graph: GraphView) -> None:
    """Puts one op in the place of every pattern that matches a rule."""
    for node in graph:
        for rewrite, rule in RULES.get(node.kind, ()):
            no = partial(rewrite.declined, node)
            match = rule(node, partial(_maker, graph, no), no)
            if match is not None:
                rewrite.fired(node)
                fused = twin(node, match.kind, match.inputs, match.attrs)
                gone = (*match.parts, node)
                absorbed = tuple(one for part in gone for one in (*changes_of(part).absorbed, part))
                folded = any(changes_of(part).folded for part in gone)
                fused.changes = fused.changes._replace(absorbed=absorbed, folded=folded)
                graph.replace(node, fused)
                graph.remove(*match.parts)
                break


# ---- operands --------------------------------------------------------------------------------------------------------


def _operand_and_constant(node: Node) -> tuple[Value, Array] | None:
    """Returns the variable operand and the constant one of a commutative op; None if not just one is constant."""
    first, second = node.inputs
    for value, other in ((first, second), (second, first)):
        if other.constant is not None and value.constant is None:
            return value, other.constant
    return None


def _along(array: Array, ndim: int, axis: int, size: int) -> Array | None:
    """Returns a constant that varies along one axis only, as a vector (size,) of this axis; None for any other."""
    if array.ndim > ndim:
        return None
    full = array.reshape((1,) * (ndim - array.ndim) + array.shape)
    if any(n != 1 for a, n in enumerate(full.shape) if a != axis) or full.shape[axis] not in (1, size):
        return None
    return np.broadcast_to(full.reshape(-1), (size,))


# ---- scale and shift after a norm ------------------------------------------------------------------------------------


def _vectors(no: No, norm: Node, size: int) -> tuple[Array, Array] | None:
    """Returns scale and shift of a norm as float64 vectors (size,); None, with a report, if they are not constant."""
    if not norm.attrs["use_affine"]:
        return np.ones(size), np.zeros(size)
    gamma, beta = (value.constant for value in norm.inputs[1:3])
    if gamma is None or beta is None:
        return no("the norm's scale and shift are constant")
    return gamma.astype(np.float64), beta.astype(np.float64)


def _last_axis(norm: Node) -> int | None:
    """Returns the axis that scale and shift of a norm lie along; None if they lie along several axes."""
    src = norm.inputs[0]
    if norm.kind == "GroupNorm":
        return channel_axis(src.ndim, norm.attrs["data_format"])
    return src.ndim - 1 if norm.attrs["begin_norm_axis"] % src.ndim == src.ndim - 1 else None


def _affine(node: Node, maker: Maker, no: No) -> Match | None:
    """Matches a Multiply or Add of a constant after a norm, which becomes part of the norm's scale and shift."""
    pair = _operand_and_constant(node)
    norm = None if pair is None else maker(pair[0], "GroupNorm", "LayerNorm")
    if pair is None or norm is None:
        return None
    if node.outputs[0].shape != norm.outputs[0].shape:
        return no("the result has the operand's shape")
    src, axis = norm.inputs[0], _last_axis(norm)
    if axis is None:
        return no("the norm is a GroupNorm, or over the last axis")
    size = dims(src)[axis]
    vector = _along(pair[1], src.ndim, axis, size)
    if vector is None:
        return no("the constant varies along the axis of the norm's scale only")
    vectors = _vectors(no, norm, size)
    if vectors is None:
        return None
    scale, shift = vectors
    wide = vector.astype(np.float64)
    scale, shift = (scale * wide, shift * wide) if node.kind == "Multiply" else (scale, shift + wide)
    like = node.inputs[0] if node.inputs[0].constant is not None else node.inputs[1]
    inputs = (src, constant_like(like, scale), constant_like(like, shift))
    return Match(norm.kind, inputs, {**norm.attrs, "use_affine": True}, (norm,))


# ---- group norm ------------------------------------------------------------------------------------------------------


def _group_attrs(groups: int, epsilon: float) -> Attrs:
    return {"groups": groups, "keep_stats": False, "use_affine": False, "epsilon": epsilon, "data_format": "NCX"}


def _reshaped_norm(node: Node, maker: Maker, no: No) -> Match | None:
    """Matches a reshape from (N, C, ...) to (N, G, ...), a norm of each of G parts, and a reshape back: GroupNorm."""
    norm = maker(node.inputs[0], "GroupNorm", "LayerNorm")
    there = None if norm is None else maker(norm.inputs[0], "StaticReshape")
    if norm is None or there is None:
        return None
    src, parts = there.inputs[0], there.outputs[0]
    if not 3 <= src.ndim <= 5 or parts.ndim < 3 or node.outputs[0].shape != src.shape:
        return no("source and result are images of one shape")
    if parts.shape[0] != src.shape[0]:
        return no("the reshape keeps the batch axis")
    channels, count = dims(src)[1], dims(parts)[1]
    attrs = norm.attrs
    layer = norm.kind == "LayerNorm"
    if layer and (attrs["begin_norm_axis"] % parts.ndim != 2 or attrs["use_affine"]):
        return no("the norm is over all elements of a group")
    if not layer and attrs["data_format"] != "NCX":
        return no("the norm is over all elements of a group")
    groups = count if layer else attrs["groups"]
    if not channels or not count or channels % count or channels % groups:
        return no("the groups divide the channels")
    attributes = _group_attrs(groups, attrs["epsilon"])
    if not attrs["use_affine"]:
        return Match("GroupNorm", (src,), attributes, (there, norm))
    vectors = _vectors(no, norm, count)
    if vectors is None:
        return None
    each = (constant_like(norm.inputs[1], np.repeat(vector, channels // count)) for vector in vectors)
    return Match("GroupNorm", (src, *each), {**attributes, "use_affine": True}, (there, norm))


# ---- a norm in parts -------------------------------------------------------------------------------------------------


def _mean_square(value: Value, maker: Maker) -> tuple[Node, Node, Node, Array] | None:
    """Matches the mean of a square plus a constant; returns the square, the mean, the Add and the constant."""
    total = maker(value, "Add")
    pair = None if total is None else _operand_and_constant(total)
    mean = None if pair is None else maker(pair[0], "ReduceMean")
    square = None if mean is None else maker(mean.inputs[0], "Square", "Pow", "Multiply")
    return None if total is None or pair is None or mean is None or square is None else (square, mean, total, pair[1])


def _divided(node: Node, maker: Maker, no: No) -> Match | None:
    """Matches (x - mean) / sqrt(mean of (x - mean)^2 + epsilon) over the last axes: a LayerNorm or GroupNorm."""
    deviation = maker(node.inputs[1], "Sqrt")
    under_root = None if deviation is None else _mean_square(deviation.inputs[0], maker)
    if deviation is None or under_root is None:
        return None
    square, variance, total, epsilon = under_root
    if not _is_square(square, node.inputs[0]):
        return no("the squared tensor is the distance from the mean")
    distance = maker(node.inputs[0], "Subtract", reads=3 if square.kind == "Multiply" else 2)
    mean = None if distance is None else maker(distance.inputs[1], "ReduceMean")
    if distance is None or mean is None:
        return None
    src = distance.inputs[0]
    if mean.inputs[0] is not src:
        return no("the mean is subtracted from its own operand")
    if epsilon.size != 1:
        return no("epsilon is one number")
    axes = _axes(mean)
    if axes is None or _axes(variance) is None:
        return no("both means keep their axes")
    if axes != _axes(variance):
        return no("both means have the same axes")
    if node.outputs[0].shape != src.shape:
        return no("the result has the operand's shape")
    norm = _norm_over(src, axes, float(epsilon.reshape(-1)[0]))
    if norm is None:
        return no("a LayerNorm or GroupNorm has the means' axes")
    return Match(*norm, (mean, distance, square, variance, total, deviation))


def _is_square(node: Node, of: Value) -> bool:
    if node.kind == "Pow":
        return node.inputs[0] is of and node.attrs["beta"] == 2
    return all(value is of for value in node.inputs)


def _axes(node: Node) -> tuple[int, ...] | None:
    """Returns the axes of a mean that keeps them with size 1; None for other means."""
    axes = node.attrs.get("axes")
    if not node.attrs["keep_dims"] or len(node.inputs) > 1 or not axes:
        return None
    return tuple(sorted(axis % node.inputs[0].ndim for axis in axes))


def _norm_over(src: Value, axes: tuple[int, ...], epsilon: float) -> tuple[str, tuple[Value, ...], Attrs] | None:
    last = src.ndim - 1
    if axes == (last,) and src.ndim >= 2:
        attrs = {"keep_stats": False, "use_affine": False, "begin_norm_axis": -1, "epsilon": epsilon}
        return "LayerNorm", (src,), attrs
    if not 3 <= src.ndim <= 5 or not prod(src.shape):  # type: ignore[arg-type]
        return None
    groups = {tuple(range(2, last + 1)): dims(src)[1], tuple(range(1, last + 1)): 1}.get(axes)
    return None if groups is None else ("GroupNorm", (src,), _group_attrs(groups, epsilon))


# ---- layers divided by the root of their mean square -----------------------------------------------------------------


def _by_root(node: Node, maker: Maker, no: No) -> Match | None:
    """Matches x / sqrt(mean of x^2 + epsilon) over the last axis, also written with Reciprocal or Pow: an RMSNorm."""
    first, second = node.inputs
    candidates = ((first, second),) if node.kind == "Divide" else ((first, second), (second, first))
    return next(filter(None, (_root_of(node, src, other, maker, no) for src, other in candidates)), None)


def _root_of(node: Node, src: Value, by: Value, maker: Maker, no: No) -> Match | None:
    parts: list[Node] = []
    if node.kind == "Multiply":
        inverse = maker(by, "Reciprocal", "Pow")
        if inverse is None:
            return None
        if inverse.kind == "Pow" and inverse.attrs["beta"] != -0.5:
            return no("the Pow divides by a square root")
        parts.append(inverse)
        by = inverse.inputs[0]
    if not parts or parts[0].kind == "Reciprocal":
        root = maker(by, "Sqrt")
        if root is None:
            return None
        parts.append(root)
        by = root.inputs[0]
    under_root = _mean_square(by, maker)
    if under_root is None:
        return None
    square, mean, total, epsilon = under_root
    if epsilon.size != 1:
        return no("epsilon is one number")
    if not _is_square(square, src):
        return no("the squared tensor is the operand")
    axes = _axes(mean)
    if axes is None:
        return no("the mean keeps its axes")
    if axes != (src.ndim - 1,) or src.ndim < 2:
        return no("the mean is over the last axis")
    if node.outputs[0].shape != src.shape:
        return no("the result has the operand's shape")
    attrs = {"begin_norm_axis": -1, "epsilon": float(epsilon.reshape(-1)[0])}
    return Match("RMSNorm", (src,), attrs, (square, mean, total, *parts[::-1]))


def _scaled_root(node: Node, maker: Maker, no: No) -> Match | None:
    """Matches a Multiply of an RMSNorm by a vector, which becomes the scale of the RMSNorm."""
    for value, scale in (node.inputs, node.inputs[::-1]):
        norm = maker(value, "RMSNorm")
        if norm is None:
            continue
        if len(norm.inputs) > 1:
            no("the norm has no scale")
        elif node.outputs[0].shape != value.shape:
            no("the result has the operand's shape")
        elif scale.shape[-1:] != value.shape[-1:] or any(size != 1 for size in scale.shape[:-1]):
            no("the scale varies along the last axis only")
        else:
            return Match("RMSNorm", (norm.inputs[0], scale), dict(norm.attrs), (norm,))
    return None


# ---- softplus with a threshold ---------------------------------------------------------------------------------------

# from this x on log(1 + e^x) is x in f32
_SOFTPLUS_IS_X = 17.0


def _guarded_softplus(node: Node, maker: Maker, no: No) -> Match | None:
    """Matches x where x >= a threshold, else SoftPlus(x), as PyTorch exports it: a SoftPlus.

    From the threshold on, SoftPlus by builtin code is x as well.
    """
    condition, large, small = node.inputs
    compared = maker(condition, "GreaterEqual")
    function = None if compared is None else maker(small, "SoftPlus")
    if compared is None or function is None:
        return None
    least, beta = scalar(compared.inputs[1]), float(function.attrs.get("beta", 1.0))
    if compared.inputs[0] is not large or function.inputs[0] is not large:
        return no("operand, condition and SoftPlus read one tensor")
    if least is None:
        return no("the threshold is one number")
    if beta <= 0:
        return no("beta is above zero")
    if least * beta < _SOFTPLUS_IS_X:
        return no("SoftPlus is its operand from the threshold on")
    return Match("SoftPlus", (large,), dict(function.attrs), (compared, function))


# kind of the last node of a pattern -> the rewrites whose patterns may end with it
RULES: dict[str, tuple[tuple[Rewrite, Rule], ...]] = {
    "Add": ((FUSE_NORM_AFFINE, _affine),),
    "Divide": ((FUSE_LAYER_NORM, _divided), (FUSE_RMS_NORM, _by_root)),
    "Multiply": ((FUSE_NORM_AFFINE, _affine), (FUSE_RMS_NORM, _by_root), (FUSE_RMS_SCALE, _scaled_root)),
    "Select": ((FUSE_SOFTPLUS, _guarded_softplus),),
    "StaticReshape": ((FUSE_GROUP_NORM, _reshaped_norm),),
}
