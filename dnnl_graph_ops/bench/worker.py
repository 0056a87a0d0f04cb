"""A competitor's process: holds one problem ready, answers one line of JSON with one line of JSON.

Between commands it blocks in a read, so it takes no time from the others.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import IO, Any

import numpy as np

from ..errors import Error, UnsupportedError
from . import contention, data, memory, peaks, timing
from .peers.task import Loaded, Prepared, Task, task_of

# seconds; one call of that length is the judge of itself, a shorter one may have waited for the machine
_LONG = 2.0
# a call that takes so long finds its weights in no cache anyway
_LONG_CALL = 0.05


class Worker:
    """State of the process: the competitor's module and the problem that it holds."""

    def __init__(self, module: str) -> None:
        self._name = module
        self._module: ModuleType | None = None
        self._prepared: Prepared | None = None
        self._loaded: Loaded | None = None
        self._last: tuple[Any, float] | None = None

    def hello(self) -> dict[str, Any]:
        self._module = importlib.import_module(self._name)
        # what was imported stays: later collections need not look at it
        gc.collect()
        gc.freeze()
        return {"versions": self._module.versions()}

    def prepare(self, task: dict[str, Any]) -> dict[str, Any]:
        """Compiles and runs twice; a run that takes long is not repeated."""
        if self._prepared is not None or self._loaded is not None:
            self.release()
        if self._module is None:
            raise Error("the worker was not greeted")
        resident = memory.resident()
        wanted = task_of(task)
        begin = timing.clock(wanted.threads)
        prepare = self._module.prepare if isinstance(wanted, Task) else self._module.prepare_model
        self._prepared = prepare(wanted)
        held: Prepared = self._prepared
        compiled, started = timing.clock(wanted.threads), time.perf_counter()
        held.run()
        first, ended = timing.clock(wanted.threads), time.perf_counter()
        once = ended - started
        if once < _LONG:
            held.run()
            once = min(once, time.perf_counter() - ended)
        return {
            "detail": held.detail,
            "compile_s": compiled - begin if held.compile_s is None else held.compile_s,
            "first_s": first - compiled,
            "once_s": once,
            "memory_bytes": max(0, memory.peak() - resident),
            "peak_bytes": memory.peak(),
        }

    def check(self, expected: str) -> dict[str, Any]:
        held = self._held()
        if held.poison is not None:
            held.poison()
        held.run()
        return {"error": _finite(data.relative_error(held.result(), np.load(expected, mmap_mode="r")))}

    def store(self, path: str) -> dict[str, Any]:
        """Writes the result to a file: what others are checked against where there is no reference."""
        held = self._held()
        held.run()
        np.save(path, held.result())
        return {}

    def burst(
        self,
        seconds: float,
        threads: int = 1,
        native: bool = False,
        peak: str = "",
        long: float = timing.LONG,
        process: bool = False,
    ) -> dict[str, Any]:
        """Executions for about `seconds`, of the process with `process`; `peak`: a dtype whose peak is measured too."""
        held, now = self._held(), time.process_time if process else time.perf_counter
        before = contention.process_times()
        begin = time.perf_counter()
        times = timing.burst(held.run, seconds, long, now)
        wall = time.perf_counter() - begin
        after = contention.process_times()
        own: list[float] = []
        # its loop knows the wall clock only
        if native and held.native is not None and not process:
            own = timing.native_burst(held.native, seconds, float(np.median(times)))
        reached, busy = peaks.product(peak, threads) if peak else (None, False)
        waited = (after.waited - before.waited) * 1e-9
        return {"times": times, "native": own, "wall": wall, "waited": waited, "peak": reached, "peak_busy": busy}

    def load(self, task: dict[str, Any]) -> dict[str, Any]:
        """A model whose sizes are known at the call only."""
        self.release()
        if not hasattr(self._module, "load"):
            raise UnsupportedError("takes no model whose sizes are not known")
        before = memory.resident()
        begin = time.perf_counter()
        self._loaded = self._module.load(task_of(task))  # type: ignore[union-attr]
        return {"detail": self._loaded.detail, "load_s": time.perf_counter() - begin, "before_bytes": before}

    def visit(
        self,
        shapes: list[list[int]],
        dtypes: list[str],
        seed: int,
        seconds: float,
        path: str = "",
        process: bool = False,
    ) -> dict[str, Any]:
        """The first call of a size and later ones for about `seconds`; the first result goes to a file.

        A short call of the last size comes before, so that what all sizes have in common is in the caches again.
        """
        held = self._loaded
        if held is None:
            raise Error("the worker has loaded no model")
        inputs = held.take(data.drawn(shapes, dtypes, seed))
        if self._last is not None and self._last[1] < _LONG_CALL:
            held.call(self._last[0])
        now = time.process_time if process else time.perf_counter
        before = contention.process_times()
        begin, started = time.perf_counter(), now()
        made = [held.call(inputs)]
        first = now() - started
        result = held.read(made[0])
        if path:
            np.save(path, result)

        def again() -> None:
            made[0] = held.call(inputs)

        times = timing.burst(again, seconds, _LONG_CALL, now)
        wall = time.perf_counter() - begin
        waited = (contention.process_times().waited - before.waited) * 1e-9
        self._last = inputs, times[-1]
        changed = data.relative_error(held.read(made[0]), result)
        return {"first": first, "times": times, "changed": _finite(changed), "wall": wall, "waited": waited}

    def resident(self) -> dict[str, Any]:
        """Bytes now, when nothing is under way, and at most since the model was loaded."""
        self._last = None
        gc.collect()
        most = memory.peak()
        return {"bytes": memory.resident(), "peak_bytes": most}

    def release(self) -> dict[str, Any]:
        self._prepared = self._loaded = self._last = None
        gc.collect()
        return {}

    def _held(self) -> Prepared:
        if self._prepared is None:
            raise Error("the worker holds no problem")
        return self._prepared


_ONE_SIZE = ("prepare", "check", "store", "burst")
_COMMANDS = ("hello", *_ONE_SIZE, "load", "visit", "resident", "release")


def serve(module: str, commands: IO[str], answers: IO[str]) -> None:
    """Answers until the input ends. A failure is an answer too; only the end of the process ends it early."""
    worker = Worker(module)
    for line in commands:
        request = json.loads(line)
        name = request.pop("do")
        try:
            if name not in _COMMANDS:
                raise Error(f"unknown command {name!r}")
            command: Callable[..., dict[str, Any]] = getattr(worker, name)
            answer = {"ok": True, **command(**request)}
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            answer = {
                "ok": False,
                "unsupported": isinstance(error, UnsupportedError | NotImplementedError),
                "error": _one_line(error),
                "trace": traceback.format_exc(limit=-6),
            }
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _finite(error: float) -> float:
    """JSON has no infinity."""
    return error if math.isfinite(error) else 1e30


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}" if text else type(error).__name__
