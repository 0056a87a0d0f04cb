"""Annotations as source text, which signatures show without quotes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import unwrap
from types import FunctionType
from typing import Any


class Written(str):
    """A type, as source text."""

    __slots__ = ()
    __repr__ = str.__str__


_PACKAGE = __name__.partition(".")[0]
_TYPES = {
    "s64": "int",
    "s64[]": "int | Sequence[int]",
    "f32": "float",
    "f32[]": "Sequence[float]",
    "bool": "bool",
    "string": "str",
}


def annotation(kind: str, choices: Sequence[str] = (), name: str = "") -> Written:
    """Returns the type of an attribute: a Literal if the op table lists choices; for padding also None."""
    if not choices:
        return Written(_TYPES[kind])
    text = ", ".join(repr(word.lower() if name == "auto_pad" else word) for word in choices)
    return Written(f"Literal[{text}]" + (" | None" if name == "auto_pad" else ""))


def unquote(module: Mapping[str, Any]) -> None:
    """Makes signatures of a module's public functions and methods show types without quotes."""
    for name in module["__all__"]:
        for member in _members(module.get(name)):
            function = unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
            if isinstance(function, FunctionType):
                function.__annotations__ = written(function.__annotations__)


def _members(item: Any) -> Iterator[Any]:
    """Yields an item, or the attributes of a class and of its bases in the package."""
    if not isinstance(item, type):
        yield item
        return
    for base in item.__mro__:
        if base.__module__.startswith(_PACKAGE):
            yield from vars(base).values()


def written(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Returns annotations whose texts show no quotes."""
    return {name: Written(text) if isinstance(text, str) else text for name, text in annotations.items()}
