"""Bursts of executions inside a worker: one sample per execution, or per small batch of very short ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

# below this a sample would measure the clock: executions are batched until a sample is as long
_SHORTEST_SAMPLE: Final = 20e-6
_MOST_SAMPLES: Final = 2000
_MOST_INNER: Final = 1000
# a median needs no more: what is left of a round's time makes more rounds, which intervals are made of
_ENOUGH_SAMPLES: Final = 25
_ENOUGH_SECONDS: Final = 0.01
# an execution of this many seconds is its own warm-up
LONG: Final = 0.4


def clock(threads: int) -> float:
    """Seconds for what is timed once; those of the process with one thread, as others' do not count then."""
    return time.process_time() if threads == 1 else time.perf_counter()


def burst(
    run: Callable[[], object], seconds: float, long: float = LONG, now: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Executes for about `seconds` or until a median is known, at least once. Seconds per execution, one a sample."""
    started = now()
    run()
    # the first execution only says how long one takes: caches are cold after waiting
    once = now() - started
    inner = 1 if once >= _SHORTEST_SAMPLE else min(_MOST_INNER, int(_SHORTEST_SAMPLE / max(once, 1e-8)) + 1)
    if once > long:
        return [once]
    times: list[float] = []
    enough, deadline = (now() + least for least in (min(seconds, _ENOUGH_SECONDS), seconds))
    while len(times) < _MOST_SAMPLES:
        begin = now()
        if inner == 1:
            run()
        else:
            for _ in range(inner):
                run()
        end = now()
        times.append((end - begin) / inner)
        if end >= deadline or (end >= enough and len(times) >= _ENOUGH_SAMPLES):
            break
    return times


def native_burst(native: Callable[[int], list[float]], seconds: float, once: float) -> list[float]:
    """As `burst` through the competitor's own loop."""
    most, enough = (int(least / max(once, 1e-7)) for least in (seconds, _ENOUGH_SECONDS))
    return native(max(1, min(_MOST_SAMPLES, most, max(enough, _ENOUGH_SAMPLES))))
