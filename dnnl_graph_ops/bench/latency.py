"""The latency of a call in this process: bursts of executions as everywhere in the bench, their percentiles."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from . import timing


@dataclass(frozen=True)
class Latency:
    """Seconds of single calls; throughput: calls in a second of the whole measurement.

    Calls of less than 20 us are measured in small batches, of which a sample is the mean.
    """

    samples: int
    mean: float
    minimum: float
    p50: float
    p90: float
    p95: float
    p99: float
    maximum: float
    throughput: float


def latency(run: Callable[[], object], seconds: float, warm_up: float, burst: float = 0.03) -> Latency:
    """Calls a function for `warm_up` seconds, then for `seconds`; at least one burst of each, for all but 0 seconds."""
    if warm_up > 0:
        _bursts(run, warm_up, burst)
    return summary(_bursts(run, seconds, burst))


def _bursts(run: Callable[[], object], seconds: float, burst: float) -> list[float]:
    times: list[float] = []
    deadline = time.perf_counter() + seconds
    while not times or time.perf_counter() < deadline:
        times += timing.burst(run, burst)
    return times


def summary(times: Sequence[float]) -> Latency:
    """Returns the percentiles of seconds."""
    p50, p90, p95, p99 = map(float, np.percentile(times, (50, 90, 95, 99)))
    mean = float(np.mean(times))
    return Latency(len(times), mean, min(times), p50, p90, p95, p99, max(times), 1 / mean)
