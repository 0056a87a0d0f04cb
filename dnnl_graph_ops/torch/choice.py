"""Who computes a layer: what was found to be faster, our engine or PyTorch's own, on this machine in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeVar

import torch

from ..errors import Error
from ..runtime.locks import Builds

Made = TypeVar("Made")

# a trial ends when so many rounds took so long; where a second round does not come near the least, it goes on longer
_LEAST_ROUNDS, _MOST_ROUNDS, _SECONDS, _MOST_SECONDS, _NEAR = 3, 15, 0.02, 0.2, 1.2
# from so many seconds on one thread's work is told by what the processor spent: others may interrupt every round of it
_LONG = 1e-3


class Verdict(NamedTuple):
    """Which of the two computes, and the least seconds that both took; None: not measured."""

    ours: bool
    our_seconds: float | None = None
    their_seconds: float | None = None
    why: str = "measured"


_verdicts: dict[Hashable, Verdict] = {}
_trials = Builds()


def verdict(key: Hashable, ours: Callable[[], object], theirs: Callable[[], object]) -> Verdict:
    """What is known of such a layer; found out at the first time, which takes some ten runs of both.

    Where PyTorch was told to be deterministic nothing depends on times: what our engine can compute, it does.
    """
    found = _verdicts.get(key)
    if found is not None:
        return found
    if torch.are_deterministic_algorithms_enabled():
        try:
            ours()
        except Error as error:
            return Verdict(False, why=str(error))
        return Verdict(True, why="deterministic algorithms are asked for")
    return _trials.once(lambda: _verdicts.get(key), lambda: _verdicts.setdefault(key, tried(ours, theirs)))


def tried(ours: Callable[[], object], theirs: Callable[[], object]) -> Verdict:
    """Found out by some runs of both."""
    try:
        ours()
    except Error as error:
        return Verdict(False, why=str(error))
    theirs()
    # the least of each: whatever else runs on the machine may disturb some rounds, hardly all of one
    times: tuple[list[tuple[float, float]], ...] = ([], [])
    begin = time.perf_counter()
    for round_ in range(1, _MOST_ROUNDS + 1):
        for run, seconds in zip((ours, theirs), times, strict=True):
            spent, start = time.process_time(), time.perf_counter()
            run()
            seconds.append((time.perf_counter() - start, time.process_time() - spent))
        took = time.perf_counter() - begin
        if round_ >= _LEAST_ROUNDS and took > (_SECONDS if all(map(_is_settled, times)) else _MOST_SECONDS):
            break
    walls = [min(wall for wall, _ in seconds) for seconds in times]
    alone = torch.get_num_threads() == 1 and min(walls) > _LONG
    mine, other = [min(spent for _, spent in seconds) for seconds in times] if alone else walls
    return Verdict(mine <= other, mine, other)


def _is_settled(seconds: list[tuple[float, float]]) -> bool:
    least, second, *_ = sorted(wall for wall, _ in seconds)
    return second < _NEAR * least


def near(size: int) -> int:
    """A size that stands for those near it: what is faster there is so here. Small ones for themselves."""
    if size <= 16:
        return size
    # four an octave
    shift = size.bit_length() - 3
    return (size >> shift) << shift
