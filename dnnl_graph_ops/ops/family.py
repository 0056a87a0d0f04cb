"""Functions that take the attributes of a family of ops as keywords, which the op table lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

from ..schema import KEYWORDS, Keyword
from ..schema.arguments import unexpected

R = TypeVar("R")

_TYPES = {"s64[]": "int | Sequence[int]", "s64": "int", "string": "str"}
_TEXTS = {
    "auto_pad": "none, valid, same_upper or same_lower; explicit pads are ignored unless none",
    "groups": "divides IC and OC",
}


def with_keywords(function: Callable[..., Any], family: str) -> Signature:
    """The function's signature with the family's keywords in the place of `**attributes`, before its other ones."""
    own = signature(function)
    kept = [p for p in own.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    first = sum(p.kind is not Parameter.KEYWORD_ONLY for p in kept)
    kept[first:first] = [
        Parameter(
            word.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if word.default is None else word.default,
            annotation=_TYPES[word.type],
        )
        for word in KEYWORDS[family].values()
    ]
    return own.replace(parameters=kept)


def document(text: str | None, family: str) -> str | None:
    """A docstring with the family's keywords in the place of its line on `**attributes`."""
    if text is None:
        return None
    before, _, rest = text.partition("**attributes:")
    indent = before[before.rindex("\n") :]
    return before + indent.join(_lines(KEYWORDS[family].values())) + rest[rest.index("\n") :]


def _lines(words: Iterable[Keyword]) -> Iterator[str]:
    lists: dict[bool, list[Keyword]] = {True: [], False: []}
    for word in words:
        if word.type == "s64[]":
            lists[word.default is None].append(word)
    for required, some in lists.items():
        if some:
            names = ", ".join(word.name for word in some)
            yield f"{names}: an int, or one per spatial axis{'; required' if required else ''}."
    for word in words:
        if word.type != "s64[]":
            yield f"{word.name}: {_TEXTS.get(word.name) or _either(word.choices)}."


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def family(words: str = "conv_transpose") -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Show the family's keywords in the place of `**attributes`, and say which is meant where another's is given."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        shape = with_keywords(function, words)
        required = [word.name for word in KEYWORDS[words].values() if word.default is None]

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            for name in kwargs:
                if name not in shape.parameters:
                    raise unexpected(function.__name__, name, shape.parameters.keys())
            missing = [name for name in required if name not in kwargs]
            if missing:
                raise TypeError(f"{function.__name__}: {', '.join(missing)} must be given")
            return function(*args, **kwargs)

        call.__doc__ = document(function.__doc__, words)
        call.__signature__ = shape  # type: ignore[attr-defined]
        call.__annotations__ = annotated(shape)
        return call

    return decorate


def annotated(shape: Signature) -> dict[str, Any]:
    """What `__annotations__` of a function with this signature is."""
    found = {name: parameter.annotation for name, parameter in shape.parameters.items()}
    return {**found, "return": shape.return_annotation}
