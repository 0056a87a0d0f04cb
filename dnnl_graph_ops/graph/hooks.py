"""Functions of higher layers that methods of Value and Graph call; filled in when the package is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_HOOKS: dict[str, Callable[..., Any]] = {}


def provide(name: str, function: Callable[..., Any]) -> None:
    """Sets the implementation of the hook `name`."""
    _HOOKS[name] = function


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Calls the hook `name`."""
    return _HOOKS[name](*args, **kwargs)
