"""Folds average pooling after a convolution into its taps, or takes averages of the source of a 1x1 convolution.

An average of neighbouring results is a convolution with summed taps and a larger stride: a 3x3 kernel and an average of
2x2 results are a 4x4 kernel of stride 2, with 16 products a result instead of 36.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np

from ..graph import Node, Value
from ..ir import UNSEEN, GraphView, constant_like, dims, like, linked
from ..ir.rewrites import ALONE, NOT_RETURNED, READ_ONCE, Rewrite
from ..shapes import Attributes, checked
from ..shapes.attributes import Geometry, Ints
from ..shapes.common import spatial_of
from ..shapes.windows import resolve
from .folding import estimates, layers, taps
from .folding.channels import in_parts
from .folding.layers import (
    FASTER,
    GEOMETRY,
    ON_CONVOLUTIONS,
    ON_SUMS,
    Asked,
    Layer,
    convolution,
    insert,
    moving,
    seconds,
    unmet_by,
    unmet_of,
)

WHOLE = "each window averages as many results, and no padding"
FACTOR = "the tensors are in f32, or windows average 1, 2, 4, 8 ... elements"
_UNCOUNTED = "the average counts no padding"
EVEN = "sums of a part of the channels round little more than an average of sums"
FOLD_POOLING = Rewrite(
    "fold_pooling",
    "an average of windows of a Convolution's results is part of its taps",
    (*ON_CONVOLUTIONS, *ALONE, WHOLE, FACTOR, EVEN, GEOMETRY, *ON_SUMS, FASTER),
)
POOL_FIRST = Rewrite(
    "pool_first",
    "an average of windows of the results of a Convolution with one tap is taken of its source instead",
    (*ON_CONVOLUTIONS, *ALONE, _UNCOUNTED, FASTER),
)


# channels are summed in at most so many parts, of at least so many channels: more take longer than the unfolded ops
_MOST_PARTS, _FEWEST = 3, 8
# by measured errors of layers: in how much longer sums one part has less than 1.5 times the error of the unfolded ops,
# and by how much Winograd of up to so many taps lessens that on each axis that is averaged
_LONGER, _FILTERED, _LESS = 2.1, 3, 1.55


class Pooling(NamedTuple):
    """An average of windows of a convolution's result: the convolution, the attributes of an AvgPool, the ops of it.

    `whole`: each window averages as many elements, and no padding. `counts`: padding counts as elements of 0, or there
    is a window of padding alone.
    """

    head: Node
    attrs: dict[str, Any]
    ops: tuple[Node, ...]
    whole: bool
    counts: bool


def run(graph: GraphView, asked: Asked) -> None:
    """Folds averages of a convolution's results into its taps, or takes them before, where estimates say so."""
    for node in graph:
        pooling = _pooling(node)
        if pooling is not None and pooling.head in graph and 0 not in node.outputs[0].shape:
            _fold(graph, pooling, asked)


def _pooling(node: Node) -> Pooling | None:
    """Returns the average that a node computes of a convolution's result; None if it computes none."""
    if node.kind not in _AVERAGES or len(node.inputs) > 1:
        return None
    value = node.inputs[0]
    reshape = value.node if value.node is not None and value.node.kind == "StaticReshape" else None
    head = value.node if reshape is None else reshape.inputs[0].node
    if head is None or head.kind != "Convolution":
        return None
    return _AVERAGES[node.kind](node, head, () if reshape is None else (reshape,))


def _of_mean(node: Node, head: Node, reshapes: tuple[Node, ...]) -> Pooling | None:
    result, value, data_format = head.outputs[0], node.inputs[0], head.attrs["data_format"]
    kernel = _means(dims(result), dims(value), {axis % value.ndim for axis in node.attrs["axes"]})
    outside = {0, 1 if data_format == "NCX" else result.ndim - 1}
    if kernel is None or any(kernel[axis] > 1 for axis in outside):
        return None
    windows = kernel[2:] if data_format == "NCX" else kernel[1:-1]
    zeros = (0,) * len(windows)
    attrs = {
        "kernel": windows, "strides": windows, "pads_begin": zeros, "pads_end": zeros, "exclude_pad": True,
        "data_format": data_format, "rounding_type": "floor", "auto_pad": "None",
    }  # fmt: skip
    return Pooling(head, attrs, (*reshapes, node), True, False)


def _of_pool(node: Node, head: Node, reshapes: tuple[Node, ...]) -> Pooling | None:
    if reshapes or node.attrs["data_format"] != head.attrs["data_format"]:
        return None
    sizes, results = (spatial_of(dims(v), node.attrs["data_format"]) for v in (node.inputs[0], node.outputs[0]))
    windows = [w for w in resolve(node.name, node.attrs, sizes, node.attrs["kernel"], crops=True) if w is not None]
    last = [((count or 0) - 1) * w.stride + w.reach for w, count in zip(windows, results, strict=True)]
    whole = all(w.begin == 0 and end <= w.size for w, end in zip(windows, last, strict=True))
    # windows in padding alone average nothing
    empty = any(w.begin >= w.reach or end - w.reach >= w.begin + w.size for w, end in zip(windows, last, strict=True))
    counts = not whole and (empty or not node.attrs["exclude_pad"])
    return Pooling(head, dict(node.attrs), (node,), whole, counts)


# by the kind of op that averages
_AVERAGES: dict[str, Callable[[Node, Node, tuple[Node, ...]], Pooling | None]] = {
    "AvgPool": _of_pool,
    "ReduceMean": _of_mean,
}


def _means(shape: Ints, split: Ints, axes: Collection[int]) -> Ints | None:
    """Returns of how many elements of a shape a mean over axes of `split` is taken, along each axis.

    `split` is the shape itself, or has axes that are split in two, whose second one is averaged; else None is returned.
    """
    if split == shape:
        return tuple(n if axis in axes else 1 for axis, n in enumerate(shape))
    kernel, at = [], 0
    for size in shape:
        if at + 1 in axes and at + 1 < len(split) and split[at] * split[at + 1] == size and at not in axes:
            kernel.append(split[at + 1])
            at += 2
        elif at < len(split) and split[at] == size and at not in axes:
            kernel.append(1)
            at += 1
        else:
            return None
    return tuple(kernel) if at == len(split) else None


def _fold(graph: GraphView, pooling: Pooling, asked: Asked) -> None:
    env, head, last = asked.env, pooling.head, pooling.ops[-1]
    g, between = _geometry(head), (head, *pooling.ops[:-1])
    pointwise = {1} == {*g.kernel, *g.strides} and not any((*g.pads_begin, *g.pads_end))
    rewrite = POOL_FIRST if pointwise else FOLD_POOLING
    unmet = unmet_of(head, asked)
    if any(graph.reads(node.outputs[0]) > 1 for node in between):
        unmet = unmet or READ_ONCE
    elif any(node.outputs[0] in graph.returned for node in between):
        unmet = unmet or NOT_RETURNED
    elif pointwise and pooling.counts and len(head.inputs) > 2:
        unmet = unmet or _UNCOUNTED
    elif not pointwise and not pooling.whole:
        unmet = unmet or WHOLE
    elif not pointwise and head.outputs[0].dtype != "f32" and not _is_power_of_two(prod(pooling.attrs["kernel"])):
        unmet = unmet or FACTOR
    elif not pointwise and (parts := _parts(head, pooling, asked)) > _most_parts(head):
        unmet = unmet or EVEN
    if unmet:
        return rewrite.declined(last, unmet)
    layer = _pooled_first(head, pooling) if pointwise else _folded(head, pooling, parts)
    if layer is None:
        return rewrite.declined(last, GEOMETRY)
    if unmet := unmet_by(layer, asked):
        return rewrite.declined(last, unmet)
    before = estimates.seconds(head, "f32", env) + moving(head.outputs[0], env)
    if not layers.pays(before, seconds(layer, env)):
        return rewrite.declined(last, FASTER)
    rewrite.fired(last)
    insert(graph, last, layer)
    graph.remove(*between, last)
    linked(layer.nodes[-1], last.outputs)
    layer.heads[0].mark(*pooling.ops)
    return None


def _geometry(head: Node) -> Geometry:
    assert isinstance(head.attrs, Attributes)
    return head.attrs.geometry


def _pooled_first(head: Node, pooling: Pooling) -> Layer:
    """Returns an average of the source of a convolution with one tap, and the convolution of it."""
    source, weights, *bias = head.inputs
    last = pooling.ops[-1]
    attrs, (meta,) = checked("AvgPool", [source._meta], pooling.attrs, last.name)
    first = Node(UNSEEN, "AvgPool", last.name, (source,), attrs)
    pooled = like(source, shape=meta.shape)
    ones = (1,) * len(meta.shape[2:])
    layer = convolution(head, (pooled, weights, *bias), auto_pad="None", dilations=ones)
    nodes = [linked(first, [pooled]), layer]
    return Layer([*nodes, *_shaped(layer.outputs[0], last)], [layer], weights, weights, [])


def _parts(head: Node, pooling: Pooling, asked: Asked) -> int:
    """Returns in how many parts of channels one sum with more taps has to be taken to round as little as an average.

    An average evens out the errors of the sums that it is of, while the error of one sum grows with the root of the
    number of its terms. Sums of Winograd, which adds few channels' products of up to three taps, have still
    less error.
    """
    if asked.narrow or head.outputs[0].dtype != "f32":
        return 1
    axes = _axes(head, pooling)
    more = prod((a.dilation * (a.kernel - 1) + 1 + a.stride * (a.scale - 1)) / a.kernel for a in axes)
    if all(ceil(a.kernel / a.stride) <= _FILTERED for a in axes):
        more *= _LESS ** sum(a.scale > 1 for a in axes)
    return ceil(more / _LONGER)


def _most_parts(head: Node) -> int:
    g = _geometry(head)
    # in_channels are those of the result
    return 1 if g.groups > 1 else max(1, min(_MOST_PARTS, (g.out_channels or 1) // _FEWEST))


def _axes(head: Node, pooling: Pooling) -> list[taps.Axis]:
    """Returns the convolution's windows along each axis, and of how many results averages are."""
    g, attrs = _geometry(head), pooling.attrs
    _, (meta,) = checked("AvgPool", [head.outputs[0]._meta], attrs, pooling.ops[-1].name)
    both = (head.inputs[0].shape, meta.shape)
    sizes, counts = (tuple(n or 0 for n in spatial_of(s, head.attrs["data_format"])) for s in both)
    axes = taps.windows(g, attrs["kernel"], g.pads_begin, g.pads_end, sizes)
    return [replace(a, step=step, count=count) for a, step, count in zip(axes, attrs["strides"], counts, strict=True)]


def _folded(head: Node, pooling: Pooling, parts: int) -> Layer | None:
    """Returns the convolution that averages its results; None where it would need zeros between its taps."""
    source, weights, *bias = head.inputs
    assert isinstance(head.attrs, Attributes)
    last, windows = pooling.ops[-1], taps.folded(_axes(head, pooling), taps.averaged)
    if windows is None:
        return None
    number = prod(pooling.attrs["kernel"])
    # powers of two scale the taps without rounding
    exact = _is_power_of_two(number)
    first, *others = (window.matrix for window in windows)
    matrices = [taps.scaled(first, 1 / number if exact else 1), *others]
    sums = taps.summed(weights, head.attrs, matrices)
    inputs = (source, sums, *(bias if exact else ()))
    layer = in_parts(head, inputs, parts, **taps.attributes(windows))
    nodes = [*layer.heads, *layer.adds]
    result = nodes[-1].outputs[0]
    if not exact:
        factor = constant_like(result, np.full(1, 1 / number))
        rest: list[tuple[str, Value, dict[str, Any]]] = [("Multiply", factor, {"auto_broadcast": "numpy"})]
        rest += [("BiasAdd", one, {"data_format": head.attrs["data_format"]}) for one in bias]
        for kind, operand, attrs in rest:
            node = Node(UNSEEN, kind, last.name, (result, operand), attrs)
            result = like(result)
            nodes.append(linked(node, [result]))
    return Layer([*nodes, *_shaped(result, last)], layer.heads, weights, sums, matrices, layer.slices)


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _shaped(result: Value, last: Node) -> list[Node]:
    """Returns a reshape of a result to the shape of the average that a node computes, if it is another one."""
    shape = last.outputs[0].shape
    if result.shape == shape:
        return []
    node = Node(UNSEEN, "StaticReshape", last.name, (result,), {"shape": shape, "special_zero": False})
    return [linked(node, [like(result, shape=shape)])]
