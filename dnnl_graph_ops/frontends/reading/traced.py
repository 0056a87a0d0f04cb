"""Calls of PyTorch's ops as data, for nodes of a traced program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...errors import InvalidArgumentError
from ...graph.array_file import field

DOMAIN = "torch"
_MOST_DEPTH = 8


class Operand(NamedTuple):
    """Stands for a tensor among the arguments of a call: input `number` of the node."""

    number: int


class Size(NamedTuple):
    """Stands for a computed number: input `number` of the node."""

    number: int


class Earlier(NamedTuple):
    """Stands for result `part` of the node's call `number`."""

    number: int
    part: int


class Other(NamedTuple):
    """An argument that is neither a tensor nor a number, such as a dtype: its kind and name."""

    kind: str
    name: str


class OpCall(NamedTuple):
    """An op's name, such as aten.topk.default, and its arguments by name in the schema's order.

    An argument is None, a bool, a number, a str, a class above, or a list of these.
    """

    op: str
    arguments: Mapping[str, Any]


class Traced(NamedTuple):
    """A sequence of `calls`, and the dtype and shape of each result of the last call.

    Dtypes that the package lacks have NumPy's name; dynamic sizes are None.
    """

    calls: tuple[OpCall, ...]
    results: tuple[tuple[str, tuple[int | None, ...]], ...]


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Returns an argument with `function` applied to the items of its lists."""
    return [mapped(item, function) for item in value] if isinstance(value, list) else function(value)


# numbers that JSON lacks, by their names in records
_KINDS: dict[str, Callable[..., Any]] = {
    "operand": Operand, "size": Size, "earlier": Earlier, "other": Other, "complex": complex,
}  # fmt: skip
_NAMES = {kind: name for name, kind in _KINDS.items()}


def of_traced(traced: Traced) -> dict[str, Any]:
    """Returns the record for JSON."""

    def encoded(value: Any) -> Any:
        name = _NAMES.get(type(value))
        fields = [value.real, value.imag] if isinstance(value, complex) else value
        return value if name is None else {name: list(fields)}

    calls = [
        [op, {name: mapped(value, encoded) for name, value in arguments.items()}] for op, arguments in traced.calls
    ]
    return {"calls": calls, "results": traced.results}


def traced_of(record: Any, where: str) -> Traced:
    """Returns the Traced of a record of `of_traced`.

    Raises:
        InvalidArgumentError: lists deeper than any op takes. TypeError, ValueError, LookupError: another record.
    """

    def decoded(value: Any, depth: int = 0) -> Any:
        if depth > _MOST_DEPTH:
            raise InvalidArgumentError(f"{where}: arguments that hold each other more than {_MOST_DEPTH} deep")
        if isinstance(value, list):
            return [decoded(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        ((kind, fields),) = value.items()
        return _KINDS[kind](*fields)

    calls = tuple(
        OpCall(op, {name: decoded(value) for name, value in arguments.items()})
        for op, arguments in field(record, "calls", list, where)
    )
    results = tuple((dtype, tuple(shape)) for dtype, shape in field(record, "results", list, where))
    return Traced(calls, results)
