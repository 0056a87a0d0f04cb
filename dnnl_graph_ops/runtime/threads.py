"""The thread pool: OpenMP's, shared by the bundled oneDNN and the builtin kernels."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .._core import clear_plans, forked_with_one_thread, require_threads, set_plan_threads, threads_were_started
from .._core import get_num_threads as _openmp_threads
from .._core import set_num_threads as _set_openmp_threads
from ..errors import InvalidArgumentError
from .control_groups import cpu_limit


def _default() -> int:
    """Returns OpenMP's number, which follows the CPUs that the process may run on, within the groups' CPU time."""
    limit = None if "OMP_NUM_THREADS" in os.environ else cpu_limit()
    return _openmp_threads() if limit is None else min(limit, _openmp_threads())


# the number of threads of a call; others read it
count = _default()
set_plan_threads(count)


def get_num_threads() -> int:
    """The number of threads that a call may use.

    At the start OMP_NUM_THREADS sets it; else it is the number of CPUs that the process may run on, or fewer if the
    control group (container) has less CPU time.
    """
    return count


def set_num_threads(n: int) -> None:
    """Set the number of threads of the thread pool. Plans for another number are dropped and compiled anew.

    Raises:
        InvalidArgumentError: n is below 1 or above 4096.
        Error: this process cannot start `n` threads (limits of the user or the container); the number is unchanged.
    """
    before = count
    use(n)
    if n != before:
        clear_plans()


def use(n: int) -> None:
    """As set_num_threads, but keeps the plans for the other number, for callers that switch back soon.

    Raises:
        InvalidArgumentError, Error: as set_num_threads.
    """
    global count
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"set_num_threads: 'n' must be an int, got {type(n).__name__}")
    if not 1 <= n <= 4096:
        raise InvalidArgumentError(f"set_num_threads: 'n' must be from 1 to 4096, got {n}")
    if n == count:
        return
    require_threads(n)
    count = n
    set_plan_threads(n)


@contextmanager
def using(n: int) -> Iterator[None]:
    """Sets this thread's number of OpenMP threads, which oneDNN fixes when it compiles.

    Raises:
        Error: this process cannot start `n` threads.
    """
    require_threads(n)
    before = _openmp_threads()
    try:
        _set_openmp_threads(n)
        yield
    finally:
        _set_openmp_threads(before)


def _before_fork() -> None:
    """Notes whether OpenMP threads run, also those that PyTorch started, which shares this OpenMP."""
    try:
        tasks = len(os.listdir("/proc/self/task"))
    except OSError:
        return
    if tasks > threading.active_count():
        threads_were_started()


def _after_fork() -> None:
    """OpenMP's threads stayed in the parent, so the child computes with one thread."""
    global count
    if forked_with_one_thread():
        count = 1
        set_plan_threads(1)


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
