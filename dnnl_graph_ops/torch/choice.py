"""Who computes a layer: our engine or PyTorch's own, by what was measured on this machine in this process.

Trials take a tenth of the time of calls at most. Until a layer is tried, the verdict of the nearest measured size
stands for it. Where no size is measured our engine computes: it weighs the library's direct form, PyTorch's, as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeAlias, TypeVar

import torch

from ..errors import Error
from ..log import logger
from ..runtime.locks import Builds
from .budget import budget

_LOGGER = logger(__name__)

Result = TypeVar("Result")
Key = TypeVar("Key")
Value = TypeVar("Value")
Ints = tuple[int, ...]
Seconds: TypeAlias = tuple[float, float]  # on the wall, and of the process

# a trial ends when so many rounds took so long; where a second round does not come near the least, it goes on longer
_LEAST_ROUNDS, _MOST_ROUNDS, _SECONDS, _MOST_SECONDS, _NEAR = 3, 15, 0.02, 0.2, 1.2
# a difference that needs no more rounds, and holds for extents within a factor of two
_CLEAR, _WITHIN = 1.2, 2.0
# of whole models, which have many layers; and how often both compute until it is known
_WIDELY, TURNS = 8.0, 3
# of most trials: the first one of each, and the least rounds
_RUNS = 2 * (_LEAST_ROUNDS + 1)
# from so many seconds on one thread's work is told by what the processor spent: others may interrupt every round of it
_LONG = 1e-3

MEASURED, NEAR, ESTIMATED = "measured", "measured at a near size", "not measured yet"


class Case(NamedTuple):
    """Calls that have one verdict: all that times depend on but extents, and the extents that stand for those near."""

    kind: Hashable
    extents: Ints


class Verdict(NamedTuple):
    """Which of the two computes, and the least seconds that both took; None: not measured."""

    ours: bool
    our_seconds: float | None = None
    their_seconds: float | None = None
    why: str = MEASURED

    @property
    def is_clear(self) -> bool:
        """Whether a near size has the same. What our engine refuses at one size, it refuses."""
        if self.our_seconds is None or self.their_seconds is None:
            return True
        return max(self.our_seconds, self.their_seconds) > _CLEAR * min(self.our_seconds, self.their_seconds)

    @property
    def is_settled(self) -> bool:
        """Whether calls may keep it."""
        return self.why != ESTIMATED and (self.why != NEAR or not _at_once.get())


UNKNOWN = Verdict(True, why=ESTIMATED)
# kinds of calls, sizes of a kind and sizes not yet measured that are remembered
_MOST = 4096

_measured: dict[Hashable, dict[Ints, Verdict]] = {}
# of a call, until it is measured
_least: dict[Case, float] = {}
_turns: dict[Case, tuple[list[Seconds], list[Seconds]]] = {}
_trials = Builds()
_at_once: ContextVar[bool] = ContextVar("at_once", default=False)


@contextmanager
def measuring() -> Iterator[None]:
    """Trials of all that is called inside, whatever they take, and each at its own size."""
    token = _at_once.set(True)
    try:
        yield
    finally:
        _at_once.reset(token)


def is_at_once() -> bool:
    """Whether trials take what they take."""
    return _at_once.get()


def standing(known: dict[Ints, Verdict], extents: Ints, within: float = _WITHIN) -> Verdict | None:
    """The verdict that holds for extents: their own, or a clear one of the nearest within a factor; None: none does."""
    if extents in known:
        return known[extents]
    if _at_once.get():
        return None
    nearest = _nearest(known, extents)
    if nearest is None or not known[nearest].is_clear or _apart(nearest, extents) > within:
        return None
    return known[nearest]._replace(why=NEAR)


def _nearest(known: dict[Ints, Verdict], extents: Ints) -> Ints | None:
    return min(list(known), key=lambda other: _apart(other, extents), default=None)


def verdict(case: Case, ours: Callable[[], object], theirs: Callable[[], object]) -> Verdict:
    """Who computes such calls, by a trial where there is time for one.

    Where PyTorch was told to be deterministic nothing depends on times: what our engine can compute, it does.
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
    if not _at_once.get():
        nearest = _nearest(known, case.extents)
        seconds = _least.get(case)
        if seconds is None or not budget.allows(_RUNS * seconds):
            return UNKNOWN if nearest is None else known[nearest]._replace(why=ESTIMATED)

    def trial() -> Verdict:
        with budget.trial():
            return _settle(case, tried(ours, theirs))

    return _trials.once(lambda: known.get(case.extents), trial)


def expect(case: Case, seconds: float) -> None:
    """A call took so long: what a trial of the case will take follows from it."""
    _bounded(_least)[case] = min(seconds, _least.get(case, seconds))


def run(case: Case | None, by: Verdict, ours: Callable[[], Result], theirs: Callable[[], Result]) -> Result:
    """The result of whom the verdict names; of PyTorch where an estimate named our engine, which refuses."""
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
    """The result by who is faster, of a call that is not repeated: both compute in turns until that is known.

    `ours` also returns whether it did compute. Returns the verdict too where this call settles it.
    """
    known = _bounded(_measured).setdefault(case.kind, {})
    if (found := standing(known, case.extents, _WIDELY)) is not None:
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
    _LOGGER.info("%s: %s", case, found)
    return _bounded(_measured.setdefault(case.kind, {})).setdefault(case.extents, found)


def _bounded(remembered: dict[Key, Value]) -> dict[Key, Value]:
    """Begins anew where so many are remembered."""
    if len(remembered) >= _MOST:
        remembered.clear()
    return remembered


def _apart(a: Ints, b: Ints) -> float:
    """The largest factor between extents of two sizes."""
    return max((max(m, n) / max(min(m, n), 1) for m, n in zip(a, b, strict=True)), default=1.0)


def tried(ours: Callable[[], object], theirs: Callable[[], object], once: float = math.inf) -> Verdict:
    """By some runs of both; by PyTorch's first one and our second one where both take so many seconds."""
    try:
        ours()
    except Error as error:
        return Verdict(False, why=str(error))
    first = _timed(theirs)
    if first[0] > once and (second := _timed(ours))[0] > once:
        return compared(([second], [first]))
    # the least of each: whatever else runs on the machine may disturb some rounds, hardly all of one
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
    """Of our engine's runs and PyTorch's, each by seconds on the wall and of the process."""
    walls = [min(wall for wall, _ in seconds) for seconds in times]
    alone = torch.get_num_threads() == 1 and min(walls) > _LONG
    mine, other = [min(spent for _, spent in seconds) for seconds in times] if alone else walls
    return Verdict(mine <= other, mine, other)


def _is_steady(seconds: list[Seconds]) -> bool:
    least, second, *_ = sorted(wall for wall, _ in seconds)
    return second < _NEAR * least


def near(size: int) -> int:
    """A size that stands for those near it: what is faster there is so here. Small ones for themselves."""
    if size <= 16:
        return size
    # four an octave
    shift = size.bit_length() - 3
    return (size >> shift) << shift
