"""Locks that a forked child does not find held by a thread that stayed in the parent."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_attributes: dict[weakref.ref[Any], str] = {}


def renew_after_fork(owner: Any, name: str) -> None:
    """In a child, replace the re-entrant lock `owner.name` if nobody there could release it; one lock per owner."""
    _attributes[weakref.ref(owner, _attributes.pop)] = name


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
