"""Pauses Python's garbage collector: a compile makes thousands of objects, of which hardly one is garbage."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# new objects from which a pause moves them
_MANY = 1 << 12
# moved objects after which the collector looks at all: so many, and this share of all
_MOST_MOVED, _SHARE = 100_000, 0.25

_lock = threading.Lock()
_pauses = 0  # of all threads
_enabled = False  # before the first of them
_moved = 0  # objects since the collector last looked at all
_most_moved = _MOST_MOVED
_frozen = False  # whether objects were frozen when they were last counted


@contextmanager
def paused() -> Iterator[None]:
    """Disables the collector within this context, which may be open in several threads; enables it if it was."""
    global _pauses, _enabled
    with _lock:
        if not _pauses:
            _enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            # 0 in a child that was forked meanwhile
            _pauses = max(_pauses - 1, 0)
            if not _pauses and _enabled:
                _move()
                gc.enable()
        if _moved > _most_moved and gc.isenabled():
            _collect()


def is_frozen() -> bool:
    """Whether objects were frozen, which must stay so; to count them takes milliseconds, and is done once."""
    global _frozen
    _frozen = _frozen or gc.get_freeze_count() > 0
    return _frozen


def _move() -> None:
    """Moves new objects to the oldest generation as they are: hardly one is garbage, and each would be looked at."""
    global _moved
    made = gc.get_count()[0]
    if made >= _MANY and not is_frozen():
        gc.freeze()
        gc.unfreeze()
        _moved += made


def _collect() -> None:
    """Looks at all objects, as Python would if it counted moved ones."""
    global _moved, _most_moved
    _moved = 0
    gc.collect()
    _most_moved = max(_MOST_MOVED, int(_SHARE * len(gc.get_objects())))


def _after_fork() -> None:
    global _lock, _pauses
    _lock = threading.Lock()
    if _pauses and _enabled:
        gc.enable()
    _pauses = 0


os.register_at_fork(after_in_child=_after_fork)
