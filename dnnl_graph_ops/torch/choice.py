"""Who computes a layer: what was found to be faster, our engine or PyTorch's own, on this machine in this process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeVar

import torch

from ..errors import Error
from ..runtime.locks import Builds

Made = TypeVar("Made")

# a trial ends when so many rounds took so long, or when one of both is so many times as fast
_LEAST_ROUNDS, _MOST_ROUNDS, _SECONDS, _CLEAR = 3, 15, 0.02, 1.5


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
    return _trials.once(lambda: _verdicts.get(key), lambda: _verdicts.setdefault(key, _tried(ours, theirs)))


def _tried(ours: Callable[[], object], theirs: Callable[[], object]) -> Verdict:
    try:
        ours()
    except Error as error:
        return Verdict(False, why=str(error))
    theirs()
    # the least of each: whatever else runs on the machine may disturb some rounds, hardly all of one
    least = [math.inf, math.inf]
    begin = time.perf_counter()
    for round_ in range(1, _MOST_ROUNDS + 1):
        for i, run in enumerate((ours, theirs)):
            start = time.perf_counter()
            run()
            least[i] = min(least[i], time.perf_counter() - start)
        took, clear = time.perf_counter() - begin, max(least) > _CLEAR * min(least)
        if took > _SECONDS and round_ >= (_LEAST_ROUNDS - 1 if clear else _LEAST_ROUNDS):
            break
    return Verdict(least[0] <= least[1], least[0], least[1])


def known(key: Hashable) -> Verdict | None:
    return _verdicts.get(key)


def near(size: int) -> int:
    """A size that stands for those near it: what is faster there is so here. Small ones for themselves."""
    if size <= 16:
        return size
    # four an octave
    shift = size.bit_length() - 3
    return (size >> shift) << shift
