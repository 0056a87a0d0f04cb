"""Times of several runs that take turns, so that what else the machine does falls on all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Run = Callable[[], Any]


def counts(runs: Mapping[str, Run], least: float, clock: Callable[[], float] = time.process_time) -> dict[str, int]:
    """Returns how many calls of each take `least` seconds, by one call of each."""
    return {name: max(1, math.ceil(least / max(seconds(run, 1, clock), 1e-6))) for name, run in runs.items()}


def seconds(run: Run, count: int, clock: Callable[[], float] = time.process_time) -> float:
    """Returns the seconds of a call, the mean of so many."""
    begin = clock()
    for _ in range(count):
        run()
    return (clock() - begin) / count


def in_turns(
    runs: Mapping[str, Run],
    number: Mapping[str, int],
    rounds: Iterable[object],
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Returns the seconds of a call by run, one of each in every round: the mean of `number` calls, after a first."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in rounds:
        for name, run in runs.items():
            run()  # its caches were another's
            times[name].append(seconds(run, number[name], clock))
    return times


def within(limit: float, least: int, most: int) -> Iterable[int]:
    """Yields round after round: `least` in any case, then until `limit` seconds are gone or there are `most`."""
    end = time.monotonic() + limit
    for number in range(most):
        if number >= least and time.monotonic() >= end:
            return
        yield number
