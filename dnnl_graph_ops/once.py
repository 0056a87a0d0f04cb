"""Properties and answers that are computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
_NONE: Any = object()


class once(Generic[T]):
    """A property that is computed at its first use and kept.

    functools.cached_property before Python 3.12 holds one lock for all instances meanwhile, and a forked child may find
    that lock held for ever. This property takes no lock: two threads may both compute the value, so it must not differ.
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
        # the instance's attribute hides this descriptor from the next look-up, as it has no __set__
        value: T = instance.__dict__.setdefault(self.function.__name__, self.function(instance))
        return value


def answered(answers: dict[Hashable, Any], key: Hashable, work_out: Callable[[], T]) -> T:
    """Returns the answer that is kept under a key; before that works it out, if there is none."""
    # one look-up: hashing a key takes as long as many answers
    answer: T = answers.get(key, _NONE)
    if answer is _NONE:
        answer = answers[key] = work_out()
    return answer
