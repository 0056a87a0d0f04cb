"""Rates of a machine by its recorded times: `python -m dnnl_graph_ops.bench.rates FILE ...`.

The files are those of `bench.fit --save`. Printed: how fast one thread multiplies in each unit (`runtime.rates`) by the
rows, and on the machine of the rows, as it is measured now. `--write FILE` keeps them as a record, which the variable
DNNL_GRAPH_OPS_RATES may name.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import engine
from ..compile import measure_rates
from ..cost import fits, nearest
from ..cost import model as cost
from ..runtime import cache_files, cpu
from ..runtime.cpuinfo import cpu_family, cpu_model
from .document import check_writable, json_lines
from .fit import samples
from .times import Elsewhere, Recorded, read

# layers by which rows of recorded times tell a rate
ALIKE = 3


def by_rows(recorded: Sequence[Recorded]) -> dict[str, float]:
    """Returns the GMAC/s of one thread, by unit, that rows of recorded times imply.

    They are medians over the layers most like the one that `compile.measure_rates` measures, by the same algorithm.
    """
    rates: dict[str, float] = {}
    for one in recorded:
        problem = measure_rates.layer(one.head["dtype"], run=False)
        rows = [sample for sample in samples(one) if sample.direction == problem.direction]
        place = np.array(nearest.features(problem, rows[0].env))
        places = np.array([nearest.features(sample.problem, sample.env) for sample in rows])
        alike = [rows[i] for i in np.argsort(-nearest.near(places, place), kind="stable")]
        for unit in (unit for unit, (dtype, _) in measure_rates.UNITS.items() if dtype == problem.dtype):
            algorithm = measure_rates.algorithm_of(unit)
            times = [
                sample.problem.macs / 1e9 / sample.env.threads / form.seconds
                for sample in alike
                for form in sample.forms
                if form.name == algorithm.name and algorithm.unit(sample.problem, sample.env) == unit
            ]
            if times:
                rates[unit] = float(np.median(times[:ALIKE]))
    return rates


def by_constants(isa: str, release: str, dtype: str) -> dict[str, float]:
    """Returns the GMAC/s by unit that the present constants of an instruction set imply for the layer of rates."""
    env = Elsewhere(engine("cpu"), 1, name=isa)
    problem = measure_rates.layer(dtype, run=False)
    near, prices = nearest.factors(problem, env), fits.find(isa, release, dtype)
    pace = fits.pace(isa, release, dtype, problem.direction)
    rates = {}
    for unit in (unit for unit, (narrow, _) in measure_rates.UNITS.items() if narrow == dtype):
        algorithm = measure_rates.algorithm_of(unit)
        if algorithm.applies(problem, env) and algorithm.unit(problem, env) == unit:
            seconds = cost.estimate(algorithm.counts(problem, env), prices[algorithm.key], 1)
            rates[unit] = problem.macs / 1e9 / (seconds * near.get(algorithm.name, 1.0) / pace)
    return rates


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m dnnl_graph_ops.bench.rates",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="recorded times of one machine")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the rates by the rows")
    options = parser.parse_args(arguments)
    if options.write is not None:
        check_writable(options.write)
    recorded = [read(path) for path in options.files]
    head, rates, here = recorded[0].head, by_rows(recorded), engine("cpu")
    mine = (head["cpu"], head.get("cpu_family"), head["isa"]) == (cpu_model(), cpu_family(), cpu.isa(here))
    now, sure = measure_rates.measure(here) if mine else ({}, True)
    for unit, rate in rates.items():
        beside = f", {now[unit]:.1f} measured now ({now[unit] / rate:.2f})" if unit in now else ""
        print(f"{unit}: {rate:.1f} GMAC/s by recorded rows{beside}")
    if not sure:
        print("the turns of measuring disagree: other processes use the machine")
    if options.write is not None:
        digits = {unit: float(f"{rate:.3g}") for unit, rate in rates.items()}
        names = {name: head.get(name, "") for name in ("cpu", "cpu_family", "isa", "onednn", "date")}
        cache_files.write(options.write, json_lines({**names, "by": "recorded rows", "rates": digits}, 2))
        print(f"written to {options.write}")


if __name__ == "__main__":
    main()
