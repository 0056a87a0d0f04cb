"""Converts attributes from the user's spelling to oneDNN's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..errors import InvalidArgumentError
from ..words import counted
from .arguments import INT64_MAX, int64, is_bool, one_of, show, suggest
from .table import OPS, Attr, OpSchema, Version

_F32_MAX = 3.4028234663852886e38


def op_schema(kind: str, where: str) -> OpSchema:
    op = OPS.get(kind)
    if op is None:
        raise InvalidArgumentError(f"{where}: there is no op kind {kind!r}{suggest(kind, OPS)}")
    return op


@lru_cache(1024)
def attr_lengths(kind: str, ndim: int) -> Mapping[str, int]:
    """Returns the length of each per-axis attribute for data of `ndim` axes: `ranks` of normalise_attrs."""
    lengths = {"spatial": max(ndim - 2, 0), "rank": ndim}
    return {name: lengths[attr.length] for name, attr in op_schema(kind, kind).attrs.items() if attr.length}


def normalise_attrs(
    kind: str,
    attrs: Mapping[str, Any],
    where: str,
    *,
    ranks: Mapping[str, int] | None = None,
    lenient: bool = False,
) -> dict[str, Any]:
    """Returns checked attributes in the order of the schema, with defaults filled in.

    None stands for an attribute that is left out. Lists become tuples; a left-out list whose default oneDNN fills in
    (output_padding, dilations of a pooling) stays out.

    Args:
        kind: op kind, "ConvTranspose".
        attrs: the attributes as the user wrote them.
        where: the op's name in messages.
        ranks: lengths of the per-axis attributes (see attr_lengths); an int is repeated to this length, and a list
            of another length is an error.
        lenient: for attributes read from a file: surplus defaults at the end of a list are dropped, 0 and 1 are
            accepted as booleans.

    Raises:
        InvalidArgumentError: an unknown name, a value that is not among the choices or out of range, a wrong
            length, a missing required attribute.
        TypeError: a value of a wrong Python type.
    """
    op = op_schema(kind, where)
    for name in attrs:
        if name not in op.attrs:
            raise InvalidArgumentError(
                f"{where}: {kind} has no attribute {name!r}{suggest(name, op.attrs)}; "
                f"it takes {', '.join(op.attrs) or 'none'}"
            )
    result = {}
    for name, attr in op.attrs.items():
        given = attrs.get(name)
        if given is None:
            if attr.required:
                raise InvalidArgumentError(f"{where}: the attribute {name!r} of {kind} is required; give {_kind(attr)}")
            if attr.default is not None:
                result[name] = attr.default
            continue
        length = ranks.get(name) if ranks else None
        stated = _as_stated(attr, given, length)
        result[name] = _value(attr, given, f"{where}: {name}", length, lenient) if stated is None else stated
    return result


def _as_stated(attr: Attr, given: Any, length: int | None) -> Any:
    """Returns a value that `_value` would return as it is, a list as a tuple; None for all others.

    Most values of models are such ones, and the text for messages takes longer than to see it.
    """
    if attr.type == "string":
        return given if type(given) is str and given in attr.allowed else None
    if attr.type == "bool":
        return given if type(given) is bool else None
    if type(given) in (list, tuple) and attr.type.endswith("[]"):
        plain = length in (None, len(given)) and _are_plain(attr.type[:-2], given)
        return tuple(given) if plain else None
    return None


def native_attrs(kind: str, attrs: Mapping[str, Any], version: Version) -> dict[str, Any]:
    """Returns normalised attributes for a version of oneDNN.

    Leaves out defaults of attributes that the version lacks, and adds attributes that the version requires.
    """
    op = OPS[kind]
    result = {
        name: value
        for name, value in attrs.items()
        if op.attrs[name].since <= version or value != op.attrs[name].default
    }
    required = {name for past in op.past if version < past.until for name in past.required}
    if "zps" in required and "zps" not in result:
        result["zps"] = (0,) * len(result["scales"])
    return result


def _kind(attr: Attr) -> str:
    words = {
        "s64": "an int",
        "s64[]": "a sequence of ints",
        "f32": "a float",
        "f32[]": "a sequence of floats",
        "bool": "True or False",
        "string": "one of " + ", ".join(attr.allowed),
    }[attr.type]
    return f"an int or {words}, one per spatial axis" if attr.length == "spatial" and attr.type == "s64[]" else words


def _value(attr: Attr, given: Any, where: str, length: int | None, lenient: bool) -> Any:
    if attr.type == "string":
        return one_of(given, where, attr.allowed)
    if attr.type == "bool":
        return _bool(given, where, lenient)
    if not attr.type.endswith("[]"):
        return scalar(attr.type, _item(given), where)
    items = _items(attr, given, where, length)
    kind = attr.type[:-2]
    values = tuple(items) if _are_plain(kind, items) else tuple(scalar(kind, item, where) for item in items)
    if lenient and length is not None and attr.fill is not None and set(values[length:]) == {attr.fill}:
        values = values[:length]
    if length is not None and len(values) != length:
        axes = counted(length, "spatial axis" if attr.length == "spatial" else "axis")
        shown = str(values) if len(values) <= 12 else f"({', '.join(map(str, values[:12]))}, ...)"
        raise InvalidArgumentError(
            f"{where} has {counted(len(values), 'value')} for {axes}: {shown}; give one int, or {length}"
        )
    return values


def _item(given: Any) -> Any:
    """Returns the scalar of a 0-d array; other objects unchanged."""
    return given[()] if getattr(given, "ndim", None) == 0 and hasattr(given, "tolist") else given


def _items(attr: Attr, given: Any, where: str, length: int | None) -> Sequence[Any]:
    if type(given) in (list, tuple):
        return given
    given = _item(given)
    if isinstance(given, str | bytes | Mapping | set | frozenset):
        raise TypeError(f"{where} must be {_kind(attr)}, got {show(given)}")
    if hasattr(given, "tolist") and getattr(given, "ndim", 0) > 0:
        if given.ndim != 1:
            raise InvalidArgumentError(f"{where} must be one-dimensional, got an array of shape {given.shape}")
        given = given.tolist()
    if isinstance(given, Iterable):
        return list(given)
    if attr.length and attr.type == "s64[]" and length is None:
        raise InvalidArgumentError(
            f"{where} must be {_kind(attr)}; the number of axes is not known here, got {given!r}"
        )
    repeat = length if attr.length == "spatial" and length is not None else 1
    return [given] * repeat


def _are_plain(kind: str, items: Sequence[Any]) -> bool:
    """Whether items, such as the scales of many channels, are numbers of Python that `scalar` returns as they are."""
    wanted, most = (int, INT64_MAX) if kind == "s64" else (float, _F32_MAX)
    return {*map(type, items)} == {wanted} and all(-most <= item <= most for item in items)


def scalar(kind: str, given: Any, where: str) -> int | float:
    if kind == "s64":
        return int64(given, where)
    if is_bool(given):
        raise TypeError(f"{where} must be a float, got the bool {given}")
    if isinstance(given, str | bytes) or not (hasattr(given, "__float__") or hasattr(given, "__index__")):
        raise TypeError(f"{where} must be a float, got {show(given)}")
    try:
        number = float(given)
        fits = math.isinf(number) or not abs(number) > _F32_MAX
    except OverflowError:
        fits = False
    if not fits:
        raise InvalidArgumentError(f"{where} = {show(given)} does not fit into float32; use a smaller number") from None
    if math.isnan(number):
        raise InvalidArgumentError(f"{where} is NaN; give a number")
    return number


def _bool(given: Any, where: str, lenient: bool) -> bool:
    given = _item(given)
    if is_bool(given) or (lenient and isinstance(given, int) and given in (0, 1)):
        return bool(given)
    raise TypeError(f"{where} must be True or False, got {show(given)}")
