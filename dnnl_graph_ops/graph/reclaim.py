"""Frees constants of dropped graphs in time.

A graph and its values refer to each other, so only Python's garbage collector frees them, and the collector counts
objects, not the megabytes of their constants. Freed memory goes back to the system.
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

# bytes of constants that may accumulate before the first collection, or after one that few constants survived
SLACK_BYTES = 8 << 20


class _Counted(weakref.ref["np.ndarray[Any, Any]"]):
    __slots__ = ("nbytes", "turn")
    nbytes: int
    turn: int


_lock = threading.RLock()
renew_after_fork(sys.modules[__name__], "_lock")
_live = 0
_limit = SLACK_BYTES
# the graph of the newest constant, how often this graph changed, and the bytes of its constants since
_growing: weakref.ref[Any] | None = None
_turn = 0
_growth = 0
_counted: dict[int, _Counted] = {}
# Freed bytes are counted with the next constant: a finalizer in Python could swallow a Ctrl-C.
_gone: deque[_Counted] = deque()
_note = noting_freed(_gone.append)


def account(array: np.ndarray[Any, Any], graph: object = None) -> None:
    """Counts a constant while it lives; collects dropped graphs once the counted bytes have doubled.

    `graph`: the constant's graph, whose newest constants do not count while it grows, since it is not dropped.
    None: elements that are read again for a short time.
    """
    global _growing, _growth, _limit, _turn
    reference = _Counted(array, _note)
    reference.nbytes, reference.turn = array.nbytes, -1
    with _lock:
        if graph is not None:
            if _growing is None or _growing() is not graph:
                _growing, _turn, _growth = weakref.ref(graph), _turn + 1, 0
            reference.turn = _turn
            _growth += array.nbytes
        _counted[id(reference)] = reference
        # apart from the only graph that ever got one there is nothing to collect
        due = _count(array.nbytes) > _limit and graph is not None and _turn > 1
    if due:
        gc.collect()
        with _lock:
            live = _count(0)
            _limit = live + max(live, SLACK_BYTES)


def _count(more: int) -> int:
    """Adds to the live bytes, and returns them without those of the growing graph."""
    global _growth, _live
    _live += more
    while _gone:
        reference = _counted.pop(id(_gone.popleft()))
        _live -= reference.nbytes
        _growth -= reference.nbytes if reference.turn == _turn else 0
    return _live - _growth
