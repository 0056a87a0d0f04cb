"""Statistics of timings: medians, intervals without a distribution, tests, several modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Interval:
    """Median with a distribution-free confidence interval."""

    median: float
    low: float
    high: float
    count: int

    @property
    def width(self) -> float:
        """Width relative to the median; infinite where the sample is too small to say."""
        return (self.high - self.low) / self.median if self.median > 0 else math.inf


@dataclass(frozen=True)
class Summary:
    """A sample of seconds in a few numbers; `spread` is (90th - 10th percentile) / median."""

    median: float
    minimum: float
    mean: float
    spread: float
    count: int


def summarise(times: Sequence[float]) -> Summary:
    values = np.sort(np.asarray(times, dtype=float))
    if values.size == 0:
        return Summary(math.nan, math.nan, math.nan, math.nan, 0)
    low, median, high = np.percentile(values, (10, 50, 90))
    spread = float((high - low) / median) if median > 0 else math.nan
    return Summary(float(median), float(values[0]), float(values.mean()), spread, int(values.size))


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Interval of the median from order statistics: no assumption about the distribution.

    Below six values no pair of order statistics reaches 95 %: the bounds are infinite then.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    n = int(ordered.size)
    if n == 0:
        return Interval(math.nan, -math.inf, math.inf, 0)
    rank = _interval_rank(n, confidence)
    median = float(np.median(ordered))
    if rank == 0:
        return Interval(median, -math.inf, math.inf, n)
    return Interval(median, float(ordered[rank - 1]), float(ordered[n - rank]), n)


@lru_cache(maxsize=256)
def _interval_rank(n: int, confidence: float) -> int:
    """Largest r with P(r <= Binomial(n, 1/2) <= n - r) >= confidence; 0 if there is none."""
    tail, rank = 0.0, 0
    for r in range(n // 2 + 1):
        tail += math.comb(n, r) * 0.5**n
        if 1 - 2 * tail < confidence:
            break
        rank = r + 1
    return rank


def geometric_mean(values: Sequence[float]) -> float:
    usable = [v for v in values if v > 0 and math.isfinite(v)]
    return math.exp(sum(map(math.log, usable)) / len(usable)) if usable else math.nan


def rank_sum_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided Mann-Whitney U test with tie correction; exact for small samples without ties."""
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    n, m = a.size, b.size
    if n == 0 or m == 0:
        return 1.0
    ranks = _ranks(np.concatenate([a, b]))
    u = float(ranks[:n].sum()) - n * (n + 1) / 2
    _, counts = np.unique(np.concatenate([a, b]), return_counts=True)
    if n + m <= 20 and counts.max() == 1:
        table = _u_counts(n, m)
        total = sum(table)
        k = int(min(u, n * m - u))
        return min(1.0, 2 * sum(table[: k + 1]) / total)
    ties = float((counts**3 - counts).sum()) / ((n + m) * (n + m - 1))
    deviation = math.sqrt(n * m / 12 * (n + m + 1 - ties))
    if deviation == 0:
        return 1.0
    return _two_sided((abs(u - n * m / 2) - 0.5) / deviation)


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided Wilcoxon signed-rank test of paired differences against zero; exact up to 25 pairs."""
    d = np.asarray([v for v in differences if v != 0 and math.isfinite(v)], dtype=float)
    n = d.size
    if n == 0:
        return 1.0
    ranks = _ranks(np.abs(d))
    statistic = min(float(ranks[d > 0].sum()), float(ranks[d < 0].sum()))
    if n <= 25 and np.unique(ranks).size == n:
        counts = [1]
        for rank in range(1, n + 1):
            grown = counts + [0] * rank
            for index, count in enumerate(counts):
                grown[index + rank] += count
            counts = grown
        return float(min(1.0, 2 * sum(counts[: int(statistic) + 1]) / 2**n))
    deviation = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    return _two_sided((abs(statistic - n * (n + 1) / 4) - 0.5) / deviation)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction for testing many rows at once, in the given order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for position, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - position) * p_values[index]))
        adjusted[index] = running
    return adjusted


def several_modes(times: Sequence[float], *, gap: float = 0.25, share: float = 0.15) -> bool:
    """True if the sample falls into groups apart by `gap` (relative), each with at least `share` of it."""
    values = np.sort(np.asarray(times, dtype=float))
    least = max(2, math.ceil(share * values.size))
    if values.size < 2 * least or values[0] <= 0:
        return False
    jumps = values[1:] / values[:-1] - 1
    return bool((jumps[least - 1 : values.size - least] > gap).any())


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, ties sharing their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]


@lru_cache(maxsize=64)
def _u_counts(n: int, m: int) -> tuple[int, ...]:
    """How many arrangements give each value of U: the Gaussian binomial coefficient's terms."""
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        # multiply by (1 - q^(m+i)), then divide by (1 - q^i)
        for k in range(n * m, m + i - 1, -1):
            counts[k] -= counts[k - m - i]
        for k in range(i, n * m + 1):
            counts[k] += counts[k - i]
    return tuple(counts)


def _two_sided(z: float) -> float:
    return math.erfc(max(z, 0.0) / math.sqrt(2))
