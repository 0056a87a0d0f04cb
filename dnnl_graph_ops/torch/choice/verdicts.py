"""Chooses between this package and PyTorch for a layer, by times measured on this machine in this process.

Measurements take at most a tenth of the time of calls. Until a layer is measured, the result for the nearest measured
size holds for it. If no size is measured, this package computes: its algorithms include PyTorch's, oneDNN's direct one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeAlias, TypeVar

import torch

from ...errors import Error
from ...log import logger
from ...runtime.locks import Builds
from .budget import budget

_LOGGER = logger("torch.choice")

Result = TypeVar("Result")
Key = TypeVar("Key")
Value = TypeVar("Value")
Ints = tuple[int, ...]
Seconds: TypeAlias = tuple[float, float]  # wall time and process time

# a measurement ends after so many rounds and seconds; later, if no second round comes near the fastest
_LEAST_ROUNDS, _MOST_ROUNDS, _SECONDS, _MOST_SECONDS, _NEAR = 3, 15, 0.02, 0.2, 1.2
# a ratio of times that needs no more rounds, and that holds for extents within a factor of two
_CLEAR, _WITHIN = 1.2, 2.0
# the same for whole models, which have many layers; and the runs of each engine to decide
_WIDELY, TURNS = 8.0, 3
# runs of most measurements: the first run of each engine, and the least rounds
_RUNS = 2 * (_LEAST_ROUNDS + 1)
# longer runs on one thread are compared by process time: other processes may interrupt every round
_LONG = 1e-3

MEASURED, NEAR, ESTIMATED = "measured", "measured at a near size", "not measured yet"


class Case(NamedTuple):
    """Calls with one verdict: all that times depend on besides extents, extents rounded to nearby ones, and a name."""

    kind: Hashable
    extents: Ints
    name: str = "call"  # for the log


class Verdict(NamedTuple):
    """Whether this package computes, and the least seconds of both engines; None: not measured."""

    ours: bool
    our_seconds: float | None = None
    their_seconds: float | None = None
    why: str = MEASURED

    def __str__(self) -> str:
        engine = "dnnl_graph_ops" if self.ours else "PyTorch"
        if self.our_seconds is None or self.their_seconds is None:
            return f"{engine}: {self.why}"
        return f"{engine}: {1e3 * self.our_seconds:.3f} ms here, {1e3 * self.their_seconds:.3f} ms in PyTorch"

    @property
    def is_clear(self) -> bool:
        """Whether the verdict holds for nearby sizes, too; a refusal of this package holds for all sizes."""
        if self.our_seconds is None or self.their_seconds is None:
            return True
        return max(self.our_seconds, self.their_seconds) > _CLEAR * min(self.our_seconds, self.their_seconds)

    @property
    def is_settled(self) -> bool:
        """Whether calls may keep the verdict."""
        return self.why != ESTIMATED and (self.why != NEAR or not at_once.get())


UNKNOWN = Verdict(True, why=ESTIMATED)
# the most kinds of calls, sizes of a kind and unmeasured sizes that are remembered
_MOST = 4096

_measured: dict[Hashable, dict[Ints, Verdict]] = {}
# least seconds of a call, until it is measured
_least: dict[Case, float] = {}
_turns: dict[Case, tuple[list[Seconds], list[Seconds]]] = {}
_trials = Builds()
# whether calls are measured at once
at_once: ContextVar[bool] = ContextVar("at_once", default=False)


@contextmanager
def measuring() -> Iterator[None]:
    """Within this context every call is measured at once, at its own size, whatever that takes."""
    token = at_once.set(True)
    try:
        yield
    finally:
        at_once.reset(token)


def is_at_once() -> bool:
    """Whether calls are measured at once."""
    return at_once.get()


def standing(known: dict[Ints, Verdict], extents: Ints, within: float = _WITHIN) -> Verdict | None:
    """Returns the verdict for extents: their own, or a clear verdict of the nearest ones within a factor; or None."""
    if extents in known:
        return known[extents]
    if at_once.get():
        return None
    nearest = _nearest(known, extents)
    if nearest is None or not known[nearest].is_clear or _apart(nearest, extents) > within:
        return None
    return known[nearest]._replace(why=NEAR)


def _nearest(known: dict[Ints, Verdict], extents: Ints) -> Ints | None:
    return min(list(known), key=lambda other: _apart(other, extents), default=None)


def verdict(case: Case, ours: Callable[[], object], theirs: Callable[[], object]) -> Verdict:
    """Returns the verdict for calls, measured if there is time.

    With PyTorch's deterministic algorithms the verdict does not depend on times: this package computes all it can.
    """
    if torch.are_deterministic_algorithms_enabled():
        try:
            ours()
        except Error as error:
            return Verdict(False, why=str(error))
        return Verdict(True, why="deterministic algorithms are asked for")
    known = _bounded(_measured).setdefault(case.kind, {})
    if (found := standing(known, case.extents)) is not None:
        return found
    if not at_once.get():
        nearest = _nearest(known, case.extents)
        seconds = _least.get(case)
        if seconds is None or not budget.allows(_RUNS * seconds):
            return UNKNOWN if nearest is None else known[nearest]._replace(why=ESTIMATED)

    def trial() -> Verdict:
        with budget.trial():
            return _settle(case, tried(ours, theirs))

    return _trials.once(lambda: known.get(case.extents), trial)


def settled(case: Case) -> Verdict | None:
    """Returns the verdict by which `in_turns` decides from now on; None if it still takes turns."""
    return standing(_bounded(_measured).setdefault(case.kind, {}), case.extents, _WIDELY)


def expect(case: Case, seconds: float) -> None:
    """Records the seconds of a call, from which the duration of a measurement is estimated."""
    _bounded(_least)[case] = min(seconds, _least.get(case, seconds))


def run(case: Case | None, by: Verdict, ours: Callable[[], Result], theirs: Callable[[], Result]) -> Result:
    """Returns the result of the verdict's engine; PyTorch's if this package refuses a call that was not measured."""
    if by.why in (MEASURED, NEAR):
        budget.calls += (by.our_seconds if by.ours else by.their_seconds) or 0.0
        return ours() if by.ours else theirs()
    start = time.perf_counter()
    try:
        return ours() if by.ours else theirs()
    except Error as error:
        if case is None or by.is_settled:
            raise
        _settle(case, Verdict(False, why=str(error)))
        return theirs()
    finally:
        seconds = time.perf_counter() - start
        budget.calls += seconds
        if case is not None and not by.is_settled:
            expect(case, seconds)


def in_turns(
    case: Case, ours: Callable[[], tuple[Result, bool]], theirs: Callable[[], Result]
) -> tuple[Result, Verdict | None]:
    """Returns the faster engine's result of a call that must not be repeated: both take turns until that is known.

    `ours` also returns whether it computed. Also returns the verdict if this call settles it.
    """
    if (found := settled(case)) is not None:
        return ours()[0] if found.ours else theirs(), None
    times = _bounded(_turns).setdefault(case, ([], []))
    turn, result = len(times[0]) > len(times[1]), []
    seconds = _timed(lambda: result.append((theirs(), True) if turn else ours()))
    out, is_timed = result[0]
    if is_timed:
        times[turn].append(seconds)
    if min(map(len, times)) < TURNS:
        return out, None
    _turns.pop(case, None)
    return out, _settle(case, compared(times))


def _settle(case: Case, found: Verdict) -> Verdict:
    _least.pop(case, None)
    _LOGGER.info("%s, extents %s: computed by %s", case.name, case.extents, found)
    return _bounded(_measured.setdefault(case.kind, {})).setdefault(case.extents, found)


def _bounded(remembered: dict[Key, Value]) -> dict[Key, Value]:
    """Returns the dict, emptied if it is full."""
    if len(remembered) >= _MOST:
        remembered.clear()
    return remembered


def _apart(a: Ints, b: Ints) -> float:
    """Returns the largest ratio between extents of two sizes."""
    return max((max(m, n) / max(min(m, n), 1) for m, n in zip(a, b, strict=True)), default=1.0)


def tried(ours: Callable[[], object], theirs: Callable[[], object], once: float = math.inf) -> Verdict:
    """Returns a measured verdict: of PyTorch's first run and this package's second if both take over `once` seconds."""
    try:
        ours()
    except Error as error:
        return Verdict(False, why=str(error))
    first = _timed(theirs)
    if first[0] > once and (second := _timed(ours))[0] > once:
        return compared(([second], [first]))
    # the least of each engine: other processes may disturb some rounds, but hardly all of an engine
    times: tuple[list[Seconds], ...] = ([], [])
    begin = time.perf_counter()
    for round_ in range(1, _MOST_ROUNDS + 1):
        for run, seconds in zip((ours, theirs), times, strict=True):
            seconds.append(_timed(run))
        took = time.perf_counter() - begin
        if round_ >= _LEAST_ROUNDS:
            steady = all(map(_is_steady, times))
            if took > (_SECONDS if steady else _MOST_SECONDS) or (steady and compared(times).is_clear):
                break
    return compared(times)


def _timed(run: Callable[[], object]) -> Seconds:
    spent, start = time.process_time(), time.perf_counter()
    run()
    return time.perf_counter() - start, time.process_time() - spent


def compared(times: tuple[list[Seconds], ...]) -> Verdict:
    """Returns the verdict by the seconds of this package's runs and of PyTorch's, each wall and process time."""
    walls = [min(wall for wall, _ in seconds) for seconds in times]
    alone = torch.get_num_threads() == 1 and min(walls) > _LONG
    mine, other = [min(spent for _, spent in seconds) for seconds in times] if alone else walls
    return Verdict(mine <= other, mine, other)


def _is_steady(seconds: list[Seconds]) -> bool:
    least, second, *_ = sorted(wall for wall, _ in seconds)
    return second < _NEAR * least


def near(size: int) -> int:
    """Returns a size rounded down to one of four per octave; sizes up to 16 unchanged."""
    if size <= 16:
        return size
    shift = size.bit_length() - 3
    return (size >> shift) << shift
