"""Builders of the Convolution family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InvalidArgumentError
from ..graph import Value
from .build import label
from .family import family
from .typed import append, read_shape


@family("convolution")
def convolution(
    src: Value | Any, weights: Value | Any, bias: Value | Any = None, *, name: str | None = None, **attributes: Any
) -> Value:
    """Convolution.

    dst = floor((src + pads_begin + pads_end - dilations * (kernel - 1) - 1) / strides) + 1 per axis.

    Args:
        src: (N, spatial..., IC) for NXC, (N, IC, spatial...) for NCX; f32, bf16 or f16; 1 to 3 spatial axes.
        weights: OIX (OC, IC/groups, k...), XIO (k..., IC/groups, OC), IOX (IC/groups, OC, k...) or
            XOI (k..., OC, IC/groups).
        bias: (OC,), optional, of the same dtype.
        **attributes: the family's.

    Returns:
        dst: (N, spatial..., OC) or (N, OC, spatial...).

    Raises:
        ShapeError: shapes that disagree. InvalidArgumentError: dtypes or attributes out of range.
        TypeError: wrong Python types.

    Source: oneDNN Graph API, Convolution.
    """
    operands = {"src": src, "weights": weights, "bias": bias}
    return append("Convolution", operands, attributes, "convolution", name)


@family("convolution_backward_data")
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
    """ConvolutionBackwardData: the gradient with respect to src.

    Args:
        diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
        weights: as of `convolution`.
        dst_shape_input: the shape of diff_src as an integer array or a constant of the graph; wins over `dst_shape`.
        **attributes: the family's.
        dst_shape, src_shape: two names of the same as an attribute. Without any of them diff_src has the smallest
            sizes that lead to diff_dst, and output_padding more.

    Returns:
        diff_src: (N, spatial..., IC) or (N, IC, spatial...).

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `convolution`.

    Source: oneDNN Graph API, ConvolutionBackwardData.
    """
    where = label("convolution_backward_data", name)
    named = {"dst_shape": dst_shape, "src_shape": src_shape}
    shapes = {slot: read_shape(value, slot, where) for slot, value in named.items() if value is not None}
    if len(set(shapes.values())) > 1:
        raise InvalidArgumentError(f"{where}: 'dst_shape' and 'src_shape' are two names of one shape, got {shapes}")
    stated = read_shape(dst_shape_input, "dst_shape_input", where)
    extra = {"dst_shape": next(iter(shapes.values()), None) if stated is None else stated}
    operands = {"diff_dst": diff_dst, "weights": weights}
    return append("ConvolutionBackwardData", operands, attributes, "convolution_backward_data", name, extra)


@family("convolution")
def convolution_backward_weights(
    src: Value | Any,
    diff_dst: Value | Any,
    weights_shape_input: Value | Any = None,
    *,
    weights_shape: Sequence[int] | None = None,
    name: str | None = None,
    **attributes: Any,
) -> Value:
    """ConvolutionBackwardWeights: the gradient with respect to the weights.

    Args:
        src: (N, spatial..., IC) or (N, IC, spatial...).
        diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
        weights_shape_input: the shape of weights in `weights_format`, as an integer array or a constant of the graph;
            wins over `weights_shape`.
        **attributes: the family's.
        weights_shape: the same as an attribute. Without either it is derived, where src and diff_dst determine it.

    Returns:
        diff_weights in `weights_format`.

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `convolution`; also when the shapes do not determine the
        kernel size.

    Source: oneDNN Graph API, ConvolutionBackwardWeights.
    """
    where = label("convolution_backward_weights", name)
    shape = read_shape(weights_shape_input, "weights_shape_input", where)
    attribute = read_shape(weights_shape, "weights_shape", where)
    extra = {"weights_shape": attribute if shape is None else shape}
    operands = {"src": src, "diff_dst": diff_dst}
    return append("ConvolutionBackwardWeights", operands, attributes, "convolution_backward_weights", name, extra)
