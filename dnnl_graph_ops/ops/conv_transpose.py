"""Builders of the ConvTranspose family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from ..graph import Value
from ..schema.arguments import names_keywords
from ..shapes import Meta, infer
from ..shapes import conv_transpose as rules
from .build import as_value, graph_of, label

Ints = int | Sequence[int]

DTYPES = ("f32", "bf16", "f16")
_OUTPUTS = {
    "ConvTranspose": "dst",
    "ConvTransposeBackwardData": "diff_src",
    "ConvTransposeBackwardWeights": "diff_weights",
    "ConvTransposeBackpropFilters": "filter_delta",
}
# its specification names the output
_OWN_NAME = {"ConvTransposeBackpropFilters": "filter_delta"}


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


def family_attrs(shape: Sequence[int | None], where: str, values: Mapping[str, Any]) -> rules.Attributes:
    """Attributes checked against the rank of the data."""
    return rules.attributes(len(shape) - 2, where, values)


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
    return rules.integers(value, name, where)


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


@names_keywords
def conv_transpose(
    src: Value | Any,
    weights: Value | Any,
    bias: Value | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    name: str | None = None,
) -> Value:
    """ConvTranspose: the gradient of a convolution with respect to its input, as a layer.

    dst = strides * (src - 1) + dilations * (kernel - 1) + 1 - pads_begin - pads_end + output_padding per axis.

    Args:
        src: (N, spatial..., IC) for NXC, (N, IC, spatial...) for NCX; f32, bf16 or f16; 1 to 3 spatial axes.
        weights: IOX (IC, OC/groups, k...), XOI (k..., OC/groups, IC), OIX (OC/groups, IC, k...) or
            XIO (k..., IC, OC/groups); with groups also (IC/groups, OC, k...) and its permutations.
        bias: (OC,), optional, of the same dtype.
        strides, pads_begin, pads_end, dilations, output_padding: an int, or one per spatial axis.
        auto_pad: none, valid, same_upper or same_lower; explicit pads are ignored unless none.
        groups: divides IC and OC.

    Returns:
        dst: (N, spatial..., OC) or (N, OC, spatial...).

    Raises:
        ShapeError: shapes that disagree. InvalidArgumentError: dtypes or attributes out of range.
        TypeError: wrong Python types.

    Source: oneDNN Graph API, ConvTranspose.
    """
    return _append(
        "ConvTranspose",
        "conv_transpose",
        [("src", src), ("weights", weights), ("bias", bias)],
        _attrs(
            strides,
            pads_begin,
            pads_end,
            dilations,
            auto_pad,
            output_padding,
            groups,
            data_format,
            weights_format,
        ),
        name,
    )


@names_keywords
def conv_transpose_backward_data(
    diff_dst: Value | Any,
    weights: Value | Any,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    src_shape: Sequence[int] | None = None,
    name: str | None = None,
) -> Value:
    """ConvTransposeBackwardData: the gradient with respect to src.

    Args:
        diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
        weights: as of `conv_transpose`.
        src_shape: the shape of src, checked against the one that diff_dst and the attributes give.
        Others: as of `conv_transpose`.

    Returns:
        diff_src: (N, spatial..., IC) or (N, IC, spatial...).

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `conv_transpose`.

    Source: oneDNN Graph API, ConvTransposeBackwardData.
    """
    where = label("conv_transpose_backward_data", name)
    extra = {"src_shape": read_shape(src_shape, "src_shape", where)}
    return _append(
        "ConvTransposeBackwardData",
        "conv_transpose_backward_data",
        [("diff_dst", diff_dst), ("weights", weights)],
        _attrs(
            strides,
            pads_begin,
            pads_end,
            dilations,
            auto_pad,
            output_padding,
            groups,
            data_format,
            weights_format,
        ),
        name,
        extra,
    )


@names_keywords
def conv_transpose_backward_weights(
    src: Value | Any,
    diff_dst: Value | Any,
    weights_shape: Sequence[int] | Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    name: str | None = None,
) -> Value:
    """ConvTransposeBackwardWeights: the gradient with respect to the weights.

    Args:
        src: (N, spatial..., IC) or (N, IC, spatial...).
        diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
        weights_shape: ints, a 1-D integer array or a constant of the graph, in `weights_format`; left out, it is
            derived from src and diff_dst.
        Others: as of `conv_transpose`.

    Returns:
        diff_weights in the shape that weights_shape asked for, else in the library's grouped shape.

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `conv_transpose`; also when the shapes do not determine the
        kernel size.

    Source: oneDNN Graph API, ConvTransposeBackwardWeights.
    """
    where = label("conv_transpose_backward_weights", name)
    extra = {"weights_shape": read_shape(weights_shape, "weights_shape", where)}
    return _append(
        "ConvTransposeBackwardWeights",
        "conv_transpose_backward_weights",
        [("src", src), ("diff_dst", diff_dst)],
        _attrs(
            strides,
            pads_begin,
            pads_end,
            dilations,
            auto_pad,
            output_padding,
            groups,
            data_format,
            weights_format,
        ),
        name,
        extra,
    )


@names_keywords
def conv_transpose_backprop_filters(
    input_forward: Value | Any,
    output_delta: Value | Any,
    filter_shape_input: Value | Any = None,
    *,
    filter_shape: Sequence[int] | None = None,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    dilations: Ints,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    filter_format: str = "XIO",
    name: str | None = None,
) -> Value:
    """ConvTransposeBackpropFilters: backward weights under the names of its older specification.

    Args:
        input_forward: the forward input, (N, spatial..., IC) or (N, IC, spatial...).
        output_delta: the gradient of the forward output.
        filter_shape_input: the shape of filters as an integer array or a constant; wins over `filter_shape`.
        filter_shape: the same as an attribute. Without either it is derived.
        filter_format: XIO (k..., IC, OC/groups) or OIX (OC/groups, IC, k...).
        Others: as of `conv_transpose`; strides, pads and dilations have no default.

    Returns:
        filter_delta in `filter_format`.

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `conv_transpose_backward_weights`.
    """
    where = label("conv_transpose_backprop_filters", name)
    shape = read_shape(filter_shape_input, "filter_shape", where)
    attribute = read_shape(filter_shape, "filter_shape", where)
    extra = {"weights_shape": attribute if shape is None else shape}
    filter_format = rules.choice(filter_format, "filter_format", ("XIO", "OIX"), where)
    return _append(
        "ConvTransposeBackpropFilters",
        "conv_transpose_backprop_filters",
        [("input_forward", input_forward), ("output_delta", output_delta)],
        _attrs(
            strides,
            pads_begin,
            pads_end,
            dilations,
            auto_pad,
            output_padding,
            groups,
            data_format,
            filter_format,
        ),
        name,
        extra,
    )


def _attrs(
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    dilations: Ints,
    auto_pad: str,
    output_padding: Ints,
    groups: int,
    data_format: str,
    weights_format: str,
) -> dict[str, Any]:
    return {
        "strides": strides,
        "pads_begin": pads_begin,
        "pads_end": pads_end,
        "dilations": dilations,
        "auto_pad": auto_pad,
        "output_padding": output_padding,
        "groups": groups,
        "data_format": data_format,
        "weights_format": weights_format,
    }


def resolve(
    kind: str,
    metas: Sequence[Meta],
    slots: Sequence[str],
    attrs: Mapping[str, Any],
    extra: Mapping[str, Any],
    where: str,
) -> tuple[dict[str, Any], Meta]:
    """The checked attributes of a node and its output."""
    check_dtypes(slots, [meta.dtype for meta in metas], where)
    for slot, meta in zip(slots, metas, strict=True):
        if slot != "bias" and not 3 <= len(meta.shape) <= 5:
            raise ShapeError(f"{where}: '{slot}' must have rank 3 to 5 (1 to 3 spatial axes), got shape {meta.shape}")
    checked = {**asdict(family_attrs(metas[0].shape, where, attrs)), **extra}
    return checked, infer(kind, metas, checked, where)[0]


def _append(
    kind: str,
    builder: str,
    operands: Sequence[tuple[str, Any]],
    attrs: Mapping[str, Any],
    name: str | None,
    extra: Mapping[str, Any] | None = None,
) -> Value:
    where = label(builder, name)
    given = [(slot, operand) for slot, operand in operands if slot != "bias" or operand is not None]
    graph = graph_of([operand for _, operand in given], where)
    values = [as_value(graph, operand, where, slot) for slot, operand in given]
    slots = [slot for slot, _ in given]
    checked, meta = resolve(kind, [value.meta for value in values], slots, attrs, extra or {}, where)
    if kind == "ConvTranspose":
        check_scales(values[1], checked["weights_format"], where)
    return graph.add_node(kind, where, values, checked, [meta], [_OUTPUTS[kind]], name, _OWN_NAME.get(kind))[0]
