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
    turn = -1


_lock = threading.RLock()
renew_after_fork(sys.modules[__name__], "_lock")
_live = 0
_limit = SLACK_BYTES
# the graph that got the newest constant, how often that was another one, and the bytes of its constants since
_growing: weakref.ref[Any] | None = None
_turn = 0
_growth = 0
_counted: dict[int, _Counted] = {}
# Counted when the next constant is: finalizers run no Python code, in which a Ctrl-C would be lost.
_gone: deque[_Counted] = deque()
_note = noting_freed(_gone.append)


def account(array: np.ndarray[Any, Any], graph: object = None) -> None:
    """Count a constant while it lives; collect dropped graphs once the counted bytes have doubled.

    `graph`: the graph that gets the constant; the constants that it is getting do not count meanwhile, as it is not
    dropped. None: elements that are read again, for a short time.
    """
    global _growing, _growth, _limit, _turn
    reference = _Counted(array, _note)
    reference.nbytes = array.nbytes
    with _lock:
        if graph is not None:
            if _growing is None or _growing() is not graph:
                _growing, _turn, _growth = weakref.ref(graph), _turn + 1, 0
            reference.turn = _turn
            _growth += array.nbytes
        _counted[id(reference)] = reference
        # beside the only graph that ever got one there is nothing to collect
        due = _count(array.nbytes) > _limit and graph is not None and _turn > 1
    if due:
        gc.collect()
        with _lock:
            live = _count(0)
            _limit = live + max(live, SLACK_BYTES)


def _count(more: int) -> int:
    """Bytes that live, with so many more, but for those of the growing graph."""
    global _growth, _live
    _live += more
    while _gone:
        reference = _counted.pop(id(_gone.popleft()))
        _live -= reference.nbytes
        _growth -= reference.nbytes if reference.turn == _turn else 0
    return _live - _growth
