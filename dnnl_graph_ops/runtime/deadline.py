"""The time at which calls of a thread end unfinished."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from .._core import call_deadline, set_call_deadline
from ..errors import InvalidArgumentError


def checked(timeout: Any, where: str) -> float:
    """Returns seconds that a call may take, inf for None; raises TypeError or InvalidArgumentError if they are none."""
    if timeout is None:
        return inf
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"{where}: 'timeout' is a number of seconds, or None; got {type(timeout).__name__}")
    if not timeout >= 0:
        raise InvalidArgumentError(f"{where}: 'timeout' must be 0 or more seconds, got {timeout}")
    return float(timeout)


@contextmanager
def after(seconds: float) -> Iterator[None]:
    """Lets calls of this thread end unfinished after `seconds`, or earlier where an outer call says so."""
    before = set_call_deadline(min(call_deadline(), time.monotonic() + seconds))
    try:
        yield
    finally:
        set_call_deadline(before)


def left() -> float | None:
    """Returns the seconds until the calls of this thread end unfinished, at least 0; None: they have any time."""
    at = call_deadline()
    return None if at == inf else max(0.0, at - time.monotonic())
