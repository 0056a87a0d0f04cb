"""Runs calls of nets in parallel, each with few threads, for servers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from ..errors import Error, QueueFull, Timeout
from ..progress import Progress
from ..runtime import deadline
from ..runtime import threads as numbers
from ..schema.arguments import no_member, one_of, show

if TYPE_CHECKING:
    from typing_extensions import Self

    from .net import Net

P = ParamSpec("P")
T = TypeVar("T")
_FULL = ("wait", "raise")
_MOST_WAITING = 1 << 20


class Pool:
    """Workers that run calls in parallel, each call with a fixed number of threads.

    `pool.submit(net, x)` returns a future at once; a worker that is free runs `net(x)`. Many workers with one thread
    each give the highest throughput, one worker with all threads the shortest call. Calls begin in the order of
    submission and end in any order: a call must not read arrays that an earlier one still writes (for that, see
    `Net.submit`). A pool may be used from any thread, and in a forked child, where it starts new workers.

    A pool is a context manager: leaving it waits for all calls. Otherwise `close` does, or the end of the process.

    Args:
        workers: the number of calls that run at a time; None: as many as `get_num_threads() // threads`, at least 1.
        threads: the number of threads of each call, also of nets that were compiled for another number. Plans are for a
            number: `prepare` of the pool, not of the net, compiles those that its calls run.
        waiting: the number of calls that may wait for a worker.
        full: what `submit` does while so many calls wait: "wait" for room, or "raise" `QueueFull`, for servers that
            answer "busy"; in an event loop only "raise" is right.

    Attributes:
        workers, threads, waiting: the numbers.
        running, queued: the number of calls that run, and of calls that wait for a worker, at this moment: gauges for
            the metrics of a server.

    Raises:
        TypeError, InvalidArgumentError: a number is no int, or out of range.
        Error: this process cannot start so many threads.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_member(self, name)

    def __init__(
        self,
        workers: int | None = None,
        threads: int = 1,
        *,
        waiting: int = 64,
        full: Literal["wait", "raise"] = "wait",
    ) -> None:
        self.threads = numbers.startable(threads, "Pool: 'threads'")
        if callable(workers):
            raise TypeError(
                f"Pool: 'workers' is a number, got {type(workers).__name__}; a net is passed with its arrays, "
                "pool.submit(net, x)"
            )
        if workers is None:
            workers = max(numbers.get_num_threads() // threads, 1)
        self.workers = numbers.checked(workers, "Pool: 'workers'")
        if isinstance(waiting, bool) or not isinstance(waiting, int) or not 0 <= waiting <= _MOST_WAITING:
            raise TypeError(f"Pool: 'waiting' is a number from 0 to {_MOST_WAITING}, got {show(waiting)}")
        self.waiting = waiting
        self._waits = one_of(full, "Pool: 'full'", _FULL) == "wait"
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._workers = ThreadPoolExecutor(self.workers, thread_name_prefix="dnnl_graph_ops pool")
        self._futures: set[Future[Any]] = set()
        self._room = threading.BoundedSemaphore(self.workers + self.waiting)

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queues `call(*args, **kwargs)` and returns its future: `.result()` waits for the results, or raises.

        Args:
            call: a net, as in `pool.submit(net, x, out=buffer)`; or a function that calls nets, such as `net.run`.
            args, kwargs: its arguments. Arrays are kept alive until the call has run, and must not change until then.

        Returns:
            A future of `concurrent.futures`: `cancel` works until the call begins, `asyncio.wrap_future` makes it
            awaitable.

        Raises:
            QueueFull: as many calls wait as may, and the pool does not wait for room.
            Error: the pool is closed. TypeError: `call` cannot be called.
        """
        if not callable(call):
            raise TypeError(
                f"Pool.submit: needs a net or a function, then its arguments, got {type(call).__name__}; write "
                "pool.submit(net, x), not pool.submit(net(x))"
            )
        if self._closed:
            raise Error("Pool.submit: the pool is closed")
        if self._process != os.getpid():
            # a forked child has none of the parent's threads
            self._start()
        room = self._room
        if not room.acquire(blocking=self._waits):
            raise QueueFull(f"Pool.submit: {self.workers} calls run and {self.waiting} wait; submit again later")
        try:
            future = self._workers.submit(self._run, call, args, kwargs)
        except BaseException:
            room.release()
            raise
        futures = self._futures
        futures.add(future)

        def ended(future: Future[Any]) -> None:
            futures.discard(future)
            room.release()

        future.add_done_callback(ended)
        return future

    @property
    def running(self) -> int:
        """The number of calls that run at this moment."""
        return sum(future.running() for future in self._unfinished())

    @property
    def queued(self) -> int:
        """The number of calls that wait for a worker at this moment."""
        return sum(not (future.running() or future.done()) for future in self._unfinished())

    def _unfinished(self) -> tuple[Future[Any], ...]:
        # a forked child has none of the parent's calls
        return tuple(self._futures.copy()) if self._process == os.getpid() else ()

    def prepare(self, net: Net[Any], sizes: Iterable[Any], *, progress: Progress | None = None) -> int:
        """Compiles the plans that the pool's calls of a net with these sizes run, as `Net.prepare` does.

        It runs in the calling thread, next to the workers, and takes no place in the queue.

        Args:
            net: the net whose plans are compiled.
            sizes, progress: as of `Net.prepare`.

        Returns:
            The number of plans that were compiled.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: as `Net.prepare`.
        """
        with numbers.of_calls(self.threads):
            return net.prepare(sizes, progress=progress)

    def _run(self, call: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        with numbers.of_calls(self.threads):
            return call(*args, **kwargs)

    def close(self, *, cancel: bool = False, timeout: float | None = None) -> None:
        """Waits for the submitted calls, and takes no more.

        Without it, the end of the process waits for all of them.

        Args:
            cancel: whether calls that have not begun are cancelled. Calls that have begun are not stopped: give each a
                `timeout`.
            timeout: seconds that it waits at most; None: until all calls have ended.

        Raises:
            Timeout: calls still run when the time ends. They continue, and `close` may be called again; the end of the
                process still waits for them.
            TypeError, InvalidArgumentError: `timeout` is no number of seconds from 0 on.
        """
        seconds = min(deadline.checked(timeout, "Pool.close"), threading.TIMEOUT_MAX)
        self._closed = True
        if self._process != os.getpid():
            return
        self._workers.shutdown(wait=timeout is None, cancel_futures=cancel)
        if left := wait(self._unfinished(), seconds).not_done:
            raise Timeout(f"Pool.close: {len(left)} of the submitted calls have not ended after {seconds:g} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=kind is not None)

    def __repr__(self) -> str:
        return f"Pool(workers={self.workers}, threads={self.threads})"
