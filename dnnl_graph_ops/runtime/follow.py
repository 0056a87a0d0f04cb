"""The host-task thread of SYCL follows the caller from CPU to CPU: found here, moved by the extension at each call.

libsycl runs the primitives of a CPU engine on one thread of its own. Waking it on another, idle CPU can take longer
than a small layer; on the caller's CPU, who sleeps meanwhile, it takes a few microseconds.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import numpy as np

from .._core import DataType, Executor, LogicalTensor, OpKind, follow_caller, stop_following
from .engines import Engine
from .locks import renew_after_fork
from .probe import compile_alone

VARIABLE = "DNNL_GRAPH_OPS_FOLLOW_CALLER"
_TASKS = "/proc/self/task"
_PROBES, _TRIES = 32, 4  # tiny runs, for most of which the thread must be seen to wake up
_TINY, _LARGE = 16, 1 << 20  # elements: too few for a second thread, enough for all
_SETTLED = 3  # large runs without a new thread

_LOCK = threading.RLock()
renew_after_fork(sys.modules[__name__], "_LOCK")
_state: str | None = None


def state() -> str:
    """Returns the state of the following thread, for info()."""
    return _state or "not looked for yet"


def prepare(engine: Engine) -> None:
    """Find the thread and let it follow, once a process; to be called before the first run on a SYCL CPU engine."""
    global _state
    if _state is not None or engine.kind != "cpu" or engine.runtime.cpu_runtime != "sycl":
        return
    with _LOCK:
        if _state is None:
            _state = _follow(engine)


def _follow(engine: Engine) -> str:
    if os.environ.get(VARIABLE, "").lower() in ("0", "off", "false", "no"):
        return f"off: {VARIABLE} is {os.environ[VARIABLE]}"
    if len(os.sched_getaffinity(0)) < 2:
        return "off: there is one CPU only"
    try:
        run = _relu(engine, _TINY)
        before = _threads()
        run()
        new = _threads() - before
        if len(new) != 1:
            # others started threads as well, or host tasks had run before
            return f"off: {len(new)} threads started with the first primitive, not one"
        thread = new.pop()
        if not any(_runs_primitives(thread, run) for _ in range(_TRIES)):
            return "off: the new thread does not run the primitives"
        # TBB's workers inherit the mask of the thread that starts them: they must all be there before it narrows
        _start_workers(_relu(engine, _LARGE))
        return _narrow(thread, run, _relu(engine, _LARGE))
    except OSError as error:
        return f"off: {error}"


def _runs_primitives(thread: int, run: Callable[[], None]) -> bool:
    before = _wakes(thread)
    for _ in range(_PROBES):
        run()
    return _wakes(thread) - before >= _PROBES // 2


def _start_workers(run: Callable[[], None]) -> None:
    seen, settled = _threads(), 0
    for _ in range(10 * _SETTLED):
        run()
        now = _threads()
        settled = settled + 1 if now <= seen else 0
        seen |= now
        if settled == _SETTLED:
            return


def _narrow(thread: int, tiny: Callable[[], None], large: Callable[[], None]) -> str:
    """Let it follow, and see that no other thread is held on its CPU by that."""
    free = {other: os.sched_getaffinity(other) for other in _threads()}
    if not follow_caller(thread):
        return "off: the thread's CPUs cannot be read"
    for run in (tiny, large, large, tiny):
        run()
    held = [other for other in _threads() - {thread} if os.sched_getaffinity(other) < free.get(other, free[thread])]
    if held:
        stop_following()
        return f"off: {len(held)} other threads were held on the caller's CPU"
    return "follows the caller"


def _threads() -> set[int]:
    return set(map(int, os.listdir(_TASKS)))


def _wakes(thread: int) -> int:
    """How often the thread went to sleep so far."""
    with open(f"{_TASKS}/{thread}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))


def _relu(engine: Engine, elements: int) -> Callable[[], None]:
    """A run of one primitive on an executor of its own."""
    code = int(DataType.f32)
    src, dst = (LogicalTensor(i, code, [elements], [1]) for i in range(2))
    compiled = compile_alone(engine, OpKind.relu, [src], [dst])
    executor = Executor(engine._native, "probe")
    slots = [executor.add_input(code, [elements], [1]), executor.add_output(code, [elements], [1])]
    executor.add_partition(compiled, [(slots[0], 0)], [(slots[1], 0)], "probe")
    executor.finalize(release_gil=True)
    arrays = [np.zeros(elements, np.float32) for _ in range(2)]
    return lambda: executor.run(arrays[:1], arrays[1:])
