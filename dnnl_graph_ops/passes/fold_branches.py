"""Folds a sum of convolutions of one source, or of a convolution and a batch norm of its source, into one convolution.

Networks trained with several branches a layer (RepVGG, MobileOne, PP-LCNetV3) have such sums where nobody has merged
them: 3x3, 1x1 and the batch norm of the source together are a 3x3 convolution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph import Node
from ..graph.constants import Constant
from ..ir import GraphView, Twin, changes_of
from ..ir.rewrites import ALONE, NOT_RETURNED, READ_ONCE, Rewrite
from ..shapes import Attributes
from ..shapes.attributes import Geometry
from ..shapes.common import channel_axes
from .fold_affine import F32, FINITE, OPERANDS, Array, affine_of, bias_of, held_of, with_constants
from .folding import layers

# for each axis of weights, where taps of other weights lie on it: the first, and the distance of each to the next
Places = tuple[tuple[int, int], ...]

CONSTANT = "the convolutions' weights and biases are constant"
ONE_SOURCE = "both branches read one source"
TAPS = "formats, groups and strides are the same, and the taps of one branch lie among the other's"
FOLD_BRANCHES = Rewrite(
    "fold_branches",
    "a sum of two Convolutions of one source, or of one and a batch norm of its source, is one Convolution",
    (
        CONSTANT,
        layers.NOT_DIRECT,
        layers.NOT_SELECTED,
        F32,
        *ALONE,
        ONE_SOURCE,
        TAPS,
        OPERANDS,
        FINITE,
        layers.FINITE,
    ),
)
_CONVOLUTION = "Convolution"
_NORM = "BatchNormInference"


def run(graph: GraphView, asked: layers.Asked) -> bool:
    """Folds the branches of each sum; returns whether there are any."""
    any_fold = False
    for node in graph:
        if node.kind != "Add":
            continue
        makers = [value.node for value in node.inputs]
        branches = [maker for maker in makers if maker is not None and maker in graph]
        kinds = sorted(branch.kind for branch in branches)
        if kinds not in ([_CONVOLUTION, _CONVOLUTION], [_NORM, _CONVOLUTION]) or branches[0] is branches[-1]:
            continue
        if unmet := _unmet(node, branches, graph, asked):
            FOLD_BRANCHES.declined(node, unmet)
            continue
        if (folded := _folded(node, *branches)) is None:
            continue
        FOLD_BRANCHES.fired(node)
        others = (branch for branch in branches if branch.name != folded.name)
        absorbed = (*(each for branch in branches for each in changes_of(branch).absorbed), *others, node)
        folded.changes = folded.changes._replace(absorbed=absorbed, folded=True)
        graph.replace(node, folded)
        graph.remove(*branches)
        any_fold = True
    return any_fold


def _unmet(node: Node, branches: Sequence[Node], graph: GraphView, asked: layers.Asked) -> str:
    """Returns a condition on the ops of a sum that does not hold; "" if all hold."""
    convolutions = [branch for branch in branches if branch.kind == _CONVOLUTION]
    results = [branch.outputs[0] for branch in branches]
    if not all(value.is_constant for head in convolutions for value in head.inputs[1:]):
        return CONSTANT
    if unmet := next(filter(None, (layers.unmet_of(head, asked) for head in convolutions)), ""):
        return unmet
    if any(value.dtype != "f32" for value in results):
        return F32
    if any(graph.reads(result) > 1 for result in results):
        return READ_ONCE
    if any(result in graph.returned for result in results):
        return NOT_RETURNED
    first, second = branches
    if first.inputs[0] is not second.inputs[0]:
        return ONE_SOURCE
    same = first.attrs["data_format"] == second.attrs["data_format"]
    return "" if same and results[0].shape == results[1].shape else TAPS


def _folded(node: Node, first: Node, second: Node) -> Twin | None:
    """Returns the convolution that a sum is; None if the taps or constants allow none, which is reported."""
    if _NORM in (first.kind, second.kind):
        head, norm = (second, first) if first.kind == _NORM else (first, second)
        return _with_norm(node, head, norm)
    for head, other in ((first, second), (second, first)):
        places = _places(head, other)
        if places is not None:
            held, added, bias = held_of(head), held_of(other), bias_of(head) + bias_of(other)
            if not _are_finite(bias, held.array, added.array):
                return FOLD_BRANCHES.declined(node, layers.FINITE)
            return with_constants(head, joined(held, added, places), bias)
    return FOLD_BRANCHES.declined(node, TAPS)


def _with_norm(node: Node, head: Node, norm: Node) -> Twin | None:
    affine = affine_of(FOLD_BRANCHES, norm, norm.inputs[0], head.attrs["data_format"])
    if affine is None:
        return None
    scale, shift = affine
    places = _places(head, None)
    if places is None:
        return FOLD_BRANCHES.declined(node, TAPS)
    assert isinstance(head.attrs, Attributes)
    held, bias = held_of(head), bias_of(head) + shift
    if not _are_finite(bias, held.array, scale):
        return FOLD_BRANCHES.declined(node, layers.FINITE)
    return with_constants(
        head, with_diagonal(held, scale, channel_axes(head.attrs.weights_format, len(places)), places), bias
    )


def _are_finite(bias: Array, *summed: Array) -> bool:
    """Whether f32 holds a bias, and sums of an element of each of some weights."""
    largest = (sum(float(np.abs(array).max(initial=0)) for array in arrays) for arrays in ((bias,), summed))
    return all(value <= np.finfo(np.float32).max for value in largest)


def _places(head: Node, other: Node | None) -> Places | None:
    """Returns where the taps of `other` lie among those of `head`, by axes of the weights; None: not all do.

    `other`: None for a batch norm, which has one tap, stride 1 and no padding.
    """
    assert isinstance(head.attrs, Attributes)
    outer = head.attrs.known.geometry
    ones, zeros = (1,) * outer.rank, (0,) * outer.rank
    kernel, strides, pads, dilations = ones, ones, zeros, ones
    if other is not None:
        assert isinstance(other.attrs, Attributes)
        if head.attrs.groups != other.attrs.groups or head.attrs.weights_format != other.attrs.weights_format:
            return None
        inner = other.attrs.known.geometry
        kernel, strides, pads, dilations = _kernel(inner), inner.strides, inner.pads_begin, inner.dilations
    if outer.strides != strides:
        return None
    spatial = []
    for axis, taps in enumerate(_kernel(outer)):
        begin, unit = outer.pads_begin[axis] - pads[axis], outer.dilations[axis] if taps > 1 else 1
        step = dilations[axis] if kernel[axis] > 1 else unit
        if begin % unit or step % unit or begin < 0 or begin + (kernel[axis] - 1) * step > (taps - 1) * unit:
            return None
        spatial.append((begin // unit, step // unit))
    channels = ((0, 1), (0, 1))
    first = head.attrs.weights_format.endswith("X")
    return (*channels, *spatial) if first else (*spatial, *channels)


def _kernel(geometry: Geometry) -> tuple[int, ...]:
    return tuple(int(size or 0) for size in geometry.kernel)


def joined(weights: Constant, other: Constant, places: Places) -> Constant:
    """Returns weights plus other weights on some of their taps as a constant, computed when its elements are needed."""

    def sums(array: Array) -> Array:
        total = array.copy()
        ends = (begin + (n - 1) * step + 1 for (begin, step), n in zip(places, other.shape, strict=True))
        total[tuple(slice(begin, end, step) for (begin, step), end in zip(places, ends, strict=True))] += other.array
        other.let_go()
        return total

    return weights.derived(("joined", other, places), sums, weights.shape)


def with_diagonal(weights: Constant, scale: Array, axes: tuple[int, int], places: Places) -> Constant:
    """Returns weights plus `scale` on the tap from each channel to itself, computed when its elements are needed.

    `axes`: those of input and output channels. `places`: of the tap on the others.
    """
    i, o = axes

    def sums(array: Array) -> Array:
        total = array.copy()
        channels = np.arange(len(scale))
        at: list[Array | int] = [begin for begin, _ in places]
        at[i], at[o] = channels % array.shape[i], channels
        total[tuple(at)] += scale
        return total

    return weights.derived(("diagonal", scale.tobytes(), axes, places), sums, weights.shape)
