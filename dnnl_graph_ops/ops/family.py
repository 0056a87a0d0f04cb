"""Makes functions whose keywords are the attributes of a family of ops, from the op table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from textwrap import wrap
from typing import Any, TypeVar

from ..schema import BUILDERS, KEYWORDS, Keyword
from ..schema.arguments import bound, spelt
from ..schema.meaning import meaning
from .annotations import Written, annotation
from .document import document

R = TypeVar("R")


def with_keywords(function: Callable[..., Any], family: str) -> Signature:
    """Returns the function's signature with the op's keywords instead of `**attributes`, before its other keywords."""
    own = signature(function)
    kept = [
        p.replace(annotation=Written(p.annotation))
        for p in own.parameters.values()
        if p.kind is not Parameter.VAR_KEYWORD
    ]
    first = sum(p.kind is not Parameter.KEYWORD_ONLY for p in kept)
    kept[first:first] = [
        Parameter(
            word.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if word.default is None else word.default,
            annotation=annotation(word.type, word.choices, word.name),
        )
        for word in KEYWORDS[family].values()
    ]
    return own.replace(parameters=kept, return_annotation=Written(own.return_annotation))


def with_words(text: str | None, family: str) -> str | None:
    """Returns a docstring with the op's keywords instead of the line on `**attributes`."""
    if text is None:
        return None
    before, _, rest = text.partition("**attributes:")
    indent = before[before.rindex("\n") + 1 :]
    lines = _lines(BUILDERS.get(family, "ConvTransposeBackpropFilters"), KEYWORDS[family].values(), len(indent))
    return before + "\n".join(lines).lstrip() + rest[rest.index("\n") :]


def _lines(kind: str, words: Iterable[Keyword], indent: int) -> Iterator[str]:
    begin = " " * indent
    for word in words:
        many = "an int, or one per spatial axis" if word.type == "s64[]" else _either(word.choices)
        what = [meaning(kind).of(word.name).text, *([many] if many else [])]
        text = f"{word.name}: {'; '.join(what)}{'; required' if word.default is None else ''}."
        yield from wrap(text, 116, initial_indent=begin, subsequent_indent=begin + " " * 4)


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if choices else ""


def family(words: str = "conv_transpose", kind: str | None = None) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Shows the op's keywords instead of `**attributes`, and names the right keyword in errors for wrong ones.

    Documents the builder of the op from the op table.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        shape = with_keywords(function, words)
        required = [word.name for word in KEYWORDS[words].values() if word.default is None]

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            given = spelt(function.__name__, kwargs, shape.parameters.keys())
            missing = [name for name in required if name not in given]
            if missing:
                raise TypeError(f"{function.__name__}: {', '.join(missing)} must be given")
            bound(function.__name__, shape, args, given)
            return function(*args, **given)

        call.__doc__ = document(kind, function.__name__, shape) if kind else with_words(function.__doc__, words)
        call.__signature__ = shape  # type: ignore[attr-defined]
        call.__annotations__ = annotated(shape)
        return call

    return decorate


def annotated(shape: Signature) -> dict[str, Any]:
    """Returns `__annotations__` for a function of this signature."""
    found = {name: parameter.annotation for name, parameter in shape.parameters.items()}
    return {**found, "return": shape.return_annotation}
