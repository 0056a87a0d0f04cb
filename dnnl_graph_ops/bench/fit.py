"""Fit the cost model to this machine: `python -m dnnl_graph_ops.bench.fit`.

Every algorithm of every layer of the suite is timed, in turns within a second; the constants of `cost.fits` are
fitted to the least times, relative errors squared. Printed: how well they predict, what choosing by them costs against
the best of all algorithms, and the same by constants fitted to the other half of the layers.

`--dtype s8` does the same for layers of 8-bit integers, whose constants are in products of f32 (`cost.integers`).
Algorithms in floats keep their estimates there: all times are first divided by how many times slower than estimated the
fastest algorithm in floats is, in the median of the layers.

`--save FILE` keeps what was measured, `--resume FILE` measures what that lacks, `--load FILE ...` measures nothing.
`--write` makes this machine choose by the new constants (in the user's cache), `--write FILE` puts them elsewhere.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import engine
from .._core import kernels
from ..algorithms import partition
from ..algorithms import table as algorithms
from ..algorithms.algorithm import Algorithm
from ..convolution.problem import ConvProblem
from ..cost import fits, integers, nearest
from ..cost import model as cost
from ..cost.fits import FIELDS, INTEGERS, Constants, Key, Prices
from ..cost.model import Counts
from ..errors import InvalidArgumentError
from ..ir.env import Env
from ..progress import shown
from ..runtime import cache_files
from ..words import counted
from . import regression, times
from .document import check_writable, json_lines
from .problem import Problem
from .regression import Loss, fitted, mean, worst
from .times import Elsewhere, Recorded

# towards the proportions of the constants that are there: of this dtype, and of another one
PULL, PULL_OF_ANOTHER = 2.0, 0.1
SCALES = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
ROUNDS = 4


class Form(NamedTuple):
    """An algorithm's time of one problem, and the key of its constants.

    An algorithm in floats of a layer of integers has the estimated seconds `fixed`, whatever the constants.
    """

    name: str
    key: Key
    counts: Counts
    seconds: float
    fixed: float | None = None


class Sample(NamedTuple):
    """The measured times of one problem."""

    where: str
    layer: str
    problem: ConvProblem
    env: Env
    forms: tuple[Form, ...]

    @property
    def direction(self) -> str:
        """Whose constants its estimates take; "" of integers, as directions share constants."""
        return "" if self.problem.quantization else self.problem.direction

    @property
    def dtype(self) -> str:
        """Whose constants its estimates take."""
        return INTEGERS if self.problem.quantization else self.env.compute_dtype(self.problem.dtype)


def samples(recorded: Recorded) -> list[Sample]:
    """The rows with the counts of the algorithms of today that can compute the problem.

    Raises:
        InvalidArgumentError: this process multiplies integers by another instruction set than the rows do.
    """
    head, here = recorded.head, kernels.int8_isa()[0]
    if head.get("int8_isa", here) != here:
        raise InvalidArgumentError(
            f"bench.fit: these times are of products of integers by {head['int8_isa']!r}, and this process has "
            f"{here!r}; ONEDNN_MAX_CPU_ISA names a smaller set where the CPU has several"
        )
    env = Elsewhere(engine("cpu"), head["threads"], name=head["isa"])
    layers = times.listed()
    found = []
    for row in recorded.rows:
        problem = times.problem_of(row, layers, head, run=False)
        if problem is None:
            continue
        forms = _forms(problem, env, row["seconds"])
        if len(forms) > 1:
            where = f"{row['layer']} {row['layout']}{' constant' if row['constant'] else ''}"
            found.append(Sample(where, row["layer"], problem, env, forms))
    return _at_estimated_speed(found)


def _forms(problem: ConvProblem, env: Env, seconds: Mapping[str, float]) -> tuple[Form, ...]:
    q = problem.quantization
    if q is None:
        forms = (form for form in algorithms.applicable(problem, env) if form.name in seconds)
        return tuple(Form(form.name, form.key, form.counts(problem, env), seconds[form.name]) for form in forms)
    if partition.NAME in seconds and q.partition is None:
        # the library of the machine that ran it is exact
        problem = replace(problem, quantization=replace(q, partition=lambda program, take: None))
    estimate, unit, found = algorithms.estimates(problem, env), integers.unit(problem, env), []
    for form in (form for form in algorithms.usable(problem, env) if form.name in seconds):
        counts = form.work(problem, env)
        priced = counts._replace(**{name: unit * getattr(counts, name) for name in Counts._fields[:FIELDS]})
        fixed = estimate(form) if form.row is None else None
        key = form.key if form.row is None else integers.measured(form.row(problem), env)
        found.append(Form(form.name, key, priced, seconds[form.name], fixed))
    return tuple(found)


def _at_estimated_speed(rows: Sequence[Sample]) -> list[Sample]:
    found = []
    for direction in dict.fromkeys(sample.problem.direction for sample in rows):
        mine = [sample for sample in rows if sample.problem.direction == direction]
        fastest = [
            min(form.seconds for form, _ in floats) / min(fixed for _, fixed in floats)
            for sample in mine
            if (floats := [(form, form.fixed) for form in sample.forms if form.fixed is not None])
        ]
        found += _slowed(mine, 1 / float(np.median(fastest)) if fastest else 1.0)
    return found


def _slowed(rows: Sequence[Sample], times: float) -> list[Sample]:
    return [
        sample._replace(forms=tuple(form._replace(seconds=form.seconds * times) for form in sample.forms))
        for sample in rows
    ]


def _algorithm(form: Form, sample: Sample) -> Algorithm:
    """Returns the algorithm of a name in a row."""
    algorithm = algorithms.named(form.name, sample.direction)
    assert algorithm is not None
    return algorithm


# -- fitting ------------------------------------------------------------------------------------------------------


def present(sample: Sample) -> Constants:
    """The constants that such a machine has now."""
    if sample.dtype == INTEGERS:
        return fits.of_integers(sample.env.isa, sample.env.release)
    return fits.find(sample.env.isa, sample.env.release, sample.dtype)


def table(rows: Sequence[Sample]) -> Iterator[tuple[Key, np.ndarray, np.ndarray]]:
    """For every family and direction: its counts by thread, and the seconds measured."""
    timed: dict[Key, list[tuple[Form, int]]] = {}
    for sample in rows:
        for form in (form for form in sample.forms if form.fixed is None):
            timed.setdefault(form.key, []).append((form, sample.env.threads))
    for key, forms in sorted(timed.items()):
        counts = [np.array(form.counts[:FIELDS]) / threads for form, threads in forms]
        fixed = [cost.overhead(form.counts, threads) for form, threads in forms]
        seconds = [regression.beyond(form.seconds, rest) for (form, _), rest in zip(forms, fixed, strict=True)]
        yield key, np.array(counts), np.array(seconds)


def borrowed(sample: Sample) -> bool:
    """Whether its constants are those of another dtype, or relative to those of one."""
    if sample.dtype == INTEGERS:
        return True
    others = fits.INSTEAD.get(sample.dtype, ("f32",))[1:]
    version, prices = sample.env.release, present(sample)
    return any(fits.find(sample.env.isa, version, dtype) is prices for dtype in others)


def fit(rows: Sequence[Sample]) -> dict[Key, Prices]:
    """Constants of all families for the rows, which are of one dtype."""
    prior, other = present(rows[0]), borrowed(rows[0])
    timed = {key: (counts, seconds) for key, counts, seconds in table(rows)}
    # a faster machine or dtype changes the scale first: of all, or of a family
    scales = {key: float(np.mean(np.log(y / (x @ np.array(prior[key]))))) for key, (x, y) in timed.items()}
    whole = 0.0 if rows[0].dtype == INTEGERS else float(np.mean(list(scales.values())))
    found = {key: tuple(math.exp(whole) * price for price in prior[key]) for key in prior}
    for key, (counts, seconds) in timed.items():
        before = np.array(prior[key]) * math.exp(scales[key] if other else (scales[key] + whole) / 2)
        found[key] = tuple(map(float, fitted(counts, seconds, before, PULL_OF_ANOTHER if other else PULL)))
    # good estimates are not yet good choices: the search begins with those, and with the present choices
    ends = [cautious(rows, dict(start)) for start in (prior, found)]
    for direction in {sample.direction for sample in rows}:
        mine = [sample for sample in rows if sample.direction == direction]
        best = min(ends, key=lambda end: mean([loss(sample, end) for sample in mine]))
        found.update({key: best[key] for key in found if direction in ("", key[1])})
    return found


def cautious(rows: Sequence[Sample], constants: dict[Key, Prices]) -> dict[Key, Prices]:
    """The constants with each family scaled so that choosing by them costs least."""
    return regression.cautious(
        rows, constants, constants, lambda sample: {form.key for form in sample.forms if form.fixed is None}, loss,
        SCALES, ROUNDS,
    )  # fmt: skip


def at_one_speed(files: Sequence[Sequence[Sample]]) -> list[Sample]:
    """The rows of several machines, with the times of all at the speed of the first: only ratios matter to choices."""
    found = list(files[0])
    constants = fit(found) if len(files) > 1 else {}
    for rows in files[1:]:
        ratios = [form.seconds / estimated(form, sample, constants) for sample in rows for form in sample.forms]
        found += _slowed(rows, 1 / float(np.median(ratios)))
    return found


def estimated(form: Form, sample: Sample, constants: Constants) -> float:
    """Seconds by the constants alone."""
    if form.fixed is not None:
        return form.fixed
    seconds = cost.estimate(form.counts, constants[form.key], sample.env.threads)
    return seconds * cost.turned(form.key, sample.direction, sample.dtype, sample.env)


def loss(sample: Sample, constants: Constants, factors: Mapping[str, float] | None = None) -> Loss:
    """Of the algorithm that the constants choose, corrected by factors of some algorithms."""
    by = factors or {}
    return regression.chosen(
        sample.where, sample.forms, lambda form: estimated(form, sample, constants) * by.get(form.name, 1.0)
    )


def factors(sample: Sample) -> dict[str, float]:
    """Returns factors of the estimates of a sample's algorithms: similar recorded layers, and rates of the CPU."""
    near, constants, threads = nearest.factors(sample.problem, sample.env), present(sample), sample.env.threads
    by_name = {}
    for form in sample.forms:
        slower = cost.correction(_algorithm(form, sample).unit(sample.problem, sample.env), sample.dtype, sample.env)
        work = form.counts, constants[form.key], threads
        by_name[form.name] = near.get(form.name, 1.0) * cost.estimate(*work, slower) / cost.estimate(*work)
    return by_name


def report(rows: Sequence[Sample]) -> dict[Key, Prices]:
    """Fit to rows of one dtype, print, and return the constants.

    Raises:
        Error: too few layers for constants of some to be judged by others.
    """
    regression.check_layers(rows, rows[0].dtype)
    constants = fit(rows)
    for key, counts, seconds in table(rows):
        error = np.abs(np.log(counts @ np.array(constants[key]) / seconds))
        print(f"{key}: {counted(len(seconds), 'run')}, median error {np.median(error):.0%}")
    by = {
        "the present constants": [(s.direction, loss(s, present(s))) for s in rows],
        "these constants": [(s.direction, loss(s, constants)) for s in rows],
        "those of the other half": [(s.direction, loss(s, others)) for s, others in regression.crossed(rows, fit)],
    }
    for name, losses in by.items():
        for direction in sorted({where for where, _ in losses}):
            mine = [one for where, one in losses if where == direction]
            print(f"{name}, {rows[0].dtype} {direction}: {worst(mine)}")
    return constants


def fitted_file(recorded: Sequence[Recorded], before: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what `--write` writes: constants of these rows' dtypes; those of others as they were `before`."""
    by: dict[str, list[list[Sample]]] = {}
    named: dict[str, list[str]] = {}
    for one in recorded:
        rows = samples(one)
        by.setdefault(rows[0].dtype, []).append(rows)
        named.setdefault(rows[0].dtype, []).append(
            "{} rows of {}, layers halved to {} gmac, {}".format(
                len(rows), *(one.head.get(name, "unknown") for name in ("cpu", "max_gmacs", "date"))
            )
        )
    head = recorded[0].head
    constants = dict(before.get("constants", {}))
    for dtype, files in by.items():
        found = report(at_one_speed(files))
        digits = {name: [float(f"{price:.2g}") for price in prices] for name, prices in found.items()}
        constants[dtype] = _nested({dtype: digits})[dtype]
    names = ("cpu", "cpu_family", "isa", "onednn", "date", "threads")
    where: dict[str, Any] = {name: head[name] for name in names if name in head}
    return {**where, "rows": {**before.get("rows", {}), **named}, "constants": constants}


def _nested(values: Mapping[str, Mapping[Key, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """By dtype, direction and family."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for dtype, prices in values.items():
        for (family, direction), value in prices.items():
            found.setdefault(dtype, {}).setdefault(direction, {})[family] = value
    return found


def _read_layers(path: Path | None) -> list[Problem]:
    return [] if path is None else [Problem.from_dict(one) for one in json.loads(path.read_text("utf-8"))]


def main(arguments: Sequence[str] | None = None, prog: str = "python -m dnnl_graph_ops.bench.fit") -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog=prog, description=__doc__, epilog="Exit status: 0 fine, 1 an error, 2 wrong usage, 130 interrupted."
    )
    parser.add_argument("--max-gmacs", type=float, default=0.3, help="layers are halved down to this")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th layer from i on")
    parser.add_argument("--layouts", default="NXC", help="NXC, NCX or NXC,NCX")
    parser.add_argument("--dtype", choices=("f32", "bf16", "f16", INTEGERS), default="f32")
    parser.add_argument("--op", default=times.TRANSPOSED, help="conv_transpose, conv or conv_transpose,conv")
    parser.add_argument("--layers", type=Path, metavar="FILE", help="JSON list of problems, instead of the suite")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the measurements as JSON")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="measure what FILE lacks, and save it there")
    parser.add_argument("--load", type=Path, nargs="+", metavar="FILE", help="fit to measurements saved before")
    parser.add_argument("--write", type=Path, nargs="?", const=Path(), metavar="FILE", help="write the constants")
    options = parser.parse_args(arguments)
    for path in (options.save, options.resume, options.write):
        if path not in (None, Path()):
            check_writable(path)
    env, head = times.here(options.dtype, options.max_gmacs)
    if options.load:
        recorded = [times.read(path) for path in options.load]
    else:
        save = options.save or options.resume
        resume = options.resume is not None and options.resume.exists()
        one = times.resumed(options.resume, head) if resume else Recorded(head, [])
        try:
            with shown() as tell:
                more = _read_layers(options.layers)
                asked = times.questions(options.part, options.layouts, options.op, more, options.dtype)
                times.record(one, list(asked), env, save, tell)
        except KeyboardInterrupt:
            kept = f"{len(one.rows)} rows are in {save}; go on with --resume {save}" if save else "nothing was kept"
            parser.exit(130, f"interrupted: {kept}\n")
        recorded = [one]
    path = options.write
    if path == Path():
        path = fits.user_file(fits.keys(recorded[0].head["isa"])[0])
    before = cache_files.read(path) if path is not None and path.exists() else {}
    if not any(one.rows for one in recorded):
        raise InvalidArgumentError("fit: no layer was measured; raise --max-gmacs, or take more layers by --part")
    content = fitted_file(recorded, before)
    if path is not None:
        cache_files.write(path, json_lines(content, 4))
        fits.forget()
        print(f"written to {path}")


if __name__ == "__main__":
    main()
