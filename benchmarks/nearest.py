"""Fits the corrections of estimates by recorded layers near a layer: `python benchmarks/nearest.py FILE ...`.

Of the times that `bench.fit --save` keeps, the logarithm of measured by estimated seconds is regressed on a layer's
shape, form by form (a Gaussian process: `cost.nearest`). Printed: what choosing costs against the best of all forms
by the constants, as corrected, and as corrected by other layers alone. Directions in which other layers do not help
are to be left out. Files of another instruction set than the first count as elsewhere.

When forms count otherwise or constants change, rows are to be made again: `choices.py` checks them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dnnl_graph_ops.bench import fit, regression, times
from dnnl_graph_ops.bench.fit import Sample
from dnnl_graph_ops.bench.regression import Loss
from dnnl_graph_ops.bench.times import Elsewhere, Recorded
from dnnl_graph_ops.convolution.problem import DGRAD, FPROP, WGRAD
from dnnl_graph_ops.cost import nearest

NOISE = 0.1  # the variance of what shape does not explain, of forms within the first of these of the best
TRUSTED = ((1.5, 1.0), (2.5, 1.5), (4.0, 3.0), (math.inf, 10.0))  # of slower ones so many times that
MOST = 2.5  # logarithms beyond this are cut
DIRECTIONS = (DGRAD, FPROP, WGRAD)
Factors = Mapping[str, float]


class Regressed(NamedTuple):
    """Rows of a direction: names of algorithms, features, and weights for each name.

    And by sample the factors of all rows, and those of other layers' rows.
    """

    forms: tuple[str, ...]
    features: np.ndarray
    weights: np.ndarray
    all: list[Factors]
    others: list[Factors]


def gathered(recorded: Sequence[Recorded]) -> list[tuple[Sample, bool]]:
    """The rows of all files, and whether they are from elsewhere, of which only those of channels first are taken."""
    isa = recorded[0].head["isa"]
    found = []
    for one in recorded:
        elsewhere = one.head["isa"] != isa
        for sample in fit.samples(one):
            env = Elsewhere(sample.env.engine, sample.env.threads, name=isa)
            if not elsewhere or sample.problem.y.strides[1] != 1:
                found.append((sample._replace(env=env), elsewhere))
    return found


def regressed(samples: Sequence[tuple[Sample, bool]]) -> Regressed:
    """Rows of samples of one direction."""
    places = np.array([nearest.features(sample.problem, sample.env, away) for sample, away in samples])
    forms = tuple(sorted({form.name for sample, _ in samples for form in sample.forms}))
    target, noise = _targets([sample for sample, _ in samples], forms)
    kernel = np.array([nearest.near(places, place) for place in places])
    layers = np.array([sample.layer for sample, _ in samples])
    weights = np.zeros_like(target)
    known: list[dict[str, float]] = [{} for _ in samples]
    others: list[dict[str, float]] = [{} for _ in samples]
    for j, name in enumerate(forms):
        rows = np.flatnonzero(~np.isnan(target[:, j]))
        y = target[rows, j]
        inverse = np.linalg.inv(kernel[np.ix_(rows, rows)] + np.diag(NOISE * noise[rows, j]))
        weights[rows, j] = inverse @ y
        for row, value in zip(rows, kernel[np.ix_(rows, rows)] @ weights[rows, j], strict=True):
            known[row][name] = math.exp(value)
        # by the rest, all rows of a layer left out at once
        for layer in sorted(set(layers[rows])):
            out = np.flatnonzero(layers[rows] == layer)
            left = y[out] - np.linalg.solve(inverse[np.ix_(out, out)], weights[rows[out], j])
            for row, value in zip(rows[out], left, strict=True):
                others[row][name] = math.exp(value)
    return Regressed(forms, places, weights, list(known), list(others))


def _targets(samples: Sequence[Sample], forms: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """By sample and form: how far the estimate is off, less what all forms of a sample share; and how unsure it is."""
    target = np.full((len(samples), len(forms)), np.nan)
    noise = np.ones_like(target)
    for i, sample in enumerate(samples):
        constants, best = fit.present(sample), min(form.seconds for form in sample.forms)
        for form in sample.forms:
            j = forms.index(form.name)
            target[i, j] = math.log(form.seconds / fit.estimated(form, sample, constants))
            noise[i, j] = next(times for within, times in TRUSTED if form.seconds < within * best)
    target = np.clip(target - np.nanmedian(target), -MOST, MOST)
    trust = np.where(np.isnan(target), 0, 1 / noise)
    shared = (np.nan_to_num(target) * trust).sum(1) / trust.sum(1)
    return target - shared[:, None], noise


def losses(samples: Sequence[Sample], factors: Sequence[Factors] | None = None) -> list[Loss]:
    """Returns the cost of choosing in each row."""
    return [fit.loss(s, fit.present(s), {} if factors is None else factors[i]) for i, s in enumerate(samples)]


def content(recorded: Sequence[Recorded], directions: Sequence[str]) -> bytes:
    """Returns the content of the file to write: the rows of these directions."""
    samples = gathered(recorded)
    rows = {}
    for direction in directions:
        mine = [(sample, away) for sample, away in samples if sample.direction == direction]
        found = regressed(mine)
        here = [i for i, (_, away) in enumerate(mine) if not away]
        shown = [mine[i][0] for i in here]
        before, inside, outside = (
            losses(shown, by and [by[i] for i in here]) for by in (None, found.all, found.others)
        )
        print(
            f"{direction}, {len(shown)} rows: choosing costs {regression.mean(before) - 1:.1%} by the constants, "
            f"{regression.mean(inside) - 1:.1%} as corrected, {regression.mean(outside) - 1:.1%} by other layers; "
            f"{sorted(outside, reverse=True)[:4]}"
        )
        rows[direction] = found.forms, np.rint(100 * np.hstack([found.features, found.weights])).astype(int)
    told = [
        "{} rows of {}, {} threads, layers halved to {} gmac, {}".format(
            len(one.rows), *(one.head.get(name, "unknown") for name in ("cpu", "threads", "max_gmacs", "date"))
        )
        for one in recorded
    ]
    return nearest.written(told, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="times, first those of the constants")
    parser.add_argument("--directions", nargs="+", default=DIRECTIONS, choices=DIRECTIONS)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the rows")
    options = parser.parse_args(arguments)
    rows = content([times.read(path) for path in options.files], options.directions)
    if options.write is not None:
        options.write.write_bytes(rows)


if __name__ == "__main__":
    main()
