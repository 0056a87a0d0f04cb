"""Folds nearest upsampling by whole numbers in front of a convolution into its taps.

The convolution reads each element of the source several times, so that taps that read the same element are summed. A
3x3 kernel after an upsampling by 2 becomes a ConvTranspose of 4x4 taps and stride 2: 16 products for each element of
the source instead of 36. Zeros around the enlarged source are zeros around the source, so borders are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..graph import Node, Value
from ..ir import GraphView, dims, like, linked, twin
from ..ir.rewrites import ALONE, NOT_RETURNED, READ_ONCE, Rewrite
from .folding import estimates, layers
from .folding.channels import added, channels_of
from .folding.enlarged import EDGES, SPATIAL, Enlarged, enlarged, make_layer
from .folding.layers import (
    FASTER,
    GEOMETRY,
    NARROW,
    ON_CONVOLUTIONS,
    ON_SUMS,
    Asked,
    Layer,
    convolution,
    insert,
    moving,
    seconds,
    sweep,
    unmet_by,
    unmet_of,
)
from .folding.repetition import repetition

FOLD_UPSAMPLING = Rewrite(
    "fold_upsampling",
    "a nearest upsampling by whole numbers in front of a Convolution is part of its taps",
    (
        *ON_CONVOLUTIONS,
        SPATIAL,
        EDGES,
        GEOMETRY,
        *ON_SUMS,
        FASTER,
    ),
)
FOLD_UPSAMPLED_PART = Rewrite(
    "fold_upsampled_part",
    "a Convolution of joined channels, of which some are upsampled, is a sum of convolutions with fewer products",
    (
        *ON_CONVOLUTIONS,
        "the Concat joins channels",
        "the convolution has one group",
        NARROW,
        *ALONE,
        SPATIAL,
        EDGES,
        GEOMETRY,
        FASTER,
    ),
)


def run(graph: GraphView, asked: Asked) -> None:
    """Folds upsampling into the convolutions after it where this is faster by estimate."""
    for head in graph:
        if head.kind != "Convolution" or 0 in head.outputs[0].shape:
            continue
        source = head.inputs[0].node
        if source is not None and source.kind == "Concat":
            _fold_parts(graph, head, source, asked)
        elif larger := enlarged(head, head.inputs[0], FOLD_UPSAMPLING):
            _fold(graph, head, larger, asked)


def _fold(graph: GraphView, head: Node, source: Enlarged, asked: Asked) -> None:
    rewrite, operand, env = FOLD_UPSAMPLING, head.inputs[0], asked.env
    if unmet := unmet_of(head, asked):
        return rewrite.declined(head, unmet)
    layer = make_layer(head, source, *head.inputs[1:])
    if layer is None:
        return rewrite.declined(head, GEOMETRY)
    if unmet := unmet_by(layer, asked):
        return rewrite.declined(head, unmet)
    before = estimates.seconds(head, "f32", env)
    if graph.reads(operand) == 1 and operand not in graph.returned:
        before += moving(operand, env)
    if not layers.pays(before, seconds(layer, env)):
        return rewrite.declined(head, FASTER)
    rewrite.fired(head)
    insert(graph, head, layer)
    graph.remove(head)
    linked(layer.nodes[-1], head.outputs)
    layer.heads[0].mark(*sweep(graph, operand.node))
    return None


def _fold_parts(graph: GraphView, head: Node, concat: Node, asked: Asked) -> None:
    """Splits a convolution of joined channels: the upsampled ones are folded, the others stay, and sums are added."""
    rewrite, joined, env = FOLD_UPSAMPLED_PART, concat.outputs[0], asked.env
    if not any(map(repetition, concat.inputs)) or any(0 in value.shape for value in concat.inputs):
        return None
    axis = 1 if head.attrs["data_format"] == "NCX" else joined.ndim - 1
    unmet = unmet_of(head, asked)
    if concat.attrs["axis"] % joined.ndim != axis:
        unmet = "the Concat joins channels"
    elif head.attrs["groups"] > 1:
        unmet = "the convolution has one group"
    elif joined.dtype != "f32" or asked.narrow:
        unmet = NARROW
    elif graph.reads(joined) > 1:
        unmet = READ_ONCE
    elif joined in graph.returned:
        unmet = NOT_RETURNED
    if unmet:
        return rewrite.declined(head, unmet)
    split = _split(head, concat, axis)
    if split is None:
        return rewrite.declined(head, GEOMETRY)
    if not split.layers:
        return None
    larger = [value for value in concat.inputs if repetition(value) and graph.reads(value) == 1]
    before = estimates.seconds(head, "f32", env) + sum(moving(value, env) for value in (joined, *larger))
    after = sum(seconds(layer, env) for layer in split.layers)
    if split.rest is not None:
        after += estimates.seconds(split.rest, "f32", env)
    after += sum(moving(node.outputs[0], env) for node in split.nodes)
    if not layers.pays(before, after):
        return rewrite.declined(head, FASTER)
    rewrite.fired(head)
    for node in split.nodes:
        graph.insert(node, head)
    for layer in split.layers:
        insert(graph, head, layer)
    terms = [layer.nodes[-1] for layer in split.layers]
    if split.rest is not None:
        graph.insert(split.rest, head)
        terms.insert(0, split.rest)
    adds = added(terms)
    for node in adds:
        graph.insert(node, head)
    graph.remove(head)
    linked([*terms, *adds][-1], head.outputs)
    graph.remove(concat)
    for layer, value in zip(split.layers, split.enlarged, strict=True):
        layer.heads[0].mark(*sweep(graph, value.node))
    return None


class _Split(NamedTuple):
    """Convolutions that sum to one of joined channels: `layers` of upsampled ones, `rest` of the others.

    `enlarged`: the upsampled values. `nodes` slice and join what the convolutions read.
    """

    layers: list[Layer]
    enlarged: list[Value]
    rest: Node | None
    nodes: list[Node]


def _split(head: Node, concat: Node, axis: int) -> _Split | None:
    """Returns the convolutions that sum to one of joined channels; None where no window computes an upsampled part."""
    folded: list[Layer] = []
    nodes: list[Node] = []
    larger, others, start = [], [], 0
    sources = [enlarged(head, value, FOLD_UPSAMPLED_PART) for value in concat.inputs]
    # the bias is part of one of the sums: of the rest if there is one
    bias = () if None in sources else head.inputs[2:]
    for value, source in zip(concat.inputs, sources, strict=True):
        channels = range(start, start := start + dims(value)[axis])
        if source is None:
            others.append((value, channels))
            continue
        layer = make_layer(head, source, channels_of(head, head.inputs[1], [channels], nodes), *bias)
        if layer is None:
            return None
        folded.append(layer)
        larger.append(value)
        bias = ()
    return _Split(folded, larger, _rest(head, concat, others, nodes) if others else None, nodes)


def _rest(head: Node, concat: Node, others: Sequence[tuple[Value, range]], nodes: list[Node]) -> Node:
    """Returns the convolution of the channels that are not upsampled; adds to `nodes` what joins these channels."""
    source = others[0][0]
    if len(others) > 1:
        shape, axis = list(dims(source)), concat.attrs["axis"]
        shape[axis] = sum(len(channels) for _, channels in others)
        joined = twin(concat, inputs=[value for value, _ in others])
        source = like(concat.outputs[0], shape=tuple(shape))
        nodes.append(linked(joined, [source]))
    weights = channels_of(head, head.inputs[1], [channels for _, channels in others], nodes)
    rest = convolution(head, (source, weights, *head.inputs[2:]))
    rest.name, rest.changes = f"{head.name} rest", rest.changes._replace(absorbed=())
    return rest
