"""What exporters write in several ops and is one: groups of nodes that are replaced before anything is compiled.

A rule looks at a node and back from there, and says which node takes the place of it and of those behind it that nobody
else reads. The results are the same but for rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..graph import Node, Value
from ..lowering.matching import scalar
from ..shapes.common import channel_axis

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]

_FLOATS = frozenset({"f32", "bf16", "f16"})


class Match(NamedTuple):
    """A node that computes what some others do: its kind, inputs and attributes, and those before the last one."""

    kind: str
    inputs: tuple[Value, ...]
    attrs: Attrs
    parts: tuple[Node, ...]


class _Readers:
    """Who may be taken for a part: results that only the pattern reads."""

    def __init__(self, nodes: Sequence[Node], kept: Collection[Value]) -> None:
        self._count = Counter(value for node in nodes for value in node.inputs)
        self._kept = frozenset(kept)

    def maker(self, value: Value, *kinds: str, reads: int = 1) -> Node | None:
        """The node of one of the kinds that makes a value for its `reads` readers alone."""
        node = value.node
        if node is None or node.kind not in kinds or len(node.outputs) > 1:
            return None
        return node if self._count[value] == reads and value not in self._kept else None


Rule = Callable[[Node, _Readers], Match | None]


def replaced(nodes: Sequence[Node], kept: Collection[Value]) -> list[Node]:
    """The nodes with one in place of every match; `kept`: values that the net returns."""
    readers = _Readers(nodes, kept)
    found: dict[Node, Node] = {}  # what stands for a node
    for given in nodes:
        node = given
        match = next(filter(None, (rule(node, readers) for rule in RULES.get(node.kind, ()))), None)
        if match is not None:
            node = Node(given.id, match.kind, given.name, match.inputs, match.attrs)
            node.outputs = given.outputs
            given.outputs[0].node = node
            for part in match.parts:
                del found[part]
            node.absorbed = tuple(one for part in (*match.parts, given) for one in (*part.absorbed, part))
        found[node] = node
    return list(found)


# ---- operands --------------------------------------------------------------------------------------------------------


def _operand_and_constant(node: Node) -> tuple[Value, Array] | None:
    """Of an op of two operands that may change places, one of them constant."""
    first, second = node.inputs
    for value, other in ((first, second), (second, first)):
        if other.constant is not None and value.constant is None:
            return value, other.constant
    return None


def _along(array: Array, ndim: int, axis: int, size: int) -> Array | None:
    """A constant that an op spreads over all axes but one, as a vector of that axis."""
    if array.ndim > ndim:
        return None
    full = array.reshape((1,) * (ndim - array.ndim) + array.shape)
    if any(n != 1 for a, n in enumerate(full.shape) if a != axis) or full.shape[axis] not in (1, size):
        return None
    return np.broadcast_to(full.reshape(-1), (size,))


def _constant(like: Value, array: Array) -> Value:
    value = Value(like.graph, -1, array.shape, "f32", like.name)
    value.constant = np.ascontiguousarray(array, np.float32)
    return value


def _known(shape: Sequence[int | None]) -> bool:
    return all(size is not None for size in shape)


# ---- scale and shift behind a norm -----------------------------------------------------------------------------------


def _vectors(norm: Node, size: int) -> tuple[Array, Array] | None:
    """Scale and shift of a norm, in float64."""
    if not norm.attrs["use_affine"]:
        return np.ones(size), np.zeros(size)
    gamma, beta = (value.constant for value in norm.inputs[1:3])
    return None if gamma is None or beta is None else (gamma.astype(np.float64), beta.astype(np.float64))


def _last_axis(norm: Node) -> int | None:
    """The axis that scale and shift of a norm lie along, if it is one."""
    src = norm.inputs[0]
    if norm.kind == "GroupNorm":
        return channel_axis(src.ndim, norm.attrs["data_format"])
    return src.ndim - 1 if norm.attrs["begin_norm_axis"] % src.ndim == src.ndim - 1 else None


def _affine(node: Node, readers: _Readers) -> Match | None:
    """Multiply or Add behind a norm: its scale and shift."""
    pair = _operand_and_constant(node)
    norm = None if pair is None else readers.maker(pair[0], "GroupNorm", "LayerNorm")
    if pair is None or norm is None or node.outputs[0].shape != norm.outputs[0].shape:
        return None
    src, axis = norm.inputs[0], _last_axis(norm)
    size = None if axis is None else src.shape[axis]
    if axis is None or size is None or node.outputs[0].dtype not in _FLOATS:
        return None
    vector, known = _along(pair[1], src.ndim, axis, size), _vectors(norm, size)
    if vector is None or known is None:
        return None
    scale, shift = known
    wide = vector.astype(np.float64)
    scale, shift = (scale * wide, shift * wide) if node.kind == "Multiply" else (scale, shift + wide)
    like = node.inputs[0] if node.inputs[0].constant is not None else node.inputs[1]
    inputs = (src, _constant(like, scale), _constant(like, shift))
    return Match(norm.kind, inputs, {**norm.attrs, "use_affine": True}, (norm,))


# ---- group norm ------------------------------------------------------------------------------------------------------


def _group_attrs(groups: int, epsilon: float) -> Attrs:
    return {"groups": groups, "keep_stats": False, "use_affine": False, "epsilon": epsilon, "data_format": "NCX"}


def _reshaped_norm(node: Node, readers: _Readers) -> Match | None:
    """(N, C, ...) -> (N, G, ...), a norm of each of the G parts, and back: group norm."""
    norm = readers.maker(node.inputs[0], "GroupNorm", "LayerNorm")
    there = None if norm is None else readers.maker(norm.inputs[0], "StaticReshape")
    if norm is None or there is None:
        return None
    src, parts = there.inputs[0], there.outputs[0]
    if not (_known(src.shape) and _known(parts.shape)) or not 3 <= src.ndim <= 5 or parts.ndim < 3:
        return None
    if node.outputs[0].shape != src.shape or parts.shape[0] != src.shape[0]:
        return None
    channels, count = int(src.shape[1] or 0), int(parts.shape[1] or 0)
    attrs = norm.attrs
    if norm.kind == "LayerNorm":
        if attrs["begin_norm_axis"] % parts.ndim != 2 or attrs["use_affine"]:
            return None
        groups = count
    elif attrs["data_format"] == "NCX":
        groups = attrs["groups"]
    else:
        return None
    if not channels or not count or not groups or channels % count or channels % groups:
        return None
    made = _group_attrs(groups, attrs["epsilon"])
    if not attrs["use_affine"]:
        return Match("GroupNorm", (src,), made, (there, norm))
    vectors = _vectors(norm, count)
    if vectors is None:
        return None
    each = (_constant(norm.inputs[1], np.repeat(vector, channels // count)) for vector in vectors)
    return Match("GroupNorm", (src, *each), {**made, "use_affine": True}, (there, norm))


# ---- a norm in parts -------------------------------------------------------------------------------------------------


def _divided(node: Node, readers: _Readers) -> Match | None:
    """(x - mean) / sqrt(mean of (x - mean)^2 + epsilon) over the last axes."""
    deviation = readers.maker(node.inputs[1], "Sqrt")
    total = None if deviation is None else readers.maker(deviation.inputs[0], "Add")
    pair = None if total is None else _operand_and_constant(total)
    variance = None if pair is None else readers.maker(pair[0], "ReduceMean")
    square = None if variance is None else readers.maker(variance.inputs[0], "Square", "Pow", "Multiply")
    if deviation is None or total is None or pair is None or variance is None or square is None:
        return None
    reads = 3 if square.kind == "Multiply" else 2
    distance = readers.maker(node.inputs[0], "Subtract", reads=reads)
    mean = None if distance is None else readers.maker(distance.inputs[1], "ReduceMean")
    if distance is None or mean is None or not _is_square(square, node.inputs[0]):
        return None
    src = distance.inputs[0]
    epsilon = float(pair[1].reshape(-1)[0]) if pair[1].size == 1 else None
    axes = _axes(mean)
    if mean.inputs[0] is not src or epsilon is None or axes is None or axes != _axes(variance):
        return None
    if not _known(src.shape) or node.outputs[0].shape != src.shape or src.dtype not in _FLOATS:
        return None
    norm = _norm_over(src, axes, epsilon)
    return None if norm is None else Match(*norm, (mean, distance, square, variance, total, deviation))


def _is_square(node: Node, of: Value) -> bool:
    if node.kind == "Pow":
        return node.inputs[0] is of and node.attrs["beta"] == 2
    return all(value is of for value in node.inputs)


def _axes(node: Node) -> tuple[int, ...] | None:
    """What a mean is taken over, if the axes stay."""
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
    groups = {tuple(range(2, last + 1)): int(src.shape[1] or 0), tuple(range(1, last + 1)): 1}.get(axes)
    return None if groups is None else ("GroupNorm", (src,), _group_attrs(groups, epsilon))


# ---- layers divided by the root of their mean square -----------------------------------------------------------------


def _by_root(node: Node, readers: _Readers) -> Match | None:
    """x / sqrt(mean of x^2 + epsilon) over the last axis, or times the reciprocal of that."""
    first, second = node.inputs
    candidates = ((first, second),) if node.kind == "Divide" else ((first, second), (second, first))
    return next(filter(None, (_root_of(node, src, other, readers) for src, other in candidates)), None)


def _root_of(node: Node, src: Value, by: Value, readers: _Readers) -> Match | None:
    parts: list[Node | None] = []
    if node.kind == "Multiply":
        parts.append(readers.maker(by, "Reciprocal", "Pow"))
        if parts[0] is None or (parts[0].kind == "Pow" and parts[0].attrs["beta"] != -0.5):
            return None
        by = parts[0].inputs[0]
    if not parts or parts[0] is None or parts[0].kind == "Reciprocal":
        parts.append(readers.maker(by, "Sqrt"))
        if parts[-1] is None:
            return None
        by = parts[-1].inputs[0]
    total = readers.maker(by, "Add")
    pair = None if total is None else _operand_and_constant(total)
    mean = None if pair is None else readers.maker(pair[0], "ReduceMean")
    square = None if mean is None else readers.maker(mean.inputs[0], "Square", "Pow", "Multiply")
    if total is None or pair is None or mean is None or square is None or pair[1].size != 1:
        return None
    if not _is_square(square, src) or not _known(src.shape) or node.outputs[0].shape != src.shape:
        return None
    if _axes(mean) != (src.ndim - 1,) or src.dtype not in _FLOATS or src.ndim < 2:
        return None
    attrs = {"begin_norm_axis": -1, "epsilon": float(pair[1].reshape(-1)[0])}
    return Match("RMSNorm", (src,), attrs, (square, mean, total, *(part for part in parts[::-1] if part is not None)))


def _scaled_root(node: Node, readers: _Readers) -> Match | None:
    """Multiply by a vector behind it: its scale."""
    for value, scale in (node.inputs, node.inputs[::-1]):
        norm = readers.maker(value, "RMSNorm")
        if norm is None or len(norm.inputs) > 1 or node.outputs[0].shape != value.shape:
            continue
        if scale.shape[-1:] == value.shape[-1:] and all(size == 1 for size in scale.shape[:-1]):
            return Match("RMSNorm", (norm.inputs[0], scale), dict(norm.attrs), (norm,))
    return None


# ---- softplus with a threshold ---------------------------------------------------------------------------------------

# from here on log(1 + e^x) is x in f32
_SOFTPLUS_IS_X = 17.0


def _guarded_softplus(node: Node, readers: _Readers) -> Match | None:
    """x where it is large and else its softplus, as PyTorch has it: softplus, which own code knows to be x there."""
    condition, large, small = node.inputs
    compared, function = readers.maker(condition, "GreaterEqual"), readers.maker(small, "SoftPlus")
    if compared is None or function is None:
        return None
    least, beta = scalar(compared.inputs[1]), float(function.attrs.get("beta", 1.0))
    if compared.inputs[0] is not large or function.inputs[0] is not large or least is None or beta <= 0:
        return None
    if least * beta < _SOFTPLUS_IS_X or large.dtype not in _FLOATS or node.outputs[0].shape != large.shape:
        return None
    return Match("SoftPlus", (large,), dict(function.attrs), (compared, function))


# the last node of a pattern -> what it may be the end of
RULES: dict[str, tuple[Rule, ...]] = {
    "Add": (_affine,),
    "Divide": (_divided, _by_root),
    "Multiply": (_affine, _by_root, _scaled_root),
    "Select": (_guarded_softplus,),
    "StaticReshape": (_reshaped_norm,),
}
