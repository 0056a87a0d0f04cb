"""The thread pool: OpenMP's, shared by the bundled oneDNN and the builtin kernels."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from .._core import (
    call_threads,
    forked_with_one_thread,
    plan_threads,
    require_threads,
    set_call_threads,
    set_plan_threads,
    threads_were_started,
)
from .._core import get_num_threads as _openmp_threads
from .._core import set_num_threads as _set_openmp_threads
from ..errors import InvalidArgumentError
from .control_groups import cpu_limit


def _default() -> int:
    """Returns OpenMP's number, which follows the CPUs that the process may run on, within the groups' CPU time."""
    limit = None if "OMP_NUM_THREADS" in os.environ else cpu_limit()
    return _openmp_threads() if limit is None else min(limit, _openmp_threads())


# the default number of threads of a call; others read it
count = _default()
set_plan_threads(count)


def get_num_threads() -> int:
    """Returns the number of threads that a call from this thread may use, unless its net was compiled for a number.

    At the start OMP_NUM_THREADS sets it; else it is the number of CPUs that the process may run on, or fewer if the
    control group (container) has less CPU time.
    """
    return plan_threads()


def set_num_threads(n: int) -> None:
    """Sets the number of threads of calls whose net was compiled for no number.

    Plans for different numbers are kept: the first call of a net after a change of the number compiles a plan, and
    older plans stay until the limit of `set_cache_limit` drops them.

    Raises:
        InvalidArgumentError: n is below 1 or above 4096.
        Error: this process cannot start `n` threads (limits of the user or the container); the number is unchanged.
    """
    global count
    if checked(n, "set_num_threads: 'n'") == count:
        return
    require_threads(n)
    count = n
    set_plan_threads(n)


def startable(n: Any, where: str) -> int:
    """Returns a number of threads that this process can start; raises TypeError, InvalidArgumentError or Error."""
    require_threads(checked(n, where))
    return n


def checked(n: Any, where: str) -> int:
    """Returns a number of threads; raises TypeError or InvalidArgumentError if it is none."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"{where} must be an int, got {type(n).__name__}")
    if not 1 <= n <= 4096:
        raise InvalidArgumentError(f"{where} must be from 1 to 4096, got {n}")
    return n


@contextmanager
def of_calls(n: int | None) -> Iterator[None]:
    """Sets the number of threads of this thread's calls; None: leaves it."""
    if n is None:
        yield
        return
    before = set_call_threads(n)
    try:
        yield
    finally:
        set_call_threads(before)


def of_net(n: int | None) -> AbstractContextManager[None]:
    """Sets the number of threads of a net's calls from this thread, unless the thread has a number for all calls."""
    return of_calls(None if call_threads() else n)


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
