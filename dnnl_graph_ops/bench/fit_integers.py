"""Fits the prices of 8-bit integers (`cost.integers`) to files of times of `bench.fit --dtype s8`.

Algorithms in floats keep their estimates: prices of integers are relative to them, so all times are first divided by
how many times slower than estimated the fastest algorithm in floats is, in the median of the layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .. import engine
from .._core import kernels
from ..algorithms import partition, table
from ..convolution.problem import ConvProblem
from ..cost import fits, integers
from ..cost import model as cost
from ..cost.integers import Row
from ..errors import InvalidArgumentError
from ..ir.env import Env
from ..words import counted
from . import regression, times
from .regression import Loss, fitted, mean, worst
from .times import INTEGERS, Elsewhere, Recorded

PULL = 0.1  # towards the present prices
SCALES = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4)
ROUNDS = 3

Prices = Mapping[Row, fits.Prices]


class Form(NamedTuple):
    """An algorithm's time of a layer; `units`: seconds of each of its counts at a price of 1.

    `fixed`: seconds that no price covers; all of an algorithm in floats, which has no row.
    """

    name: str
    row: Row | None
    units: np.ndarray
    fixed: float
    seconds: float

    def estimated(self, prices: Prices) -> float:
        return self.fixed + (0.0 if self.row is None else float(self.units @ np.array(prices[self.row])))


class Sample(NamedTuple):
    """The measured times of one layer."""

    where: str
    layer: str
    forms: tuple[Form, ...]


def are_integers(recorded: Sequence[Recorded]) -> bool:
    """Whether files have times of integers. InvalidArgumentError: only some do."""
    found = {one.head["dtype"] == INTEGERS for one in recorded}
    if len(found) > 1:
        raise InvalidArgumentError(f"bench.fit: files of {INTEGERS} are fitted apart from those of floats")
    return found.pop()


def samples(recorded: Recorded) -> list[Sample]:
    """The rows with the counts of today's algorithms, at the speed of the cost model.

    Raises:
        InvalidArgumentError: this process multiplies integers by another instruction set than the rows do.
    """
    head, here = recorded.head, kernels.int8_isa()[0]
    if head["int8_isa"] != here:
        raise InvalidArgumentError(
            f"bench.fit: these times are of products of integers by {head['int8_isa']!r}, and this process has "
            f"{here!r}; ONEDNN_MAX_CPU_ISA names a smaller set where the CPU has several"
        )
    env = Elsewhere(engine("cpu"), head["threads"], name=head["isa"])
    layers, found = times.listed(), []
    for row in recorded.rows:
        problem = times.problem_of(row, layers, head)
        if problem is not None:
            forms = tuple(_forms(problem, env, row["seconds"]))
            found.append(Sample(f"{row['layer']} {row['layout']}", row["layer"], forms))
    return _at_speed([sample for sample in found if len(sample.forms) > 1])


def _forms(problem: ConvProblem, env: Env, seconds: Mapping[str, float]) -> list[Form]:
    q = problem.quantization
    if partition.NAME in seconds and q is not None and q.partition is None:
        # the library of the machine that ran it is exact
        problem = replace(problem, quantization=replace(q, partition=lambda program, take: None))
    estimate, found = table.estimates(problem, env), []
    for algorithm in table.usable(problem, env):
        if algorithm.name not in seconds:
            continue
        if algorithm.row is None:
            form = Form(algorithm.name, None, np.zeros(0), estimate(algorithm), seconds[algorithm.name])
        else:
            counts, row = algorithm.work(problem, env), algorithm.row(problem)
            units = np.array(counts[: fits.FIELDS]) * integers.unit(problem, env) / env.threads
            fixed = cost.overhead(counts, env.threads)
            form = Form(algorithm.name, integers.row_for(row, env), units, fixed, seconds[algorithm.name])
        found.append(form)
    return found


def _at_speed(rows: Sequence[Sample]) -> list[Sample]:
    ratios = []
    for sample in rows:
        floats = [form for form in sample.forms if form.row is None]
        if floats:
            ratios.append(min(form.seconds for form in floats) / min(form.fixed for form in floats))
    slower = float(np.median(ratios)) if ratios else 1.0
    return [
        sample._replace(forms=tuple(form._replace(seconds=form.seconds / slower) for form in sample.forms))
        for sample in rows
    ]


def loss(sample: Sample, prices: Prices) -> Loss:
    """Of the algorithm that the prices choose."""
    return regression.chosen(sample.where, sample.forms, lambda form: form.estimated(prices))


def fit(rows: Sequence[Sample]) -> dict[Row, fits.Prices]:
    """Returns the table's prices, with those of the rows' work fitted to the rows."""
    found: dict[Row, fits.Prices] = dict(integers.table())
    by = _by_row(rows)
    for row, forms in by.items():
        seconds = np.array([regression.beyond(form.seconds, form.fixed) for form in forms])
        prior = np.array(found[row])
        found[row] = tuple(map(float, fitted(np.array([form.units for form in forms]), seconds, prior, PULL)))
    ends = [
        regression.cautious(
            rows, start, by, lambda sample: {form.row for form in sample.forms if form.row is not None}, loss, SCALES,
            ROUNDS,
        )
        for start in (dict(integers.table()), found)
    ]  # fmt: skip
    return min(ends, key=lambda prices: mean([loss(sample, prices) for sample in rows]))


def _by_row(rows: Sequence[Sample]) -> dict[Row, list[Form]]:
    """The forms that compute integers, by the row of their prices."""
    found: dict[Row, list[Form]] = {}
    for form in (form for sample in rows for form in sample.forms):
        if form.row is not None:
            found.setdefault(form.row, []).append(form)
    return found


def crossed(rows: Sequence[Sample]) -> list[Loss]:
    """The loss of every row by prices that were fitted to other layers."""
    return [loss(sample, prices) for sample, prices in regression.crossed(rows, fit)]


def fitted_file(recorded: Sequence[Recorded], before: Mapping[str, Any]) -> dict[str, Any]:
    """Prints what choosing costs; returns what `--write` writes: prices of these rows' work, others as `before`.

    Raises:
        Error: too few layers for the prices of some to be judged by others.
    """
    rows, head = [sample for one in recorded for sample in samples(one)], recorded[0].head
    regression.check_layers(rows, INTEGERS)
    prices, present = fit(rows), integers.table()
    print(f"the present prices, {head['int8_isa']}: {worst([loss(sample, present) for sample in rows])}")
    print(f"these prices, {head['int8_isa']}: {worst([loss(sample, prices) for sample in rows])}")
    print(f"those of the other half, {head['int8_isa']}: {worst(crossed(rows))}")
    constants = {isa: dict(kinds) for isa, kinds in before.get("constants", {}).items()}
    for isa, kind in sorted(_by_row(rows)):
        constants.setdefault(isa, {})[kind] = [float(f"{price:.3g}") for price in prices[isa, kind]]
    named = f"{counted(len(rows), 'row')}, layers halved to {head['max_gmacs']} gmac"
    where = {name: head[name] for name in ("cpu", "cpu_family", "onednn", "date", "threads")}
    return {**where, "rows": {**before.get("rows", {}), head["int8_isa"]: named}, "constants": constants}
