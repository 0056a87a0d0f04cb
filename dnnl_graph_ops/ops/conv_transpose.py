"""Builders of the ConvTranspose family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from ..graph import Value
from ..schema import KEYWORDS, OPS
from ..shapes import Attributes, Meta, resolved
from ..shapes.attributes import attributes, integers
from .build import as_value, graph_of, label
from .family import family

DTYPES = OPS["ConvTranspose"].inputs[0].dtypes


def check_dtypes(names: Sequence[str], dtypes: Sequence[str], where: str) -> None:
    """All operands of the family have one dtype: f32, bf16 or f16."""
    for name, dtype in zip(names, dtypes, strict=True):
        if dtype not in DTYPES:
            raise InvalidArgumentError(
                f"{where}: '{name}' has dtype {dtype}; takes {', '.join(DTYPES)}. For int8 see Quantize and Dequantize"
            )
        if dtype != dtypes[0]:
            raise InvalidArgumentError(
                f"{where}: '{names[0]}' has dtype {dtypes[0]}, but '{name}' has {dtype}; convert one of them"
            )


def read_shape(value: Any, name: str, where: str) -> tuple[int, ...] | None:
    """A shape given as a sequence, an integer array, or a constant of the graph."""
    if value is None:
        return None
    if isinstance(value, Value):
        if value.constant is None:
            raise InvalidArgumentError(
                f"{where}: '{name}' must be known when the op is built; pass ints, an array or a constant, not the "
                f"{'input' if value.node is None else 'result'} {value.name!r}"
            )
        value = value.constant
    if getattr(getattr(value, "dtype", None), "kind", "i") not in "iu":
        raise TypeError(f"{where}: '{name}' must be an array of integers, got dtype {value.dtype}")
    return integers(value, name, where)


def check_scales(weights: Value, weights_format: str, where: str) -> None:
    """Scales per channel of quantized weights lie on their output channels.

    Raises:
        InvalidArgumentError: they lie on another axis, which the library would accept and compute wrongly.
    """
    node = weights.node
    if node is None or node.kind != "Dequantize" or node.attrs["qtype"] != "per_channel":
        return
    letters = weights_format.upper()
    channels = letters.index("O") if letters.endswith("X") else weights.ndim + letters.index("O") - 3
    axis = node.attrs["axis"] % weights.ndim
    if axis != channels:
        raise InvalidArgumentError(
            f"{where}: 'weights' come from dequantize {node.name!r} with scales on axis {axis}, but the output "
            f"channels of {letters} weights are axis {channels}; pass axis={channels} to quantize and dequantize"
        )


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
    return _append("ConvTranspose", operands, attributes, "conv_transpose", name)


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
    return _append("ConvTransposeBackwardData", operands, attributes, "conv_transpose_backward_data", name, extra)


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
    return _append("ConvTransposeBackwardWeights", operands, attributes, "conv_transpose_backward_weights", name, extra)


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
    return _append("ConvTransposeBackpropFilters", operands, attributes, "conv_transpose_backprop_filters", name, extra)


FAMILY = {
    builder.__name__: builder
    for builder in (
        conv_transpose,
        conv_transpose_backprop_filters,
        conv_transpose_backward_data,
        conv_transpose_backward_weights,
    )
}


def resolve(
    kind: str,
    metas: Sequence[Meta],
    slots: Sequence[str],
    attrs: Mapping[str, Any],
    extra: Mapping[str, Any],
    where: str,
) -> tuple[Attributes, Meta]:
    """The typed attributes of a node and its output; `extra`: the shape that its result is to have."""
    check_dtypes(slots, [meta.dtype for meta in metas], where)
    for slot, meta in zip(slots, metas, strict=True):
        if slot != "bias" and not 3 <= len(meta.shape) <= 5:
            raise ShapeError(f"{where}: '{slot}' must have rank 3 to 5 (1 to 3 spatial axes), got shape {meta.shape}")
    words = KEYWORDS["conv_transpose" if kind in OPS else "conv_transpose_backprop_filters"]
    record = replace(attributes(len(metas[0].shape) - 2, where, attrs, words), **extra)
    record = resolved(kind, [meta.shape for meta in metas], record, where)
    return record, Meta(record.known.result, metas[0].dtype)


def _append(
    kind: str,
    operands: Mapping[str, Any],
    attrs: Mapping[str, Any],
    builder: str,
    name: str | None,
    extra: Mapping[str, Any] | None = None,
) -> Value:
    where = label(builder, name)
    given = {slot: operand for slot, operand in operands.items() if slot != "bias" or operand is not None}
    graph = graph_of(list(given.values()), where)
    values = [as_value(graph, operand, where, slot) for slot, operand in given.items()]
    record, meta = resolve(kind, [value.meta for value in values], list(given), attrs, extra or {}, where)
    if kind == "ConvTranspose":
        check_scales(values[1], record.weights_format, where)
    # the specification of the older op names its output
    own_name = None if kind in OPS else "filter_delta"
    slot = own_name or OPS[kind].outputs[0].name
    return graph.add_node(kind, where, values, record, [meta], [slot], name, own_name)[0]
