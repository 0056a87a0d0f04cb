"""Calls that run behind the caller's back: each engine has one queue, worked off in order."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..runtime.engines import Engine
from ..runtime.locks import renew_after_fork

_queues: dict[Engine, ThreadPoolExecutor] = {}
_lock = threading.RLock()
renew_after_fork(sys.modules[__name__], "_lock")


def submit(engine: Engine, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
    """Run `call(*args, **kwargs)` behind what was submitted to this engine before.

    One call at a time: it uses all the threads it may have, and a later one may read what an earlier one wrote. The
    queue holds `call` and its arguments until it is done; the interpreter ends when all queues are empty.
    """
    with _lock:
        queue = _queues.get(engine)
        if queue is None:
            name = f"dnnl_graph_ops {engine.runtime.name} {engine.kind} {engine.index}"
            queue = _queues[engine] = ThreadPoolExecutor(1, thread_name_prefix=name)
    return queue.submit(call, *args, **kwargs)


def _after_fork() -> None:
    """A forked child has none of the threads."""
    _queues.clear()


os.register_at_fork(after_in_child=_after_fork)
