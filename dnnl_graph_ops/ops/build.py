"""Appends ops to a graph: converts operands, checks attributes and dtypes by the schema, infers shapes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import dtypes, schema, words
from ..errors import InvalidArgumentError, UnsupportedError
from ..graph import Graph, Value, hooks
from ..runtime.arrays import as_array
from ..shapes import Meta, checked


def label(builder: str, name: Any) -> str:
    """Returns the op's name in messages."""
    return f"{builder} {name!r}" if isinstance(name, str) else builder


def graph_of(operands: Sequence[Any], where: str) -> Graph:
    """Returns the graph of the operands.

    Raises:
        TypeError: no operand is a Value.
        InvalidArgumentError: Values of two graphs.
    """
    values = [operand for operand in operands if isinstance(operand, Value)]
    if not values:
        kinds = ", ".join(type(operand).__name__ for operand in operands)
        builder = where.partition(" ")[0]
        hint = f"dgo.{builder} takes arrays" if builder in schema.KEYWORDS else words.ON_ARRAYS.format(builder)
        raise TypeError(
            f"{where}: at least one operand must be a Value of a graph (see Graph.input), got {kinds}; {hint}"
        )
    for value in values:
        values[0].graph._check_owner(value, where)
    return values[0].graph


def as_value(graph: Graph, operand: Any, where: str, slot: str) -> Value:
    """Returns a Value unchanged, an array as a constant."""
    if isinstance(operand, Value):
        return operand
    if operand is None or isinstance(operand, str | bytes):
        raise TypeError(f"{where}: '{slot}' must be a Value or an array, got {type(operand).__name__}")
    array = as_array(operand, f"{where}: '{slot}'")
    dtypes.canonical(array.dtype, f"{where}: '{slot}'")
    return graph.constant(array)


def apply(
    kind: str,
    operands: Sequence[Any],
    attrs: Mapping[str, Any],
    *,
    name: str | None = None,
    dtype: Any = None,
    outputs: int | None = None,
    lenient: bool = False,
    graph: Graph | None = None,
    where: str | None = None,
    default_name: str | None = None,
) -> tuple[Value, ...]:
    """Appends an op of the schema; returns its outputs.

    Args:
        kind: CamelCase kind.
        operands: Values or arrays in the order of the slots.
        attrs: the user's attributes; None stands for an attribute that is left out.
        dtype: of the first output where the inputs do not determine it (TypeCast, Quantize, ...).
        outputs: the number of outputs, where some are optional.
        graph: the operands' graph; None: derived from the operands.
        where: the op's name in messages.
        default_name: the op's name if it is free.
        lenient: for attributes of a file: surplus defaults of lists are dropped, 0 and 1 are booleans.
    """
    spec = schema.OPS[kind]
    where = where or label(spec.builder, name)
    graph = graph or graph_of(operands, where)
    values = [
        operand if isinstance(operand, Value) else as_value(graph, operand, where, _slot(spec, i))
        for i, operand in enumerate(operands)
    ]
    wanted = None if dtype is None else dtypes.canonical(dtype)
    values, given = known_now(kind, values, attrs, where)
    kept, metas = _inferred(kind, [value._meta for value in values], given, where, wanted, outputs, lenient)
    slots = [slot.name for slot in spec.outputs[: len(metas)]]
    return graph._add_node(kind, where, values, kept, metas, slots, name, default_name)


def _slot(spec: schema.OpSchema, index: int) -> str:
    """Returns the name of an input; the variadic slot repeats."""
    return spec.inputs[min(index, len(spec.inputs) - 1)].name


# attributes and outputs by what they follow from; layers of a net are alike
_results: dict[Hashable, tuple[Mapping[str, Any], Sequence[Meta]]] = {}
_MOST_RESULTS, _MOST_ITEMS = 1024, 64
# types whose equal values are written alike
_PLAIN = frozenset((int, str, bool, type(None)))
_SIZES, _INTEGERS = frozenset((int, type(None))), frozenset((int,))


def _inferred(
    kind: str,
    inputs: Sequence[Meta],
    attrs: Mapping[str, Any],
    where: str,
    dtype: str | None,
    outputs: int | None,
    lenient: bool,
) -> tuple[Mapping[str, Any], Sequence[Meta]]:
    """Returns checked attributes of an op and its outputs, as `checked` does; `attrs` are the user's."""
    keys = [_key(value) for value in attrs.values()]
    plain = None not in keys and all(_SIZES.issuperset(map(type, meta.shape)) for meta in inputs)
    key = (kind, *inputs, *attrs, *keys, dtype, outputs, lenient) if plain else None
    found = None if key is None else _results.get(key)
    if found is None:
        ranks = schema.attr_lengths(kind, len(inputs[0].shape) if inputs else 0)
        given = schema.normalise_attrs(kind, attrs, where, ranks=ranks, lenient=lenient)
        found = checked(kind, inputs, given, where, dtype=dtype, outputs=outputs)
        if key is not None:
            if len(_results) >= _MOST_RESULTS:
                _results.clear()
            _results[key] = found
    kept, metas = found
    # a node's attributes are its own
    return dict(kept) if type(kept) is dict else kept, metas


def _key(value: Any) -> Hashable:
    """Returns a key that tells an attribute's type and value, also 1 from 1.0 and 0.0 from -0.0.

    None stands for lists of many items, and for objects other than Python's numbers, strings, lists and tuples.
    """
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is float:
        return kind, repr(value)
    if kind in (list, tuple) and len(value) <= _MOST_ITEMS:
        if _INTEGERS.issuperset(map(type, value)):
            return int, tuple(value)
        types = tuple(map(type, value))
        if _PLAIN.issuperset(types):
            return types, tuple(value)
        items = tuple(map(_key, value))
        return None if None in items else items
    return None


def known_now(
    kind: str, values: Sequence[Value], attrs: Mapping[str, Any], where: str
) -> tuple[list[Value], dict[str, Any]]:
    """Returns inputs and attributes; a constant input of sizes or axes becomes the attribute."""
    stated = schema.OPS[kind].stated
    if stated is None or stated.position >= len(values):
        return list(values), dict(attrs)
    position, attribute = stated.position, stated.attribute
    value = values[position]
    if value.constant is None:
        raise UnsupportedError(
            f"{where}: {kind} takes {attribute} when it is built, not from the "
            f"{'input' if value.node is None else 'result'} {value.name!r}; pass ints or a constant array"
        )
    # the input overrides the attribute
    return list(values[:position]), {**attrs, attribute: value.constant.reshape(-1).tolist()}


def binary(builder: str, left: Any, right: Any) -> Value:
    """Implements arithmetic on Values, arrays and scalars; a scalar gets the other operand's dtype."""
    other = left if isinstance(left, Value) else right
    operands = []
    for operand in (left, right):
        if isinstance(operand, bool) or not isinstance(operand, int | float | np.number):
            operands.append(operand)
            continue
        with np.errstate(over="ignore"):
            array = np.asarray(operand).astype(dtypes.numpy_dtype(other.dtype))
        if not np.isfinite(array.astype(np.float64)) and np.isfinite(float(operand)):
            raise InvalidArgumentError(
                f"{builder}: the scalar {operand} does not fit into {other.dtype}; use a smaller number"
            )
        operands.append(array.reshape((1,) * len(other.shape)))
    return apply(schema.BUILDERS[builder], operands, {})[0]


def unary(builder: str, value: Value, **attrs: Any) -> Value:
    """Appends an op of one Value."""
    return apply(schema.BUILDERS[builder], [value], attrs)[0]


hooks.provide("binary", binary)
hooks.provide("unary", unary)
