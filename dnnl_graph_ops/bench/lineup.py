"""The competitor processes of a run: started once, given problem after problem, replaced when lost."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Error, UnsupportedError
from . import data, models
from .cases import Case, Entrant
from .options import FEWER, Options
from .peers.registry import OWN
from .pool import WorkerProcess
from .rows import Entry

# preparing a case, and checking it, take at most so many times case_seconds, or so many seconds
_PREPARE_SHARE = 5.0
_LEAST_PREPARE = 20.0
_LEAST_PREPARE_MODEL = 300.0
_HELLO_SECONDS = 180.0
# an execution beyond both is not repeated for dozens of rounds
_SLOW_SECONDS = 0.3
_SLOW_FACTOR = 15.0


class Lineup:
    """Processes by entrant label. Use as a context manager; leaving it ends them."""

    def __init__(self, options: Options, threads: int, cpus: list[int]) -> None:
        self._options = options
        self._threads = threads
        self._cpus = cpus
        self._workers: dict[str, WorkerProcess] = {}
        self._broken: dict[str, str] = {}
        self._patience = max(_LEAST_PREPARE, _PREPARE_SHARE * options.case_seconds)
        self.versions: dict[str, dict[str, str]] = {}

    def workers(self, entrants: Iterable[Entrant]) -> dict[str, WorkerProcess]:
        """The processes of these entrants, started if need be; those that cannot start are left out."""
        started = []
        for entrant in entrants:
            known = self._workers.get(entrant.label)
            if known is not None and known.lost:
                known.close()
                known = self._workers.pop(entrant.label, None) and None
            if known is None and entrant.label not in self._broken:
                worker = WorkerProcess(entrant.peer, self._threads, self._cpus, self._options.wait)
                self._workers[entrant.label] = worker
                started.append((entrant, worker))
        for _, worker in started:
            worker.send("hello")
        for entrant, worker in started:
            try:
                self.versions[entrant.peer.name] = worker.receive(_HELLO_SECONDS)["versions"]
            except Error as error:
                self._broken[entrant.label] = str(error)
                worker.close()
                del self._workers[entrant.label]
        return {e.label: self._workers[e.label] for e in entrants if e.label in self._workers}

    def prepare(self, case: Case, entrants: list[Entrant]) -> list[Entry]:
        """Gives every entrant the case. An entry that cannot take it, or not in time, says why."""
        entries: list[Entry] = []
        once: dict[str, float] = {}
        for entry, answer in self._given("prepare", case, entrants):
            entries.append(entry)
            if answer is not None:
                entry.compile_s, entry.first_s = answer["compile_s"], answer["first_s"]
                once[entry.label] = answer["once_s"]
                if case.model:
                    entry.memory_bytes, entry.peak_bytes = answer["memory_bytes"], answer["peak_bytes"]
        self._excuse_hopeless(entries, once)
        return entries

    def load(self, case: Case, entrants: list[Entrant]) -> list[Entry]:
        """Gives every entrant a model whose sizes are known at the call only."""
        entries = []
        for entry, answer in self._given("load", case, entrants):
            entries.append(entry)
            if answer is not None:
                entry.compile_s, entry.before_bytes = answer["load_s"], answer["before_bytes"]
        return entries

    def _given(self, do: str, case: Case, entrants: list[Entrant]) -> Iterator[tuple[Entry, dict[str, Any] | None]]:
        """An entry for each, and what it answered; one after another, as they would distort each other's times."""
        workers = self.workers(entrants)
        patience = max(self._patience, _LEAST_PREPARE_MODEL) if case.model else self._patience
        for entrant in entrants:
            entry = Entry(entrant.label, entrant.side, entrant.layout, "ok", options=dict(entrant.options))
            answer = None
            if entrant.label in workers:
                task = entrant.task(case, self._options, self._threads).as_dict()
                answer = _attempt(entry, partial(workers[entrant.label].ask, do, timeout=patience, task=task))
            else:
                entry.status, entry.reason = "failed", self._broken.get(entrant.label, "did not start")
            if answer is not None:
                entry.detail = answer["detail"]
            yield entry, answer

    def _excuse_hopeless(self, entries: list[Entry], once: dict[str, float]) -> None:
        """Who takes seconds for what we do in milliseconds is reported, but no round waits for it."""
        own = min((once[e.label] for e in entries if e.peer == OWN and e.label in once), default=None)
        for entry in entries:
            taken = once.get(entry.label, 0.0)
            if own is not None and entry.peer != OWN and taken > max(_SLOW_SECONDS, _SLOW_FACTOR * own):
                entry.status = "slow"
                entry.reason = (
                    f"one execution took {taken:.2g} s, {taken / own:.0f} times this package's: not measured further"
                )
                with contextlib.suppress(Error):
                    self._workers[entry.label].ask("release")

    def check(self, case: Case, entries: list[Entry], expected: np.ndarray | None) -> None:
        """Compares every prepared result with `expected`; with None, with what the first entry computes."""
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "expected.npy")
            if expected is not None:
                np.save(path, expected)
            for index, entry in enumerate(e for e in entries if e.status == "ok"):
                worker = self._workers[entry.label]
                limit = _tolerance(case)
                narrow = data.TOLERANCE_NARROW if entry.options.get("precision") in FEWER else 0.0
                lenient = max(limit, worker.peer.tolerance, narrow)
                if expected is None and index == 0:
                    _attempt(entry, partial(worker.ask, "store", timeout=self._patience, path=path))
                    continue
                answer = _attempt(entry, partial(worker.ask, "check", timeout=self._patience, expected=path))
                if answer is None:
                    continue
                entry.error = answer["error"]
                said = f"off by {entry.error:.2g} of the largest expected value, more than"
                if entry.error > lenient:
                    entry.status, entry.reason = "wrong", f"{said} {lenient:g}"
                elif entry.error > limit and not narrow:
                    entry.flags.append(f"{said} {limit:g}")

    def ready(self, entries: list[Entry]) -> dict[str, WorkerProcess]:
        return {
            e.label: self._workers[e.label] for e in entries if e.status == "ok" and not self._workers[e.label].lost
        }

    def release(self) -> None:
        """Lets go of every problem, so that the next one has the memory."""
        held = [worker for worker in self._workers.values() if not worker.lost]
        # all at once: a large heap takes a tenth of a second to be collected
        for worker in held:
            with contextlib.suppress(Error):
                worker.send("release")
        for worker in held:
            with contextlib.suppress(Error):
                worker.receive()

    def close(self) -> None:
        for worker in self._workers.values():
            worker.dismiss()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def __enter__(self) -> Lineup:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _tolerance(case: Case) -> float:
    if case.model:
        return models.Model.of(case.model).tolerance
    if case.real:
        return data.TOLERANCE_REAL
    return data.TOLERANCE.get(case.dtype, data.TOLERANCE["f32"])


def _attempt(entry: Entry, ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    try:
        return ask()
    except UnsupportedError as error:
        entry.status, entry.reason = "unsupported", str(error)
    except Error as error:
        entry.status, entry.reason = "failed", str(error)
    return None
