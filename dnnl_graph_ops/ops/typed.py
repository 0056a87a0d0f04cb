"""Builds nodes of convolution ops: checks operands, types attributes, infers results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import InvalidArgumentError, ShapeError
from ..graph import Value
from ..schema import KEYWORDS, OPS, kinds
from ..shapes import Attributes, Meta, resolved
from ..shapes.attributes import attributes, integers
from ..shapes.common import channel_axes
from ..shapes.registry import Shape
from .build import as_value, graph_of, label

# {kind: family of its builder's keywords}
WORDS = {kind: op.keywords for kind, op in OPS.items() if op.keywords} | {
    "ConvTransposeBackpropFilters": "conv_transpose_backprop_filters"
}
# kinds whose weights may be quantized
SCALED = kinds("convolves")
DTYPES = OPS["ConvTranspose"].inputs[0].dtypes


def check_dtypes(names: Sequence[str], dtypes: Sequence[str], where: str) -> None:
    """Checks that all operands have one dtype: f32, bf16 or f16."""
    for name, dtype in zip(names, dtypes, strict=True):
        if dtype not in DTYPES:
            raise InvalidArgumentError(
                f"{where}: '{name}' has dtype {dtype}; takes {', '.join(DTYPES)}; convert it with "
                f"array.astype(np.float32), or see Quantize and Dequantize for int8"
            )
        if dtype != dtypes[0]:
            raise InvalidArgumentError(
                f"{where}: '{names[0]}' has dtype {dtypes[0]}, but '{name}' has {dtype}; convert one of them"
            )


def read_shape(value: Any, name: str, where: str) -> tuple[int, ...] | None:
    """Reads a shape from a sequence, an integer array, or a constant of the graph."""
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
    """Checks that per-channel scales of quantized weights are along the output channels.

    Raises:
        InvalidArgumentError: the scales are along another axis, which oneDNN would accept and compute wrongly.
    """
    node = weights.node
    if node is None or node.kind != "Dequantize" or node.attrs["qtype"] != "per_channel":
        return
    _, channels = channel_axes(weights_format, weights.ndim)
    axis = node.attrs["axis"] % weights.ndim
    if axis != channels:
        raise InvalidArgumentError(
            f"{where}: 'weights' come from dequantize {node.name!r} with scales on axis {axis}, but the output "
            f"channels of {weights_format} weights are axis {channels}; pass axis={channels} to quantize and dequantize"
        )


def resolve(
    kind: str,
    metas: Sequence[Meta],
    slots: Sequence[str],
    attrs: Mapping[str, Any],
    extra: Mapping[str, Any],
    where: str,
    wanted: Shape | None = None,
) -> tuple[Attributes, Meta]:
    """Returns the typed attributes of a node and its output.

    extra: the attribute with the result's shape. wanted: the shape of an array for the result.
    """
    check_dtypes(slots, [meta.dtype for meta in metas], where)
    for slot, meta in zip(slots, metas, strict=True):
        if slot != "bias" and not 3 <= len(meta.shape) <= 5:
            raise ShapeError(f"{where}: '{slot}' must have rank 3 to 5 (1 to 3 spatial axes), got shape {meta.shape}")
    words = KEYWORDS[WORDS[kind]]
    record = replace(attributes(len(metas[0].shape) - 2, where, attrs, words), **extra)
    record = resolved(kind, [meta.shape for meta in metas], record, where, wanted)
    return record, Meta(record.known.result, metas[0].dtype)


def append(
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
    record, meta = resolve(kind, [value._meta for value in values], list(given), attrs, extra or {}, where)
    if kind in SCALED:
        check_scales(values[1], record.weights_format, where)
    # the older op's specification has this name for the output
    own_name = None if kind in OPS else "filter_delta"
    slot = own_name or OPS[kind].outputs[0].name
    return graph._add_node(kind, where, values, record, [meta], [slot], name, own_name)[0]
