"""Pauses Python's garbage collector: a compile makes thousands of objects, of which hardly one is garbage."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0  # of all threads
_enabled = False  # before the first of them


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
                gc.enable()


def _after_fork() -> None:
    global _lock, _pauses
    _lock = threading.Lock()
    if _pauses and _enabled:
        gc.enable()
    _pauses = 0


os.register_at_fork(after_in_child=_after_fork)
