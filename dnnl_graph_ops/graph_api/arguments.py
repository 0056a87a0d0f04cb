"""Checks arguments of the functions of graph_api: Python types, enumerators, libraries."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, TypeVar

from ..errors import InvalidArgumentError
from ..runtime import Runtime
from ..runtime.libraries import find_runtime
from ..schema.arguments import int64, is_bool, show

T = TypeVar("T")
Member = TypeVar("Member", bound=IntEnum)


def runtime_of(runtime: Runtime | str | None, where: str, kind: str = "cpu") -> Runtime:
    """Returns the Runtime of an object, a name or a path; None: the default of an engine kind."""
    return find_runtime(runtime, kind, where)


def member(enumeration: type[Member], value: Any, where: str) -> Member:
    """Returns the enumerator of an enumerator or of its int value.

    Raises:
        TypeError: an enumerator of another enumeration, or no int. InvalidArgumentError: no such value.
    """
    if isinstance(value, enumeration):
        return value
    path = enumeration.__qualname__
    if isinstance(value, IntEnum) or is_bool(value) or not isinstance(value, int):
        raise TypeError(f"{where} must be {_article(path)}, got {show(value)}{_hint(enumeration, value)}")
    try:
        return enumeration(value)
    except ValueError:
        names = ", ".join(enumeration.__members__)
        raise InvalidArgumentError(f"{where} must be {_article(path)} ({names}), got {show(value)}") from None


def _article(path: str) -> str:
    return f"{'an' if path[0] in 'aeo' else 'a'} {path}"


def _hint(enumeration: type[IntEnum], value: Any) -> str:
    """Returns advice for a message: the enumerator of a name; "f32" is logical_tensor.data_type.f32."""
    name = value if isinstance(value, str) else value.name if isinstance(value, IntEnum) else ""
    return f"; write {enumeration.__qualname__}.{name}" if name in enumeration.__members__ else ""


def identifier(value: Any, where: str) -> int:
    """Returns a checked size_t: an id of an op or logical tensor, an index, a capacity."""
    if isinstance(value, IntEnum):
        raise TypeError(f"{where} must be an int, got {show(value)}")
    number = value if isinstance(value, int) and not is_bool(value) else int64(value, where)
    if not 0 <= number < 1 << 64:
        raise InvalidArgumentError(f"{where} must be from 0 to 2**64 - 1, got {show(number)}")
    return int(number)


def boolean(value: Any, where: str) -> bool:
    if not is_bool(value):
        raise TypeError(f"{where} must be True or False, got {show(value)}")
    return bool(value)


def instance(kind: type[T], value: Any, where: str) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{where} must be of type {kind.__name__}, got {show(value)} of type {type(value).__name__}")
    return value


def instances(kind: type[T], values: Any, where: str) -> list[T]:
    """Returns a checked list or tuple of objects of one class."""
    if not isinstance(values, list | tuple):
        raise TypeError(f"{where} must be a list or tuple of {kind.__name__}, got {show(values)}")
    return [instance(kind, value, f"{where}[{i}]") for i, value in enumerate(values)]


def sequence(value: Any) -> Sequence[Any] | None:
    """Returns a list, tuple or one-dimensional array as a list; None for another object."""
    if getattr(value, "ndim", None) == 1 and hasattr(value, "tolist"):
        return list(value.tolist())
    return list(value) if isinstance(value, list | tuple) else None
