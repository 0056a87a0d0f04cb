"""Types of parameters as source text, which signatures show without quotes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any


class Written(str):
    """A type as source text."""

    __slots__ = ()
    __repr__ = str.__str__


_TYPES = {
    "s64": "int",
    "s64[]": "int | Sequence[int]",
    "f32": "float",
    "f32[]": "Sequence[float]",
    "bool": "bool",
    "string": "str",
}


def annotation(kind: str, choices: Sequence[str] = (), name: str = "") -> Written:
    """The type of an attribute of the op table: a Literal where it lists choices; those of padding also None."""
    if not choices:
        return Written(_TYPES[kind])
    text = ", ".join(repr(word.lower() if name == "auto_pad" else word) for word in choices)
    return Written(f"Literal[{text}]" + (" | None" if name == "auto_pad" else ""))


def unquote(*owners: Callable[..., Any] | type) -> None:
    """Have signatures of functions, and of the methods of classes, show types without quotes."""
    for owner in owners:
        members = vars(owner).values() if isinstance(owner, type) else (owner,)
        for member in members:
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(function, FunctionType):
                function.__annotations__ = written(function.__annotations__)


def written(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Annotations whose texts show no quotes."""
    return {name: Written(text) if isinstance(text, str) else text for name, text in annotations.items()}
