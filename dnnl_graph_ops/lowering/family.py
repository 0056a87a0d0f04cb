"""From a node of the family to a problem, or to the literal op of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..shapes import Attributes, resolved
from .forms.deconvolution import folded, trimmed_rows
from .problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, Sizes, data_view, weights_view
from .program import NativeOp, View
from .tail import Tail

DIRECTIONS: dict[str, str] = {
    "ConvTranspose": FORWARD,
    "ConvTransposeBackwardData": BACKWARD_DATA,
    "ConvTransposeBackwardWeights": BACKWARD_WEIGHTS,
    "ConvTransposeBackpropFilters": BACKWARD_WEIGHTS,
}


def make_problem(
    kind: str,
    attrs: Mapping[str, Any],
    inputs: Sequence[View],
    output: View,
    tail: Tail = (),
    where: str = "",
) -> Problem:
    """The problem of one node; `inputs` and `output` are views in the shapes and formats of the node."""
    record = resolved(kind, [view.shape for view in inputs], attrs, where or kind)
    direction, (first, second, *rest), fmt = DIRECTIONS[kind], inputs, record.data_format
    src, weights, dst = {
        FORWARD: (first, second, output),
        BACKWARD_DATA: (output, second, first),
        BACKWARD_WEIGHTS: (first, output, second),
    }[direction]
    return Problem(
        direction,
        Sizes.of(record.geometry),
        data_view(src, fmt),
        weights_view(weights, record),
        data_view(dst, fmt),
        rest[0] if rest and direction == FORWARD else None,
        tail,
    )


def literal_op(kind: str, attrs: Mapping[str, Any], inputs: Sequence[View], output: View) -> NativeOp | None:
    """The op with the user's own formats as the library takes it, or None where it refuses or is wrong.

    OIX and XIO are transposed views of IOX and XOI.
    """
    record = resolved(kind, [view.shape for view in inputs], attrs, kind)
    literal = literal_attrs(kind, record)
    if literal is None:
        return None
    if DIRECTIONS[kind] == BACKWARD_WEIGHTS:
        weights = _in_library_order(output, record.weights_format)
        literal["weights_shape"] = weights.shape
        return NativeOp("ConvTransposeBackwardWeights", literal, tuple(inputs[:2]), (weights,))
    operands = (inputs[0], _in_library_order(inputs[1], record.weights_format), *inputs[2:])
    return NativeOp(kind, literal, operands, (output,))


def literal_attrs(kind: str, record: Attributes) -> dict[str, Any] | None:
    """What `literal_op` says of the op besides its operands."""
    g, known, direction = record.geometry, record.known, DIRECTIONS[kind]
    if known.weights.documented or any(0 in shape for shape in (*known.operands, known.result)):
        return None
    if direction == BACKWARD_DATA and any(d != 1 for d in g.dilations):
        return None
    ends, *padding, rows = folded(g) if direction == FORWARD else trimmed_rows(g)
    if any(rows):
        return None
    found = {
        "strides": g.strides,
        "pads_begin": g.pads_begin,
        "pads_end": ends,
        "dilations": g.dilations,
        "groups": g.groups,
        "data_format": record.data_format,
        "weights_format": _LIBRARY_FORMAT.get(record.weights_format, record.weights_format),
    }
    if direction == BACKWARD_WEIGHTS:
        found["weights_shape"] = known.result
    return {**found, "output_padding": padding[0]} if padding else found


_LIBRARY_FORMAT = {"OIX": "IOX", "XIO": "XOI"}


def _in_library_order(weights: View, weights_format: str) -> View:
    """A view in one of the two formats that the library knows."""
    if weights_format not in _LIBRARY_FORMAT:
        return weights
    axes = list(range(weights.ndim))
    channels = slice(0, 2) if weights_format == "OIX" else slice(-2, None)
    axes[channels] = axes[channels][::-1]
    return weights.permute(axes)
