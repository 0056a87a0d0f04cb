"""Locks that a forked child does not find held by a thread that stayed in the parent, and turns at building."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")

_attributes: dict[weakref.ref[Any], str] = {}


def renew_after_fork(owner: Any, name: str) -> None:
    """In a child, replace the re-entrant lock `owner.name` if nobody there could release it; one lock per owner."""
    _attributes[weakref.ref(owner, _attributes.pop)] = name


class Builds:
    """What takes long to make and is kept then: one thread makes it, others that want it meanwhile wait for theirs."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        renew_after_fork(self, "lock")

    def once(self, find: Callable[[], Made | None], make: Callable[[], Made]) -> Made:
        """What `find` knows, at once; else what `make` returns, one at a time: who waited looks for it again first.

        Where `make` raises, the next one tries itself. A thread that is building already, of which this is a finalizer
        or a signal handler, waits for nobody: others might wait for it.
        """
        found = find()
        if found is not None:
            return found
        if getattr(_this_thread, "builds", False):
            return make()
        with self.lock:
            try:
                _this_thread.builds = True
                found = find()
                return make() if found is None else found
            finally:
                _this_thread.builds = False


_this_thread = threading.local()


def _after_fork() -> None:
    for reference, name in list(_attributes.items()):
        owner = reference()
        if owner is None:
            continue
        lock = getattr(owner, name)
        if lock.acquire(blocking=False):
            # it was free, or is held by the thread that forked
            lock.release()
        else:
            setattr(owner, name, threading.RLock())


os.register_at_fork(after_in_child=_after_fork)
