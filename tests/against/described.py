"""Objects of the extension as the calls that made them, in plain values that JSON holds."""

import ast
import functools
import hashlib
import inspect
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from commas import at_commas

_NAME = re.compile(r"\s*(\w+):")
_REQUIRED = object()


class Descriptions:
    """Objects by identity: pybind11's compare and hash as they please. An entry goes with its object, or keeps it."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Callable[[], Any], Any]] = {}

    def __setitem__(self, item: Any, description: Any) -> None:
        key = id(item)
        try:
            reference: Callable[[], Any] = weakref.ref(item, lambda _: self._entries.pop(key, None))
        except TypeError:
            reference = functools.partial(_same, item)
        self._entries[key] = reference, description

    def get(self, item: Any) -> Any:
        """The description of `item`, None without one."""
        reference, description = self._entries.get(id(item), (None, None))
        return description if reference is not None and reference() is item else None

    def plain(self, value: Any) -> Any:
        """`value` in numbers, texts, lists and the descriptions of objects."""
        if value is None or isinstance(value, (bool, float, str)):
            return value
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, (bytes, np.ndarray)):
            return f"sha1 {digest(value)}"
        if isinstance(value, Mapping):
            return {str(key): self.plain(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.plain(item) for item in value]
        description = self.get(value)
        return f"a {type(value).__name__}" if description is None else description


def _same(item: Any) -> Any:
    return item


def digest(value: Any) -> str:
    """Of an array's dtype, shape and bytes, or of bytes."""
    sha = hashlib.sha1()
    if not isinstance(value, bytes):
        array = np.asarray(value)
        sha.update(f"{array.dtype} {array.shape} ".encode())
        value = np.ascontiguousarray(array).tobytes()
    sha.update(value)
    return sha.hexdigest()[:16]


def signature(function: Callable[..., Any]) -> dict[str, Any]:
    """Arguments by name, and their defaults: as inspect reads them, else as pybind11's docstring has them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return _of_text(function.__doc__)
    return {parameter.name: _default(parameter.default) for parameter in parameters}


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty:
        return _REQUIRED
    return _EMPTY if value is ... else value


def _of_text(doc: str | None) -> dict[str, Any]:
    """Of "copy(shape: ..., zeros: int = 0) -> ..."."""
    head = (doc or "").partition(" -> ")[0]
    _, _, inside = head.partition("(")
    names = {}
    for part in at_commas(inside.rstrip().removesuffix(")")):
        match = _NAME.match(part)
        if match:
            _, equals, default = part.rpartition(" = ")
            names[match[1]] = _literal(default) if equals else _REQUIRED
    return names


def _literal(text: str) -> Any:
    """An object that is no literal, such as `<Epilogue object at 0x7f...>`, is one without contents."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _EMPTY


class _Empty:
    """Equal to whatever is false."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return not other


_EMPTY = _Empty()


def arguments(names: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name without those that equal their default, however the call wrote them."""
    order = [*names, *(f"argument {i}" for i in range(len(names), len(args)))]
    given = {**dict(zip(order, args, strict=False)), **kwargs}
    return {name: value for name, value in given.items() if not _equals(value, names.get(name, _REQUIRED))}


def _equals(value: Any, default: Any) -> bool:
    if default is _REQUIRED:
        return False
    if isinstance(default, (list, tuple)):
        return isinstance(value, (list, tuple)) and list(value) == list(default)
    return bool(default == value)
