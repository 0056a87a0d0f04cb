"""Builders of the ConvTranspose ops; their docstrings are made from the op table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph import Value
from .build import label
from .family import family
from .typed import append, read_shape


@family("conv_transpose", "ConvTranspose")
def conv_transpose(
    src: Value | Any, weights: Value | Any, bias: Value | Any = None, *, name: str | None = None, **attributes: Any
) -> Value:
    operands = {"src": src, "weights": weights, "bias": bias}
    return append("ConvTranspose", operands, attributes, "conv_transpose", name)


@family("conv_transpose", "ConvTransposeBackwardData")
def conv_transpose_backward_data(
    diff_dst: Value | Any,
    weights: Value | Any,
    *,
    src_shape: Sequence[int] | None = None,
    name: str | None = None,
    **attributes: Any,
) -> Value:
    operands = {"diff_dst": diff_dst, "weights": weights}
    extra = {"src_shape": read_shape(src_shape, "src_shape", label("conv_transpose_backward_data", name))}
    return append("ConvTransposeBackwardData", operands, attributes, "conv_transpose_backward_data", name, extra)


@family("conv_transpose", "ConvTransposeBackwardWeights")
def conv_transpose_backward_weights(
    src: Value | Any,
    diff_dst: Value | Any,
    weights_shape: Sequence[int] | Any = None,
    *,
    name: str | None = None,
    **attributes: Any,
) -> Value:
    operands = {"src": src, "diff_dst": diff_dst}
    extra = {
        "weights_shape": read_shape(weights_shape, "weights_shape", label("conv_transpose_backward_weights", name))
    }
    return append("ConvTransposeBackwardWeights", operands, attributes, "conv_transpose_backward_weights", name, extra)


@family("conv_transpose_backprop_filters", "ConvTransposeBackpropFilters")
def conv_transpose_backprop_filters(
    input_forward: Value | Any,
    output_delta: Value | Any,
    filter_shape_input: Value | Any = None,
    *,
    filter_shape: Sequence[int] | None = None,
    name: str | None = None,
    **attributes: Any,
) -> Value:
    where = label("conv_transpose_backprop_filters", name)
    shape = read_shape(filter_shape_input, "filter_shape", where)
    attribute = read_shape(filter_shape, "filter_shape", where)
    operands = {"input_forward": input_forward, "output_delta": output_delta}
    extra = {"weights_shape": attribute if shape is None else shape}
    return append("ConvTransposeBackpropFilters", operands, attributes, "conv_transpose_backprop_filters", name, extra)
