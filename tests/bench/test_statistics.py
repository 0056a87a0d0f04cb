"""The statistics, against tables and hand calculations."""

from __future__ import annotations

import math
import random

import pytest

from dnnl_graph_ops.bench import statistics


def test_median_interval_ranks_are_those_of_the_binomial_tables():
    # n = 6: extremes, 96.9 %; n = 10: 2nd and 9th, 97.9 %; n = 20: 6th and 15th, 95.9 %
    for count, rank in ((6, 1), (10, 2), (20, 6)):
        interval = statistics.median_interval([float(v) for v in range(1, count + 1)])
        assert (interval.low, interval.high) == (rank, count + 1 - rank)
    assert math.isinf(statistics.median_interval([1.0, 2.0, 3.0]).width)


def test_median_interval_covers(seed):
    rng = random.Random(seed)
    inside = 0
    for _ in range(400):
        interval = statistics.median_interval([rng.gauss(5, 1) for _ in range(11)])
        inside += interval.low <= 5 <= interval.high
    assert inside >= 0.93 * 400


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2, 3], [4, 5, 6], 0.1),
        ([1, 2, 3, 4], [5, 6, 7, 8], 2 / 70),
        ([1, 3, 5], [2, 4, 6], 0.7),
        ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 2 / 252),
    ],
)
def test_rank_sum_of_small_samples_is_exact(first, second, expected):
    assert statistics.rank_sum_p(first, second) == pytest.approx(expected)
    assert statistics.rank_sum_p(second, first) == pytest.approx(expected)


def test_rank_sum_of_large_samples_and_ties():
    assert statistics.rank_sum_p(range(30), range(30)) > 0.9
    assert statistics.rank_sum_p(range(30), range(20, 50)) < 1e-5
    assert statistics.rank_sum_p([1.0] * 12, [1.0] * 12) == 1.0


def test_signed_rank():
    assert statistics.signed_rank_p([1, 2, 3, 4, 5]) == pytest.approx(2 / 32)
    assert statistics.signed_rank_p([1, -2, 3, -4, 5]) == pytest.approx(1 - 2 / 32, abs=0.2)
    assert statistics.signed_rank_p([]) == 1.0
    assert statistics.signed_rank_p([0.1] * 40) < 1e-6
    assert statistics.signed_rank_p([0.1, -0.1] * 20) > 0.8


def test_holm():
    assert statistics.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert statistics.holm([]) == []


def test_geometric_mean_and_spread():
    assert statistics.geometric_mean([1, 4]) == pytest.approx(2)
    assert math.isnan(statistics.geometric_mean([]))
    assert statistics.spread(range(1, 12)) == pytest.approx(8 / 6)
