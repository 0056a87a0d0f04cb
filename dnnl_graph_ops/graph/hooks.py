"""What the methods of Value and Graph call in the storeys above; filled in when the package is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_HOOKS: dict[str, Callable[..., Any]] = {}


def provide(name: str, function: Callable[..., Any]) -> None:
    """Give the hook `name` its implementation."""
    _HOOKS[name] = function


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Run the hook `name`."""
    return _HOOKS[name](*args, **kwargs)
