"""Scales channels between two convolutions, so that both have weights of one range in each of these channels.

Weights of one scale, and data of one scale, then lose less by rounding to 8 bits. Rectifiers and pools in between
commute with positive factors of channels.

Source: Nagel, van Baalen, Blankevoort and Welling, Data-Free Quantization Through Weight Equalization and Bias
Correction, 2019, section 4.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..graph import Node, Value
from ..ir import GraphView, constant_like, conv_twin, like
from ..ir.rewrites import ALONE, NOT_RETURNED, READ_ONCE, Rewrite
from ..passes.fold_affine import F32, along_weights, held_of, scaled
from ..schema import kinds
from ..shapes import Attributes
from ..shapes.common import channel_axes, channel_axis

Array = np.ndarray[Any, Any]

_HEADS = kinds("convolves")
_HOMOGENEOUS = kinds("homogeneous")
# factors of a layer between two others change both pairs
_ROUNDS = 4
EQUALIZE = Rewrite(
    "equalize",
    "what is between two convolutions is divided by a factor of each channel, which the second one's weights take in",
    (
        "weights and biases are constant",
        F32,
        *ALONE,
        "all ops have one data format",
    ),
)


class _Layer:
    """A convolution, the largest magnitudes of its weights by channels, and factors of channels read and made."""

    def __init__(self, head: Node) -> None:
        self.head = head
        weights, attrs = head.inputs[1].constant, head.attrs
        assert weights is not None and isinstance(attrs, Attributes)
        self.axes, self.groups = channel_axes(attrs.weights_format, weights.ndim), attrs.groups
        read_and_made = np.moveaxis(np.abs(weights), self.axes, (0, 1))
        read, made = read_and_made.shape[:2]
        # with groups, one of both axes has the channels of all
        self.magnitudes = read_and_made.reshape(read, made, -1).max(2, initial=0).astype(np.float64)
        result = head.outputs[0]
        count = int(result.shape[channel_axis(result.ndim, attrs.data_format)] or 0)
        counts = read * self.groups if made == count else read, count
        self.factors = list(map(np.ones, counts))

    def ranges(self, side: int) -> Array:
        """Returns the largest magnitude of the weights of each channel that is read (0) or made (1)."""
        read, made = (self._along(self.magnitudes.shape, (0, 1), at) for at in (0, 1))
        matrix = np.moveaxis(self.magnitudes * read * made, side, 1)
        count = matrix.shape[1]
        return matrix.reshape(self.factors[side].size // count, -1, count).max(1, initial=0).reshape(-1)

    def _along(self, shape: tuple[int, ...], axes: tuple[int, int], side: int) -> Array:
        return along_weights(shape, axes[side], axes[1 - side], self.groups, self.factors[side])

    def scaled(self) -> Node:
        """Returns the convolution with its factors in weights and bias."""
        src, weights, *rest = self.head.inputs
        held = held_of(self.head)
        for side in (0, 1):
            if (self.factors[side] != 1).any():
                held = scaled(held, self._along(held.shape, self.axes, side))
        weights = like(weights)
        weights._held = held
        bias = [constant_like(value, value.constant * self.factors[1]) for value in rest]  # type: ignore[operator]
        return conv_twin(self.head, (src, weights, *bias))


def run(graph: GraphView) -> None:
    """Scales the channels of all pairs of convolutions with homogeneous ops or nothing in between."""
    layers: dict[Node, _Layer] = {}
    pairs = []
    for heads in _pairs(graph):
        EQUALIZE.fired(heads[1])
        layers.update((head, _Layer(head)) for head in heads if head not in layers)
        pairs.append([layers[head] for head in heads])
    for _ in range(_ROUNDS):
        for first, second in pairs:
            made, read = first.ranges(1), second.ranges(0)
            # neither zeros alone nor infinite
            finite = (made > 0) & (made < np.inf) & (read > 0) & (read < np.inf)
            factors = np.sqrt(np.divide(made, read, out=np.ones_like(made), where=finite))
            first.factors[1] /= factors
            second.factors[0] *= factors
    for layer in layers.values():
        graph.replace(layer.head, layer.scaled())


def _pairs(graph: GraphView) -> Iterator[tuple[Node, Node]]:
    """Yields convolutions of which the second reads what the first makes, through homogeneous ops or directly."""
    for second in graph:
        between: list[Value] = []
        node: Node | None = second
        while node is not None and (node is second or node.kind in _HOMOGENEOUS) and node in graph:
            between.append(node.inputs[0])
            node = node.inputs[0].node
        if second.kind not in _HEADS or node is None or node not in graph or node.kind not in _HEADS:
            continue
        formats = {value.node.attrs.get("data_format") for value in between if value.node is not None}
        unmet = ""
        if not all(value.is_constant for head in (node, second) for value in head.inputs[1:]):
            unmet = "weights and biases are constant"
        elif any(value.dtype != "f32" for value in (*node.inputs, *between, *second.inputs, *second.outputs)):
            unmet = F32
        elif any(graph.reads(value) > 1 for value in between):
            unmet = READ_ONCE
        elif not graph.returned.isdisjoint(between):
            unmet = NOT_RETURNED
        elif not formats <= {None, second.attrs["data_format"]}:
            unmet = "all ops have one data format"
        if unmet:
            EQUALIZE.declined(second, unmet)
        else:
            yield node, second
