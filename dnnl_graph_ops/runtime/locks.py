"""Locks that survive a fork, and a lock that builds each result once."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import Timeout
from . import deadline

Made = TypeVar("Made")

_attributes: dict[weakref.ref[Any], str] = {}


def renew_after_fork(owner: Any, name: str) -> None:
    """In a forked child, replace the re-entrant lock `owner.name` where a thread of the parent held it."""
    _attributes[weakref.ref(owner, _attributes.pop)] = name


class Builds:
    """Builds slow results one at a time: threads that want the same result wait for the one that builds it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        renew_after_fork(self, "lock")

    def once(self, find: Callable[[], Made | None], make: Callable[[], Made]) -> Made:
        """Returns `find()`, or `make()` where that is None; a thread that had to wait calls `find` again first.

        Where `make` raises, the next waiting thread calls its own. A thread that is building already (in a finalizer
        or a signal handler) does not wait, since others may wait for it.
        """
        found = find()
        if found is not None:
            return found
        if getattr(_this_thread, "builds", False):
            return make()
        lock = self.lock
        if not lock.acquire(blocking=False):
            seconds = deadline.left()
            if not lock.acquire(timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX)):
                raise Timeout("the call's time is over, while another thread compiled what it needs")
        try:
            _this_thread.builds = True
            found = find()
            return make() if found is None else found
        finally:
            _this_thread.builds = False
            lock.release()


_this_thread = threading.local()


def _after_fork() -> None:
    for reference, name in list(_attributes.items()):
        owner = reference()
        if owner is None:
            continue
        lock = getattr(owner, name)
        if lock.acquire(blocking=False):
            # free, or held by the thread that forked
            lock.release()
        else:
            setattr(owner, name, threading.RLock())


os.register_at_fork(after_in_child=_after_fork)
