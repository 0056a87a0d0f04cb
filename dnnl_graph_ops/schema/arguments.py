"""Checks ints, strings and keywords of users; `what` names the argument in messages."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Signature, signature
from typing import Any, TypeVar, cast

from .. import words
from ..errors import InvalidArgumentError
from ..symbolic import Size

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=str)

INT64_MAX = (1 << 63) - 1
# oneDNN's kernels keep sizes and attributes of sliding windows in 32 bits, and larger numbers wrap
INT32_MAX = (1 << 31) - 1


def is_bool(value: object) -> bool:
    """Whether a value is a bool of Python or NumPy."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def show(value: object) -> str:
    """Returns a short repr."""
    try:
        text = repr(value)
    except ValueError:  # an int with more digits than Python prints
        return "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."


def int64(value: Any, what: str) -> int:
    """Returns `value` as a Python int, or itself if it is a size of a trace; raises TypeError if it is no integer."""
    if is_bool(value):
        raise TypeError(f"{what} must be an int, got the bool {value}")
    try:
        number = cast(int, value) if isinstance(value, Size) else operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an int, got {show(value)} of type {type(value).__name__}") from None
    if not -INT64_MAX - 1 <= number <= INT64_MAX:
        raise InvalidArgumentError(f"{what} = {show(number)} does not fit into 64 bits; use a smaller number")
    return number


def suggest(name: object, known: Iterable[str]) -> str:
    import difflib  # imported here, as only mistakes need it

    lower = {item.lower(): item for item in known}
    close = difflib.get_close_matches(str(name).lower()[:64], lower, n=1)
    return f"; did you mean {lower[close[0]]!r}?" if close else ""


def no_attribute(
    module: str, name: str, known: Iterable[str], others: Mapping[str, str] | None = None
) -> AttributeError:
    """Returns the error for a name that a module lacks; `others`: {name in other packages: name here, or a sentence}.

    Without `others` it is the table of the module in `words.MEMBERS`.
    """
    table = words.MEMBERS.get(module, {}) if others is None else others
    meant = table.get(name) or table.get(name.lower(), "")
    if meant and " " in meant:
        hint = f"; {meant}"
    else:
        hint = f"; did you mean {meant!r}?" if meant else "" if name.startswith("_") else suggest(name, known)
    # without an object the interpreter adds no suggestion of its own
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name, obj=None)


def no_member(item: object, name: str, hint: str = "") -> AttributeError:
    """Returns the error for an attribute that an object lacks, with what it has instead.

    `hint`: "; ..."; else `words.MEMBERS` has it, or it is the public attribute of the nearest name.
    """
    # an existing name is a property that raised the error
    others = () if name.startswith("_") or name in dir(item) else dir(item)
    kind = next((base.__name__ for base in type(item).__mro__ if base.__name__ in words.MEMBERS), "")
    hint = (hint or elsewhere(kind, name)) if others else ""
    hint = hint or suggest(name, [own for own in others if not own.startswith("_")])
    return AttributeError(f"{type(item).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=None)


def elsewhere(kind: str, name: str) -> str:
    """Returns "; ..." with what a class or module has instead of another package's name; "" for unknown names."""
    meant = words.MEMBERS.get(kind, {}).get(name.lower())
    return f"; {meant}" if meant else ""


def unexpected(where: str, name: str, known: Collection[str]) -> TypeError:
    """Returns the error for a keyword that a function lacks."""
    names = [repr(item) for item in words.OTHER_ARGUMENTS.get(name, ()) if item in known]
    if names:
        hint = f"; it is {' and '.join(names)} here"
    elif meant := next((texts[name] for told, texts in words.NO_ARGUMENTS if told in known and name in texts), ""):
        hint = f"; {meant}"
    else:
        hint = suggest(name, known) or f"; its arguments are {', '.join(known)}"
    return TypeError(f"{where}: has no argument {name!r}{hint}")


def keywords_told(function: F) -> F:
    """Returns the function with errors that name the nearest keyword for an unknown one, as Python 3.13 does."""
    own = signature(function).parameters
    where = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        for name in given:
            if name not in own:
                raise unexpected(where, name, [item for item in own if item != "self"])
        return function(*args, **given)

    return cast("F", call)


def spelt(where: str, given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Returns keyword arguments with other packages' names (`words.ARGUMENTS`) replaced by the names of `known`.

    Leaves out arguments that are None.

    Raises:
        TypeError: an unknown name, or both names of one argument.
    """
    result = {name: value for name, value in given.items() if name in known and value is not None}
    for name, value in given.items():
        if name in known:
            continue
        ours = [item for item in words.ARGUMENTS.get(name, ()) if item in known]
        if not ours:
            raise unexpected(where, name, known)
        for item, part in _parts(where, name, value, ours, known).items():
            if item in result:
                raise TypeError(f"{where}: {item!r} and {name!r} say the same; give it once, as {item!r}")
            result[item] = part
    return result


def _parts(where: str, name: str, value: Any, ours: Sequence[str], known: Collection[str]) -> dict[str, Any]:
    """Returns an argument of another package as arguments of ours: of 'padding' also words and pairs for each axis.

    "same" and "valid" are of Keras, pairs ((begin, end), ...) of JAX.
    """
    if value is None:
        return {}
    if isinstance(value, str):
        text = value.strip().lower()
        if "auto_pad" in known and len(ours) == 2 and text != "causal":
            return {"auto_pad": value}
        hint = f"; {words.CAUSAL}" if text == "causal" and len(ours) == 2 else ""
        raise TypeError(f"{where}: {name!r} must be an int, or one per spatial axis, got {value!r}{hint}")
    if len(ours) == 2 and isinstance(value, list | tuple) and value and all(map(_is_pair, value)):
        return dict(zip(ours, zip(*value, strict=True), strict=True))
    return dict.fromkeys(ours, value)


def _is_pair(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def too_many(where: str, known: Collection[str]) -> TypeError:
    """Returns the error for more positional arguments than a function takes."""
    return TypeError(f"{where}: too many positional arguments; give attributes by name: {', '.join(known)}")


def bound(where: str, shape: Signature, args: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call by name; a TypeError lists the function's arguments."""
    try:
        return dict(shape.bind(*args, **given).arguments)
    except TypeError as error:
        names = ", ".join(
            "*" + name if parameter.kind is parameter.VAR_POSITIONAL else name
            for name, parameter in shape.parameters.items()
        )
        raise TypeError(f"{where}: {error}; its arguments are {names}, attributes by name") from None


def one_of(value: object, what: str, allowed: Sequence[S]) -> S:
    """Returns the item of `allowed` that a string names, in any case or by another package's name."""
    if type(value) is str and value in allowed:
        return allowed[allowed.index(value)]
    text = value.strip().lower() if isinstance(value, str) else ""
    for item in allowed:
        if item.lower() == text:
            return item
    # the spelling of padding words in the convolution ops
    shown = [item.lower() for item in allowed] if "None" in allowed else list(allowed)
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, one of {', '.join(shown)}, got {show(value)}")
    # ConvTransposeBackpropFilters has neither of the formats that these names have for a transposed convolution
    older = text in words.FRAMEWORKS and "filter_format" in what
    known = () if older else words.VALUES.get(text, ())
    meant = next((item for item in allowed if item in known), None)
    if meant is not None:
        return meant
    among, other = words.OTHER_VALUES.get(text, ("", ""))
    other = words.OLDER_FILTERS if older else other if among in allowed else ""
    near = [*shown, *(word.upper() for word, ours in words.VALUES.items() if set(ours) & set(allowed))]
    hint = f"; {other}" if other else suggest(value, near)
    raise InvalidArgumentError(f"{what} must be one of {', '.join(shown)}, got {show(value)}{hint}")
