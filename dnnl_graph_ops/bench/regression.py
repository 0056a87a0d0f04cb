"""Fits prices of counts to measured seconds, and judges choices by them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# the parts that layers are divided into: each is judged by what was fitted to the others
FOLDS = 2


def fitted(counts: np.ndarray, seconds: np.ndarray, prior: np.ndarray, pull: float) -> np.ndarray:
    """Non-negative constants of the least squared logarithm of predicted by measured, pulled towards `prior`."""
    found = prior.copy()
    pull = pull * len(seconds)
    for _ in range(60):
        predicted = counts @ found
        # near the fit, log(p / y) is (p - y) / p
        scaled = counts / np.sqrt(predicted * seconds)[:, None]
        target = seconds / np.sqrt(predicted * seconds)
        for field in np.flatnonzero(prior):
            column = scaled[:, field] * prior[field]
            rest = target - scaled @ found + scaled[:, field] * found[field]
            ratio = (column @ rest + pull) / (column @ column + pull)
            found[field] = prior[field] * max(ratio, 0.05)
    return found


class Loss(NamedTuple):
    """How many times the best form's time choosing took."""

    times: float
    where: str
    took: str
    best: str


def mean(losses: Sequence[Loss]) -> float:
    """Geometric mean of how many times the best time was taken."""
    return math.exp(sum(math.log(one.times) for one in losses) / len(losses))


def worst(losses: Sequence[Loss]) -> str:
    """The mean loss and the four largest ones in words."""
    most = sorted(losses, reverse=True)[:4]
    rows = ", ".join(f"{one.times:.2f} {one.where} ({one.took} for {one.best})" for one in most)
    return f"choosing costs {mean(losses) - 1:.1%} in the mean; {rows}"
