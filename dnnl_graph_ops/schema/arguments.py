"""Single ints and strings as users write them; `what` names the argument in messages."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ..errors import InvalidArgumentError

INT64_MAX = (1 << 63) - 1
# oneDNN's kernels keep the sizes and attributes of sliding windows in 32 bits, and wrap what is larger
INT32_MAX = (1 << 31) - 1

# how other packages call arguments and values, and what may be meant here
_ARGUMENTS = {
    "stride": ("strides",),
    "padding": ("pads_begin", "pads_end"),
    "pad": ("pads_begin", "pads_end"),
    "pads": ("pads_begin", "pads_end"),
    "dilation": ("dilations",),
    "group": ("groups",),
    "kernel_size": ("kernel",),
    "weight": ("weights",),
    "input": ("src",),
    "dim": ("axis", "axes"),
    "keepdim": ("keep_dims",),
    "keepdims": ("keep_dims",),
    "eps": ("epsilon",),
}
_VALUES = {
    **dict.fromkeys(("nhwc", "nwc", "nlc", "ndhwc", "channels_last"), ("NXC",)),
    **dict.fromkeys(("nchw", "ncw", "ncl", "ncdhw", "channels_first"), ("NCX",)),
    **dict.fromkeys(("pytorch", "torch", "onnx"), ("IOX", "OIX")),
    **dict.fromkeys(("keras", "tensorflow"), ("XOI", "XIO")),
    "oihw": ("OIX",),
    "iohw": ("IOX",),
    "hwio": ("XIO",),
    "hwoi": ("XOI",),
}


def is_bool(value: object) -> bool:
    """Python's bool or NumPy's."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def show(value: object) -> str:
    """A short repr."""
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python prints
        return "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."


def int64(value: Any, what: str) -> int:
    """`value` as a Python int; TypeError for anything that is not an integer (bool included)."""
    if is_bool(value):
        raise TypeError(f"{what} must be an int, got the bool {value}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an int, got {show(value)} of type {type(value).__name__}") from None
    if not -INT64_MAX - 1 <= number <= INT64_MAX:
        raise InvalidArgumentError(f"{what} = {show(number)} does not fit into 64 bits; use a smaller number")
    return number


def suggest(name: object, known: Iterable[str]) -> str:
    import difflib  # only mistakes need it

    lower = {item.lower(): item for item in known}
    close = difflib.get_close_matches(str(name).lower()[:64], lower, n=1)
    return f"; did you mean {lower[close[0]]!r}?" if close else ""


def no_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that a module does not have."""
    hint = "" if name.startswith("_") else suggest(name, known)
    # without an object the interpreter has nothing to make a suggestion of its own from
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name, obj=None)


def unexpected(where: str, name: str, known: Collection[str]) -> TypeError:
    """The error for a keyword that a function does not have."""
    meant = [repr(item) for item in _ARGUMENTS.get(name, ()) if item in known]
    hint = f"; it is {' and '.join(meant)} here" if meant else suggest(name, known)
    return TypeError(f"{where}: has no argument {name!r}{hint}")


def one_of(value: object, what: str, allowed: Sequence[str]) -> str:
    """The one of `allowed` that is meant, in any case."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, one of {', '.join(allowed)}, got {show(value)}")
    for item in allowed:
        if item.lower() == value.strip().lower():
            return item
    known = _VALUES.get(value.strip().lower(), ())
    # a family lists its own orders of weights first
    meant = next((item for item in allowed if item in known), None)
    hint = f"; {show(value)} is {meant} here" if meant else suggest(value, allowed)
    raise InvalidArgumentError(f"{what} must be one of {', '.join(allowed)}, got {show(value)}{hint}")
