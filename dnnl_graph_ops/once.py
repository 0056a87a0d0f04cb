"""Properties that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """A property whose first value stays.

    functools.cached_property before Python 3.12 holds one lock for all instances meanwhile, which a child of fork may
    find held for ever. Without it two threads may both compute the value, so it must be the same to everybody.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | once[T]:
        if instance is None:
            return self
        # hidden from the next look-up by what it leaves there, as this has no __set__
        value: T = instance.__dict__.setdefault(self.function.__name__, self.function(instance))
        return value
