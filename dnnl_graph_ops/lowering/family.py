"""From a node of the family to a problem, or to the literal op of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..shapes import conv_transpose as rules
from .forms.deconvolution import fold_end, trimmed
from .problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Labels, Problem, Sizes, data_view, weights_view
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
    checked = rules.family_attributes(attrs, inputs[0].ndim - 2, where or kind)
    fmt = checked.data_format
    labels = Labels(fmt, checked.weights_format)
    direction = DIRECTIONS[kind]
    if direction == FORWARD:
        geometry, shape = rules.forward(inputs[0].shape, inputs[1].shape, checked, where)
        src, weights, dst = inputs[0], weights_view(inputs[1], checked, shape), output
        bias = inputs[2] if len(inputs) > 2 else None
        return Problem(
            direction, Sizes.of(geometry), data_view(src, fmt), weights, data_view(dst, fmt), bias, tail, labels
        )
    if direction == BACKWARD_DATA:
        geometry, shape = rules.backward_data(
            inputs[0].shape, inputs[1].shape, checked, where, src_shape=attrs.get("src_shape")
        )
        weights = weights_view(inputs[1], checked, shape)
        return Problem(
            direction, Sizes.of(geometry), data_view(output, fmt), weights, data_view(inputs[0], fmt), labels=labels
        )
    geometry, shape = rules.backward_weights(inputs[0].shape, inputs[1].shape, output.shape, checked, where)
    weights = weights_view(output, checked, shape)
    return Problem(
        direction, Sizes.of(geometry), data_view(inputs[0], fmt), weights, data_view(inputs[1], fmt), labels=labels
    )


def literal_op(kind: str, attrs: Mapping[str, Any], inputs: Sequence[View], output: View) -> NativeOp | None:
    """The op with the user's own formats as the library takes it, or None where it refuses or is wrong.

    OIX and XIO are transposed views of IOX and XOI.
    """
    problem = make_problem(kind, attrs, inputs, output)
    g, direction = problem.geometry, problem.direction
    fmt = problem.labels.weights_format
    weights = output if direction == BACKWARD_WEIGHTS else inputs[1]
    checked = rules.family_attributes(attrs, inputs[0].ndim - 2, kind)
    shape = rules.read_weights(weights.shape, checked, kind, in_channels=g.in_channels, out_channels=g.out_channels)
    if shape.documented or any(view.size == 0 for view in (*inputs, output)):
        return None
    if direction == BACKWARD_DATA and any(d != 1 for d in g.dilations):
        return None
    weights, fmt = _library_format(weights, fmt)
    common: dict[str, Any] = {
        "strides": g.strides,
        "pads_begin": g.pads_begin,
        "dilations": g.dilations,
        "groups": g.groups,
        "data_format": problem.labels.data_format,
        "weights_format": fmt,
    }
    if direction == FORWARD:
        ends, padding, surplus = fold_end(problem)
        if any(surplus):
            return None
        attributes = {**common, "pads_end": ends, "output_padding": padding}
        return NativeOp("ConvTranspose", attributes, (inputs[0], weights, *inputs[2:]), (output,))
    ends, diff_dst = trimmed(problem)
    if diff_dst.shape != problem.dst.shape:
        return None
    attributes = {**common, "pads_end": ends}
    if direction == BACKWARD_DATA:
        return NativeOp("ConvTransposeBackwardData", attributes, (inputs[0], weights), (output,))
    attributes["weights_shape"] = weights.shape
    return NativeOp("ConvTransposeBackwardWeights", attributes, tuple(inputs[:2]), (weights,))


def _library_format(weights: View, fmt: str) -> tuple[View, str]:
    """A view in one of the two formats that the library knows."""
    if fmt == "OIX":
        return weights.permute((1, 0, *range(2, weights.ndim))), "IOX"
    if fmt == "XIO":
        last = weights.ndim - 1
        return weights.permute((*range(last - 1), last, last - 1)), "XOI"
    return weights, fmt
