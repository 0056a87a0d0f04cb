"""Ratios of old to new times: which rows are measured again, and what fails."""

import numpy as np
import pytest

from .verdict import Ratio, doubtful, failures, means, settled


def test_nothing_is_slower():
    ratios = [Ratio("layers", "a", 1.02), Ratio("layers", "b", 0.97)]
    assert doubtful(ratios) == [] and failures(ratios) == []


def test_one_slow_row():
    ratios = [Ratio("layers", "a", 0.91, 0.92), *(Ratio("layers", f"row {i}", 1.02) for i in range(9))]
    assert doubtful(ratios) == ["a"]
    assert failures(ratios) == ["a: 0.910, then 0.920 (least 0.95)"]


def test_slow_once():
    ratios = [Ratio("layers", "a", 0.91, 0.99), *(Ratio("layers", f"row {i}", 1.02) for i in range(9))]
    assert failures(ratios) == []


def test_a_slow_group():
    first = [Ratio("calls", "a", 0.98), Ratio("calls", "b", 0.985), Ratio("layers", "c", 1.0)]
    assert doubtful(first) == ["a", "b"]
    both = [Ratio("calls", "a", 0.98, 0.98), Ratio("calls", "b", 0.985, 0.97), Ratio("layers", "c", 1.0)]
    (line,) = failures(both)
    assert line.startswith("geometric mean of calls: 0.982, then 0.975")


def test_means():
    assert means([Ratio("a", "x", 0.5), Ratio("a", "y", 2.0, 1.0)])["a"] == (pytest.approx(1.0), None)


def test_settled(rng):
    assert settled(1 + 0.002 * rng.standard_normal(20))
    assert not settled(1 + 0.2 * rng.standard_normal(20))
    assert settled(np.ones(12))
