"""Convolutions of a source whose elements are repeated, computed from the source itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...graph import Node, Value
from ...ir import UNSEEN, dims, like, linked
from ...ir.rewrites import Rewrite
from ...shapes import Attributes
from ...shapes.attributes import Ints
from . import taps
from .layers import Layer, convolution
from .repetition import repetition

SPATIAL = "the upsampling enlarges spatial axes only"
EDGES = "a Pad between repeats edges of the source"


@dataclass(frozen=True)
class Enlarged:
    """A source whose elements are repeated `scales` times along each spatial axis.

    `begin`, `end`: elements by which a Pad then extends the edges.
    """

    source: Value
    scales: Ints
    begin: Ints
    end: Ints

    @property
    def edges(self) -> tuple[Ints, Ints]:
        """The elements by which the edges of the source itself are extended."""
        return tuple(map(_up, self.begin, self.scales)), tuple(map(_up, self.end, self.scales))


def _up(a: int, b: int) -> int:
    return -(-a // b)


def enlarged(head: Node, value: Value, rewrite: Rewrite) -> Enlarged | None:
    """Returns what a convolution's operand repeats; None, with a report if an upsampling is there, if it is not so."""
    pad, spatial = None, _spatial_axes(head)
    if value.node is not None and value.node.kind == "Pad" and value.node.attrs["mode"] in ("edge", "reflect"):
        pad, value = value.node, value.node.inputs[0]
    pair = repetition(value)
    if pair is None:
        return None
    source, scales = pair
    if any(scale > 1 for axis, scale in enumerate(scales) if axis not in spatial):
        return rewrite.declined(head, SPATIAL)
    begin, end = ([0] * len(spatial) for _ in range(2))
    if pad is not None:
        amounts = [pad.attrs["pads_begin"], pad.attrs["pads_end"]]
        begin, end = ([amount[axis] for axis in spatial] for amount in amounts)
        # a reflection of fewer elements than the scale is of one element
        reflected = pad.attrs["mode"] == "reflect"
        far = any(max(b, e) >= scales[axis] for axis, b, e in zip(spatial, begin, end, strict=True))
        if sum(begin) + sum(end) != sum(map(sum, amounts)) or min(begin + end) < 0 or (reflected and far):
            return rewrite.declined(head, EDGES)
    return Enlarged(source, tuple(scales[axis] for axis in spatial), tuple(begin), tuple(end))


def _spatial_axes(head: Node) -> list[int]:
    rank = head.inputs[0].ndim
    return list(range(2, rank) if head.attrs["data_format"] == "NCX" else range(1, rank - 1))


def make_layer(head: Node, enlarged: Enlarged, weights: Value, *bias: Value) -> Layer | None:
    """Returns the layer that computes a convolution with these weights from the source; None if no window fits."""
    source, nodes = enlarged.source, []
    edges = enlarged.edges
    if any(map(any, edges)):
        nodes.append(_padded(head, source, *edges))
        source = nodes[0].outputs[0]
    fit = _window(head, enlarged, source)
    if fit is None:
        return None
    kind, windows, folded = fit
    assert isinstance(head.attrs, Attributes)
    matrices = [f.matrix for f in folded]
    sums = taps.summed(weights, head.attrs, matrices)
    padding = (0,) * len(folded) if kind == "ConvTranspose" else ()
    layer = convolution(head, (source, sums, *bias), kind, output_padding=padding, **taps.attributes(folded))
    nodes.append(layer)
    if layer.outputs[0].shape != head.outputs[0].shape:
        nodes += _repeated(head, layer.outputs[0], windows)
    return Layer(nodes, [layer], weights, sums, matrices)


_FORMS = (("Convolution", taps.strided), ("Convolution", taps.commuted), ("ConvTranspose", taps.transposed))


def _window(head: Node, enlarged: Enlarged, source: Value) -> tuple[str, list[taps.Axis], Sequence[taps.Folded]] | None:
    """Returns kind and windows of the layer on the source, which has extended edges; None where none computes it."""
    assert isinstance(head.attrs, Attributes)
    g, sizes = head.attrs.geometry, tuple(dims(source)[axis] for axis in _spatial_axes(head))
    pads = []
    both = (g.pads_begin, g.pads_end), enlarged.edges, (enlarged.begin, enlarged.end)
    for own, extended, amounts in zip(*both, strict=True):
        # elements of the extended source beyond those that the convolution reads
        more = [q * scale - amount for q, scale, amount in zip(extended, enlarged.scales, amounts, strict=True)]
        if any(map(min, own, more)):
            return None
        pads.append(tuple(pad - cut for pad, cut in zip(own, more, strict=True)))
    begin, end = pads
    windows = taps.windows(g, enlarged.scales, begin, end, sizes)
    for kind, form in _FORMS:
        if folded := taps.folded(windows, form):
            return kind, windows, folded
    return None


def _padded(head: Node, source: Value, begin: Ints, end: Ints) -> Node:
    """Returns a Pad that extends the edges of a source."""
    lists = []
    for amounts in (begin, end):
        lists.append([0] * source.ndim)
        for axis, amount in zip(_spatial_axes(head), amounts, strict=True):
            lists[-1][axis] = amount
    shape = tuple(n + b + e for n, b, e in zip(dims(source), *lists, strict=True))
    attrs = {"pads_begin": tuple(lists[0]), "pads_end": tuple(lists[1]), "mode": "edge", "value": 0.0}
    return linked(Node(UNSEEN, "Pad", f"{source.name} extended", (source,), attrs), [like(source, shape=shape)])


def _repeated(head: Node, result: Value, windows: Sequence[taps.Axis]) -> list[Node]:
    """Returns ops that repeat the result of a convolution, and cut off what its pads were larger than the head's."""
    axes = _spatial_axes(head)
    sizes = tuple(dims(result)[axis] * window.scale for axis, window in zip(axes, windows, strict=True))
    attrs = {
        "mode": "nearest", "coordinate_transformation_mode": "half_pixel", "data_format": head.attrs["data_format"],
        "sizes": sizes,
    }  # fmt: skip
    shape = list(dims(result))
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    larger = like(result, shape=tuple(shape))
    nodes = [linked(Node(UNSEEN, "Interpolate", head.name, (result,), attrs), [larger])]
    starts = [-window.begin % window.scale for window in windows]
    ends = [start + dims(head.outputs[0])[axis] for axis, start in zip(axes, starts, strict=True)]
    if tuple(ends) != sizes or any(starts):
        cut = {"starts": tuple(starts), "ends": tuple(ends), "axes": tuple(axes), "steps": (1,) * len(axes)}
        node = Node(UNSEEN, "Slice", head.name, (larger,), cut)
        nodes.append(linked(node, [like(head.outputs[0])]))
    return nodes
