"""Throughput and latency of a model that several streams of calls share, as in a server.

Each stream is a client that calls again as soon as it has its results. This package runs the calls in a `dgo.Pool`,
ONNX Runtime in the clients' threads, with a session for each number of threads. Competitors and numbers of streams take
turns of a fraction of a second, in one process.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..errors import Error, InvalidArgumentError
from ..frontends import from_onnx
from ..net.pool import Pool
from ..runtime.threads import get_num_threads
from . import data
from .latency import summary
from .models import Model, drawn
from .peers import registry
from .peers.task import ModelTask, flattened

Arrays: TypeAlias = list[np.ndarray]
Call: TypeAlias = Callable[[], Any]
# (competitor, streams, threads of each call)
Key: TypeAlias = tuple[str, int, int]
TURN = 0.25  # seconds
_OURS, _THEIRS = "dgo", "onnxruntime"


@dataclass(frozen=True)
class Stream:
    """Calls by one competitor: seconds of a call by percentile, from submission to results; calls in a second of all.

    `streams`: how many clients call at a time. `threads`: of each call.
    """

    model: str
    peer: str
    streams: int
    threads: int
    calls: int
    throughput: float
    p50: float
    p90: float
    p99: float


def measure(calls: Mapping[Key, Call], seconds: float, model: str = "") -> list[Stream]:
    """Measures calls in turns, for `seconds` each."""
    times: dict[Key, list[float]] = {key: [] for key in calls}
    spent = dict.fromkeys(calls, 0.0)
    for key, call in calls.items():
        _turn(call, key[1], 0.0)
    for turn in range(max(1, round(seconds / TURN))):
        # each turn begins elsewhere, as what ran before may matter
        order = list(calls)
        for key in order[turn % len(order) :] + order[: turn % len(order)]:
            of_turn, took = _turn(calls[key], key[1], TURN)
            times[key] += of_turn
            spent[key] += took
    rows = []
    for key, seconds_of_calls in times.items():
        of_all = summary(seconds_of_calls)
        throughput = of_all.samples / spent[key]
        rows.append(Stream(model, *key, of_all.samples, throughput, of_all.p50, of_all.p90, of_all.p99))
    return rows


def _turn(call: Call, streams: int, seconds: float) -> tuple[list[float], float]:
    """Returns the seconds of each call of clients that call for `seconds`, at least once, and those of the turn."""
    times: list[float] = []
    errors: list[BaseException] = []
    barrier = threading.Barrier(streams + 1)

    def client() -> None:
        barrier.wait()
        end = time.perf_counter() + seconds
        try:
            while True:
                begin = time.perf_counter()
                call()
                now = time.perf_counter()
                times.append(now - begin)
                if now >= end:
                    return
        except BaseException as error:
            errors.append(error)

    clients = [threading.Thread(target=client) for _ in range(streams)]
    for one in clients:
        one.start()
    barrier.wait()
    begin = time.perf_counter()
    for one in clients:
        one.join()
    took = time.perf_counter() - begin
    if errors:
        raise errors[0]
    return times, took


def numbers(counts: Sequence[int], threads: int) -> list[tuple[int, int]]:
    """Returns (streams, threads of each call) for numbers of streams that share so many threads; 0: those of a call.

    Raises:
        InvalidArgumentError: a number of streams is below 1 or above 256.
    """
    wrong = [count for count in counts if not 1 <= count <= 256]
    if wrong or not counts:
        raise InvalidArgumentError(f"--streams {','.join(map(str, wrong))}: numbers from 1 to 256")
    whole = threads or get_num_threads()
    return [(count, max(1, whole // count)) for count in dict.fromkeys(counts)]


def run(
    models: Iterable[Model], counts: Sequence[int], *, threads: int = 0, seconds: float = 5.0, seed: int = 0
) -> Iterator[list[Stream]]:
    """Measures models, and ONNX Runtime where it is installed; yields the rows of each, and checks results first.

    Args:
        models: whole models. One whose sizes are not known is called with its sizes in turns, each of them once before
            it is measured.
        counts: numbers of streams.
        threads: what the streams share; 0: as many as a call may use.
        seconds: of each row.
        seed: of the sizes that are drawn, and of their arrays.

    Raises:
        InvalidArgumentError: a number of streams is out of range.
        Error: a result is wrong.
    """
    pairs, has_rival = numbers(counts, threads), registry.peers()[_THEIRS].missing() is None
    for model in models:
        tasks = {n: ModelTask(model.name, model.path, model.arrays, model.zoo, "NCX", n) for _, n in pairs}
        net, every = from_onnx(model.path).compile(), _inputs(model, next(iter(tasks.values())), seed)
        theirs = {n: _session(task) for n, task in tasks.items()} if has_rival else {}
        with ExitStack() as stack:
            calls: dict[Key, Callable[[Arrays], Any]] = {}
            for streams, n in pairs:
                pool = stack.enter_context(Pool(streams, n))
                calls[_OURS, streams, n] = partial(_submitted, pool, net)
                if n in theirs:
                    calls[_THEIRS, streams, n] = theirs[n]
            _check(model, calls, every)
            yield measure({key: _in_turns(call, every) for key, call in calls.items()}, seconds, model.name)


def _inputs(model: Model, task: ModelTask, seed: int) -> list[Arrays]:
    """Returns the arrays that the model is called with: of its file, or of each size that is drawn."""
    if not model.sizes:
        return [task.inputs()]
    sizes = drawn(model, seed)
    return [data.drawn(shapes, sizes.dtypes, seed) for shapes in sizes.shapes]


def _session(task: ModelTask) -> Callable[[Arrays], Any]:
    """Returns a call of ONNX Runtime's session for a model."""
    from .peers import onnx_runtime  # imported here, as it needs the package

    loaded = onnx_runtime.load(task)
    return lambda inputs: loaded.call(loaded.take(inputs))


def _submitted(pool: Pool, net: Any, inputs: Arrays) -> Any:
    return pool.submit(net, *inputs).result()


def _in_turns(call: Callable[[Arrays], Any], every: Sequence[Arrays]) -> Call:
    """Returns a call with the next of several inputs; any thread may call it."""
    turns = itertools.cycle(every)
    return lambda: call(next(turns))


def _check(model: Model, calls: Mapping[Key, Callable[[Arrays], Any]], every: Sequence[Arrays]) -> None:
    """Compares all results with those of the model's file, or with ONNX Runtime's for sizes that are drawn."""
    for inputs in every:
        results = [(peer, _numbers(call(inputs))) for (peer, *_), call in calls.items()]
        expected = next((of for peer, of in results if peer == _THEIRS), None) if model.sizes else model.expected()
        if expected is None:
            continue
        for peer, actual in results:
            error = data.relative_error(actual, expected)
            if not error <= model.tolerance:
                shapes = ", ".join(str(array.shape) for array in inputs)
                raise Error(f"{model.name}, {peer}: results for {shapes} differ by {error:.2g} of the largest expected")


def _numbers(results: Any) -> np.ndarray:
    return flattened(results if isinstance(results, tuple | list) else [results])


COLUMNS = ("model", "peer", "streams", "threads", "calls/s", "p50 ms", "p90 ms", "p99 ms", "of the first")


def cells(rows: Sequence[Stream]) -> list[list[str]]:
    """Returns a line of text for each row; the last column is the throughput over that of the model's first row."""
    return [
        [
            row.model, row.peer, str(row.streams), str(row.threads), f"{row.throughput:.1f}",
            *(f"{1e3 * each:.2f}" for each in (row.p50, row.p90, row.p99)),
            f"{row.throughput / rows[0].throughput:.2f}",
        ]
        for row in rows
    ]  # fmt: skip


def records(rows: Iterable[Stream]) -> list[dict[str, Any]]:
    """Returns the rows as JSON has them."""
    return [asdict(row) for row in rows]
