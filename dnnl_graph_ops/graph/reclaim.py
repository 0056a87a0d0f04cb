"""Constants of dropped graphs, given back in time.

Values know their graph and the graph its values, so only Python's collector frees them; and it counts objects, not
the megabytes of their constants.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np

from ..runtime.locks import renew_after_fork

# Constants that may pile up before the first collection, or where few survived it
SLACK_BYTES = 8 << 20

_lock = threading.RLock()
renew_after_fork(sys.modules[__name__], "_lock")
_live = 0
_limit = SLACK_BYTES


def account(array: np.ndarray[Any, Any]) -> None:
    """Count a graph's constant while it lives; collect dropped graphs once the counted bytes have doubled."""
    global _live, _limit
    weakref.finalize(array, _gone, array.nbytes).atexit = False
    with _lock:
        _live += array.nbytes
        due = _live > _limit
    if due:
        gc.collect()
        with _lock:
            _limit = _live + max(_live, SLACK_BYTES)


def _gone(nbytes: int) -> None:
    global _live
    with _lock:
        _live -= nbytes
