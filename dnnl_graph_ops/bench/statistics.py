"""Statistics of timings: medians, intervals without a distribution, tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import RuntimeUnavailableError, extra


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


def spread(values: Sequence[float]) -> float:
    """(90th - 10th percentile) / median."""
    low, median, high = np.percentile(values, (10, 50, 90))
    return float((high - low) / median) if median > 0 else math.nan


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


def interval_within(values: Sequence[float]) -> Interval:
    """The interval of at least one value, within what was measured: finite where they are few, too."""
    interval = median_interval(values)
    return replace(interval, low=max(interval.low, min(values)), high=min(interval.high, max(values)))


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
    """Two-sided Mann-Whitney U test; 1 where all values are the same."""
    p = _tests().mannwhitneyu(first, second).pvalue
    return 1.0 if math.isnan(p) else float(p)


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided Wilcoxon signed-rank test of paired differences against zero; 1 where none differs from it."""
    values = [value for value in differences if value]
    return float(_tests().wilcoxon(values).pvalue) if values else 1.0


def _tests() -> Any:
    try:
        from scipy import stats  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise RuntimeUnavailableError(f"compare: {error}; install it: {extra('bench')}") from None
    return stats


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction for testing many rows at once, in the given order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for position, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - position) * p_values[index]))
        adjusted[index] = running
    return adjusted
