"""The table of shape rules, one function per op kind, and checks for all rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

from ..errors import InvalidArgumentError, ShapeError
from ..schema import KEYWORDS, OPS, output_dtypes
from ..schema.arguments import INT64_MAX
from ..words import counted
from .attributes import DATA_FORMATS, Attributes, Resolved

Shape: TypeAlias = tuple[int | None, ...]

MAX_NDIM: Final = 12  # DNNL_MAX_NDIMS
_WIDEST_ITEM: Final = 8
# formats named in messages
_MOST: Final = 3
_FILTERS: Final = "ConvTransposeBackpropFilters"


class Meta(NamedTuple):
    """The shape (None for a dynamic dim) and the canonical dtype of a tensor."""

    shape: Shape
    dtype: str


Rule: TypeAlias = Callable[[Sequence[Meta], Mapping[str, Any], str], list[Meta]]

Parser: TypeAlias = Callable[[Mapping[str, Any], int, str], Attributes]
Resolver: TypeAlias = Callable[[Sequence[Shape], Attributes, str], Resolved]

RULES: Final[dict[str, Rule]] = {}
_RESOLVERS: Final[dict[str, tuple[Parser, Resolver]]] = {}


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Registers the decorated function as the shape rule of op kinds."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return register


def resolver(*kinds: str, parse: Parser) -> Callable[[Resolver], Resolver]:
    """Registers the decorated function, which resolves typed attributes for operands of known shapes.

    `parse`: makes the record from a plain mapping.
    """

    def register(function: Resolver) -> Resolver:
        for kind in kinds:
            _RESOLVERS[kind] = parse, function

            def result(inputs: Sequence[Meta], attrs: Mapping[str, Any], where: str, kind: str = kind) -> list[Meta]:
                shapes = [meta.shape for meta in inputs]
                return [Meta(resolved(kind, shapes, attrs, where).known.result, inputs[0].dtype)]

            rule(kind)(result)
        return function

    return register


def resolved(
    kind: str, shapes: Sequence[Shape], attrs: Mapping[str, Any], where: str, wanted: Shape | None = None
) -> Attributes:
    """Returns the typed attributes of a convolution op, resolved for operands of these shapes.

    Attributes that are resolved already are returned unchanged. `wanted`: the shape of an array for the result.

    Raises:
        ShapeError, InvalidArgumentError: as `checked`; the message names formats in which the shapes would fit.
    """
    parse, resolve = _RESOLVERS[kind]
    record = attrs if isinstance(attrs, Attributes) else parse(attrs, len(shapes[0]) - 2, where)
    operands = tuple(shapes)
    if record.resolved is not None and record.resolved.operands == operands:
        return record
    try:
        resolved = resolve(operands, record, where)
        if wanted is not None and resolved.result != wanted:
            raise ShapeError(f"{where}: 'out': has shape {wanted}, expected {resolved.result}")
    except ShapeError as error:
        orders = _fitting_orders(kind, resolve, operands, record, wanted)
        if not orders and len(operands) > 1 and len(operands[1]) == len(operands[0]) + 1:
            orders = f"data of shape {operands[0]} that has no batch axis gets one by src[None]"
        raise ShapeError(f"{error}; {orders}" if orders else str(error)) from None
    if record is attrs:
        return replace(record, resolved=resolved)
    # made here, so that nobody else has it: `replace` takes as long as the inference
    object.__setattr__(record, "resolved", resolved)
    return record


def _fitting_orders(
    kind: str, resolve: Resolver, operands: Sequence[Shape], attrs: Attributes, wanted: Shape | None = None
) -> str:
    """Returns the formats in which all shapes fit, PyTorch's first, for messages; empty if there are none.

    wanted: the wanted shape of the result.
    """
    family = KEYWORDS["conv_transpose_backprop_filters" if kind == _FILTERS else "conv_transpose"]
    word = next(word for word in family.values() if word.attribute == "weights_format")
    pytorch = "" if kind == _FILTERS else OPS[kind.partition("Backward")[0]].pytorch

    def fits(data_format: str, weights_format: str) -> bool:
        other = replace(attrs, data_format=data_format, weights_format=weights_format, resolved=None)
        try:
            found = resolve(operands, other, kind)
        except InvalidArgumentError:
            return False
        return wanted is None or found.result == wanted

    given = attrs.data_format, attrs.weights_format
    fit = [pair for pair in product(DATA_FORMATS, word.choices) if pair != given and fits(*pair)]
    fit.sort(key=lambda pair: (pair != ("NCX", pytorch), pair[0] == "NXC", pair[1] != pytorch))
    apart = any(data_format != attrs.data_format for data_format, _ in fit)

    def named() -> Iterator[str]:
        for data_format, weights_format in fit[:_MOST]:
            about_data = f"data_format={data_format!r}, " if apart else ""
            whose = "" if weights_format != pytorch else " (PyTorch's order of weights)"
            if (data_format, weights_format) == ("NCX", pytorch):
                whose = " (PyTorch's order)"
            yield f"{about_data}{word.name}={weights_format!r}{whose}"

    return f"all shapes fit with {', or with '.join(named())}" if fit else ""


def checked(
    kind: str,
    inputs: Sequence[Meta],
    attrs: Mapping[str, Any],
    where: str,
    *,
    dtype: str | None = None,
    outputs: int | None = None,
) -> tuple[Mapping[str, Any], list[Meta]]:
    """Returns the attributes of an op, typed if its kind has typed attributes, and the outputs.

    Args:
        kind: op kind.
        inputs: shape and dtype of every input.
        attrs: normalised attributes (schema.normalise_attrs).
        where: the op's name in messages.
        dtype: dtype of the first output where the inputs do not determine it (Quantize, TypeCast, MatMul, Add).
        outputs: the number of outputs; by default the number that inputs and attributes determine. Only SoftMax
            (stats) and Dropout (mask) have more.

    Raises:
        ShapeError: shapes that disagree with each other or with the attributes, or sizes beyond 64 bits.
        InvalidArgumentError: an unknown kind, a dtype or a number of tensors that the op lacks, attributes that
            contradict each other.
    """
    function = RULES.get(kind)
    if function is None:
        raise InvalidArgumentError(f"{where}: there is no op kind {kind!r}")
    op = OPS.get(kind)
    dtypes: tuple[str, ...] = ()
    if op is not None and op.output_counts:
        dtypes = output_dtypes(kind, [meta.dtype for meta in inputs], where, dtype)
    for i, meta in enumerate(inputs):
        check_sizes(meta.shape, where, f"input {i}")
    if kind in _RESOLVERS:
        attrs = resolved(kind, [meta.shape for meta in inputs], attrs, where)
    results = function(inputs, attrs, where)
    if op is not None and results:
        results = [Meta(meta.shape, name) for meta, name in zip(results, dtypes, strict=False)]
        usual = len(results) - sum(slot.on_request for slot in op.outputs)
        count = outputs if outputs is not None else usual
        if count not in op.output_counts or count > len(results):
            raise InvalidArgumentError(f"{where}: {kind} has {counted(len(results), 'output')} here, not {count}")
        results = results[:count]
    for i, meta in enumerate(results):
        check_sizes(meta.shape, where, f"output {i}")
    return attrs, results


def check_sizes(shape: Shape, where: str, what: str) -> None:
    """Raises for negative dims, too many dims, and sizes whose bytes or strides exceed 64 bits."""
    if len(shape) > MAX_NDIM:
        raise ShapeError(f"{where}: {what} has {len(shape)} dimensions; oneDNN takes at most {MAX_NDIM}")
    elements = 1
    for dim in shape:
        if dim is None:
            continue
        if dim < 0:
            raise ShapeError(f"{where}: {what} would have the shape {shape} with the negative size {dim}")
        elements *= dim or 1
    if elements > INT64_MAX // _WIDEST_ITEM:
        raise ShapeError(f"{where}: {what} of shape {shape} has more bytes than 64 bits can count; use smaller sizes")
