"""Builders of the ConvTranspose family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph import Value
from .build import label
from .family import family
from .typed import append, read_shape


@family()
def conv_transpose(
    src: Value | Any, weights: Value | Any, bias: Value | Any = None, *, name: str | None = None, **attributes: Any
) -> Value:
    """ConvTranspose: the gradient of a convolution with respect to its input, as a layer.

    dst = strides * (src - 1) + dilations * (kernel - 1) + 1 - pads_begin - pads_end + output_padding per axis.

    Args:
        src: (N, spatial..., IC) for NXC, (N, IC, spatial...) for NCX; f32, bf16 or f16; 1 to 3 spatial axes.
        weights: IOX (IC, OC/groups, k...), XOI (k..., OC/groups, IC), OIX (OC/groups, IC, k...) or
            XIO (k..., IC, OC/groups); with groups also (IC/groups, OC, k...) and its permutations.
        bias: (OC,), optional, of the same dtype.
        **attributes: the family's.

    Returns:
        dst: (N, spatial..., OC) or (N, OC, spatial...).

    Raises:
        ShapeError: shapes that disagree. InvalidArgumentError: dtypes or attributes out of range.
        TypeError: wrong Python types.

    Source: oneDNN Graph API, ConvTranspose.
    """
    operands = {"src": src, "weights": weights, "bias": bias}
    return append("ConvTranspose", operands, attributes, "conv_transpose", name)


@family()
def conv_transpose_backward_data(
    diff_dst: Value | Any,
    weights: Value | Any,
    *,
    src_shape: Sequence[int] | None = None,
    name: str | None = None,
    **attributes: Any,
) -> Value:
    """ConvTransposeBackwardData: the gradient with respect to src.

    Args:
        diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
        weights: as of `conv_transpose`.
        **attributes: the family's.
        src_shape: the shape of src, checked against the one that diff_dst and the attributes give.

    Returns:
        diff_src: (N, spatial..., IC) or (N, IC, spatial...).

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `conv_transpose`.

    Source: oneDNN Graph API, ConvTransposeBackwardData.
    """
    operands = {"diff_dst": diff_dst, "weights": weights}
    extra = {"src_shape": read_shape(src_shape, "src_shape", label("conv_transpose_backward_data", name))}
    return append("ConvTransposeBackwardData", operands, attributes, "conv_transpose_backward_data", name, extra)


@family()
def conv_transpose_backward_weights(
    src: Value | Any,
    diff_dst: Value | Any,
    weights_shape: Sequence[int] | Any = None,
    *,
    name: str | None = None,
    **attributes: Any,
) -> Value:
    """ConvTransposeBackwardWeights: the gradient with respect to the weights.

    Args:
        src: (N, spatial..., IC) or (N, IC, spatial...).
        diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
        weights_shape: ints, a 1-D integer array or a constant of the graph, in `weights_format`; left out, it is
            derived from src and diff_dst.
        **attributes: the family's.

    Returns:
        diff_weights in the shape that weights_shape asked for, else in the library's grouped shape.

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `conv_transpose`; also when the shapes do not determine the
        kernel size.

    Source: oneDNN Graph API, ConvTransposeBackwardWeights.
    """
    operands = {"src": src, "diff_dst": diff_dst}
    extra = {
        "weights_shape": read_shape(weights_shape, "weights_shape", label("conv_transpose_backward_weights", name))
    }
    return append("ConvTransposeBackwardWeights", operands, attributes, "conv_transpose_backward_weights", name, extra)


@family("conv_transpose_backprop_filters")
def conv_transpose_backprop_filters(
    input_forward: Value | Any,
    output_delta: Value | Any,
    filter_shape_input: Value | Any = None,
    *,
    filter_shape: Sequence[int] | None = None,
    name: str | None = None,
    **attributes: Any,
) -> Value:
    """ConvTransposeBackpropFilters: backward weights under the names of its older specification.

    Args:
        input_forward: the forward input, (N, spatial..., IC) or (N, IC, spatial...).
        output_delta: the gradient of the forward output.
        filter_shape_input: the shape of filters as an integer array or a constant; wins over `filter_shape`.
        **attributes: the family's.
        filter_shape: the same as an attribute. Without either it is derived.

    Returns:
        filter_delta in `filter_format`: XIO (k..., IC, OC/groups) or OIX (OC/groups, IC, k...).

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `conv_transpose_backward_weights`.
    """
    where = label("conv_transpose_backprop_filters", name)
    shape = read_shape(filter_shape_input, "filter_shape", where)
    attribute = read_shape(filter_shape, "filter_shape", where)
    operands = {"input_forward": input_forward, "output_delta": output_delta}
    extra = {"weights_shape": attribute if shape is None else shape}
    return append("ConvTransposeBackpropFilters", operands, attributes, "conv_transpose_backprop_filters", name, extra)
