"""Runs submitted calls in other threads: each engine has a queue and one thread, which runs its calls in order."""

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
    """Queues `call(*args, **kwargs)` after all calls that were submitted to this engine before; returns its future.

    Calls of an engine run one at a time, since each call uses all its threads, and a later call may read arrays that an
    earlier call writes. The queue keeps `call` and its arguments alive until the call ends; the interpreter exits when
    all queues are empty.
    """
    with _lock:
        queue = _queues.get(engine)
        if queue is None:
            name = f"dnnl_graph_ops {engine.runtime.name} {engine.kind} {engine.index}"
            queue = _queues[engine] = ThreadPoolExecutor(1, thread_name_prefix=name)
    return queue.submit(call, *args, **kwargs)


# a forked child has none of the queues' threads
os.register_at_fork(after_in_child=_queues.clear)
