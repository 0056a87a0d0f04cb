"""Fits prices of counts to measured seconds, and judges choices by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from ..cost.fits import Prices
from ..errors import Error


class _Form(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def seconds(self) -> float: ...


class _Sample(Protocol):
    @property
    def layer(self) -> str: ...


F = TypeVar("F", bound=_Form)
S = TypeVar("S", bound=_Sample)
K = TypeVar("K", bound=Hashable)
C = TypeVar("C")

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


def beyond(seconds: float, fixed: float) -> float:
    """Returns the seconds that prices are fitted to: without those that no price covers, but no less than a fifth."""
    return max(seconds - fixed, 0.2 * seconds)


class Loss(NamedTuple):
    """How many times the best form's time choosing took."""

    times: float
    where: str
    took: str
    best: str


def chosen(where: str, forms: Sequence[F], estimated: Callable[[F], float]) -> Loss:
    """Returns the loss of the form that the estimates choose."""
    took, best = min(forms, key=estimated), min(forms, key=lambda form: form.seconds)
    return Loss(took.seconds / best.seconds, where, took.name, best.name)


def mean(losses: Sequence[Loss]) -> float:
    """Geometric mean of how many times the best time was taken."""
    return math.exp(sum(math.log(one.times) for one in losses) / len(losses))


def worst(losses: Sequence[Loss]) -> str:
    """The mean loss and the four largest ones in words."""
    most = sorted(losses, reverse=True)[:4]
    rows = ", ".join(f"{one.times:.2f} {one.where} ({one.took} for {one.best})" for one in most)
    return f"choosing costs {mean(losses) - 1:.1%} in the mean; {rows}"


def cautious(
    rows: Sequence[S],
    constants: dict[K, Prices],
    keys: Iterable[K],
    keys_of: Callable[[S], Iterable[K]],
    loss: Callable[[S, dict[K, Prices]], Loss],
    scales: Sequence[float],
    rounds: int,
) -> dict[K, Prices]:
    """Returns the constants with each key's scaled so that choosing by them costs least: unsure estimates are raised.

    `keys_of`: those that a row's estimates depend on.
    """
    found, concerned = dict(constants), {key: [row for row in rows if key in keys_of(row)] for key in keys}
    for _ in range(rounds):
        for key, mine in concerned.items():
            if mine:
                scaled = {scale: tuple(scale * price for price in found[key]) for scale in scales}
                tried = {scale: mean([loss(row, {**found, key: scaled[scale]}) for row in mine]) for scale in scales}
                found[key] = scaled[min(scales, key=lambda scale: (tried[scale], abs(scale - 1)))]
    return found


def crossed(rows: Sequence[S], fit: Callable[[Sequence[S]], C]) -> Iterator[tuple[S, C]]:
    """Yields each row with constants that were fitted to other layers."""
    layers = sorted({row.layer for row in rows})
    for fold in range(FOLDS):
        judged = set(layers[fold::FOLDS])
        constants = fit([row for row in rows if row.layer not in judged])
        yield from ((row, constants) for row in rows if row.layer in judged)


def check_layers(rows: Sequence[S], dtype: str) -> None:
    """Raises Error if there are too few layers for the constants of some to be judged by others."""
    count = len({row.layer for row in rows})
    if count < FOLDS:
        raise Error(f"fit: {count} layer of {dtype} is too few, {FOLDS} are needed; give a larger --part")
