"""Builders of the Convolution ops; their docstrings are made from the op table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InvalidArgumentError
from ..graph import Value
from .build import label
from .family import family
from .typed import append, read_shape


@family("convolution", "Convolution")
def convolution(
    src: Value | Any, weights: Value | Any, bias: Value | Any = None, *, name: str | None = None, **attributes: Any
) -> Value:
    operands = {"src": src, "weights": weights, "bias": bias}
    return append("Convolution", operands, attributes, "convolution", name)


@family("convolution_backward_data", "ConvolutionBackwardData")
def convolution_backward_data(
    diff_dst: Value | Any,
    weights: Value | Any,
    dst_shape_input: Value | Any = None,
    *,
    dst_shape: Sequence[int] | None = None,
    src_shape: Sequence[int] | None = None,
    name: str | None = None,
    **attributes: Any,
) -> Value:
    where = label("convolution_backward_data", name)
    named = {"dst_shape": dst_shape, "src_shape": src_shape}
    shapes = {slot: read_shape(value, slot, where) for slot, value in named.items() if value is not None}
    if len(set(shapes.values())) > 1:
        raise InvalidArgumentError(f"{where}: 'dst_shape' and 'src_shape' are two names of one shape, got {shapes}")
    stated = read_shape(dst_shape_input, "dst_shape_input", where)
    extra = {"dst_shape": next(iter(shapes.values()), None) if stated is None else stated}
    operands = {"diff_dst": diff_dst, "weights": weights}
    return append("ConvolutionBackwardData", operands, attributes, "convolution_backward_data", name, extra)


@family("convolution", "ConvolutionBackwardWeights")
def convolution_backward_weights(
    src: Value | Any,
    diff_dst: Value | Any,
    weights_shape_input: Value | Any = None,
    *,
    weights_shape: Sequence[int] | None = None,
    name: str | None = None,
    **attributes: Any,
) -> Value:
    where = label("convolution_backward_weights", name)
    shape = read_shape(weights_shape_input, "weights_shape_input", where)
    attribute = read_shape(weights_shape, "weights_shape", where)
    extra = {"weights_shape": attribute if shape is None else shape}
    operands = {"src": src, "diff_dst": diff_dst}
    return append("ConvolutionBackwardWeights", operands, attributes, "convolution_backward_weights", name, extra)
