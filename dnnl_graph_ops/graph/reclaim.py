"""Constants of dropped graphs, given back in time.

Values know their graph and the graph its values, so only Python's collector frees them; and it counts objects, not
the megabytes of their constants. What it has freed goes back to the system.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from .._core import noting_freed
from ..runtime.locks import renew_after_fork

# Constants that may pile up before the first collection, or where few survived it
SLACK_BYTES = 8 << 20


class _Counted(weakref.ref["np.ndarray[Any, Any]"]):
    nbytes = 0


_lock = threading.RLock()
renew_after_fork(sys.modules[__name__], "_lock")
_live = 0
_limit = SLACK_BYTES
_counted: dict[int, _Counted] = {}
# Counted when the next constant is: finalizers run no Python code, in which a Ctrl-C would be lost.
_gone: deque[_Counted] = deque()
_note = noting_freed(_gone.append)


def account(array: np.ndarray[Any, Any]) -> None:
    """Count a graph's constant while it lives; collect dropped graphs once the counted bytes have doubled."""
    global _limit
    reference = _Counted(array, _note)
    reference.nbytes = array.nbytes
    with _lock:
        _counted[id(reference)] = reference
        due = _count(array.nbytes) > _limit
    if due:
        gc.collect()
        with _lock:
            live = _count(0)
            _limit = live + max(live, SLACK_BYTES)


def _count(more: int) -> int:
    """Bytes that live, with so many more."""
    global _live
    _live += more
    while _gone:
        gone = _gone.popleft()
        _live -= _counted.pop(id(gone)).nbytes
    return _live
