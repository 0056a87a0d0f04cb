"""Fit the cost model to this machine: `python -m dnnl_graph_ops.bench.fit`.

Every algorithm of every layer of the suite is timed, in turns within a second; the constants of `cost.fits` are
fitted to the least times, relative errors squared. Printed: how well they predict, what choosing by them costs against
the best of all algorithms, and the same by constants fitted to the other half of the layers.

`--save FILE` keeps what was measured, `--resume FILE` measures what that lacks, `--load FILE ...` measures nothing.
`--write` makes this machine choose by the new constants (in the user's cache), `--write FILE` puts them elsewhere.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes, engine
from ..algorithms import table as algorithms
from ..algorithms.algorithm import Algorithm
from ..compile.tune import Runner, runner_of
from ..convolution.nodes import CONV_KINDS, make_problem
from ..convolution.problem import DGRAD, FPROP, READ, WGRAD, ConvProblem
from ..cost import fits, nearest
from ..cost import model as cost
from ..cost.fits import FIELDS, Constants, Key, Prices
from ..cost.model import Counts
from ..errors import Error, InvalidArgumentError
from ..ir.env import Env
from ..program.program import Buffer, Place, Program, View
from ..progress import Progress, shown
from ..runtime import cache_files, cpu
from ..runtime.cpuinfo import cpu_family, cpu_model
from ..runtime.rates import Rates
from ..runtime.threads import get_num_threads
from ..strides import dense_strides
from .document import check_writable, json_lines
from .problem import OPS, Problem
from .suite import real_layers

SECONDS = 0.25
HOPELESS = 4.0
# towards the proportions of the constants that are there: of this dtype, and of another one
PULL, PULL_OF_ANOTHER = 2.0, 0.1
SCALES = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
ROUNDS = 4
FOLDS = 2
_OLD_NAMES = {"forward": DGRAD, "backward_data": FPROP, "backward_weights": WGRAD}
# op: directions, and whether weights are constant; ordinary layers count as the transposed ones that they are
_TRANSPOSED, _ORDINARY = OPS
ASKED = {
    _TRANSPOSED: ((DGRAD, True), (DGRAD, False), (FPROP, False), (WGRAD, False)),
    _ORDINARY: ((FPROP, True), (FPROP, False), (DGRAD, False), (WGRAD, False)),
}

Row = dict[str, Any]


class Recorded(NamedTuple):
    """A file of times: where and how they were measured, and for each layer and question those of every form."""

    head: dict[str, Any]
    rows: list[Row]


@dataclass(frozen=True)
class Elsewhere(Env):
    """The environment of a machine by its instruction set, as far as counts and estimates ask."""

    name: str = ""
    record: Rates | None = None

    @property
    def isa(self) -> str:
        return self.name

    @property
    def rates(self) -> Rates | None:
        return self.record

    @property
    def vectors(self) -> str:
        return "avx512" if self.lanes == 16 else "avx2"

    @property
    def by_reference(self) -> frozenset[str]:
        """Nothing: keys are of the machine at hand."""
        return frozenset()

    def multiplies(self, dtype: str, ops: Sequence[str]) -> bool:
        return cpu.multiplies(dtype, self.name, ops)


class Form(NamedTuple):
    """A form's time of one problem."""

    name: str
    key: Key
    counts: Counts
    seconds: float


class Sample(NamedTuple):
    """The measured times of one problem."""

    where: str
    layer: str
    problem: ConvProblem
    env: Env
    forms: tuple[Form, ...]

    @property
    def direction(self) -> str:
        return self.problem.direction

    @property
    def dtype(self) -> str:
        """Whose constants its estimates take."""
        return self.env.compute_dtype(self.problem.dtype)


# -- measuring ----------------------------------------------------------------------------------------------------


def described(
    layer: Problem, direction: str, layout: str, constant: bool, dtype: str = "f32", *, run: bool = True
) -> ConvProblem:
    """The layer as `lowering` sees it; constant weights have integers as data if it is to be run."""
    kind = next(kind for kind, conv in CONV_KINDS.items() if conv.direction == direction)
    shapes = {
        DGRAD: (layer.src_shape(layout), layer.weights_shape, layer.dst_shape(layout)),
        FPROP: (layer.dst_shape(layout), layer.weights_shape, layer.src_shape(layout)),
        WGRAD: (layer.src_shape(layout), layer.dst_shape(layout), layer.weights_shape),
    }[direction]
    first, second, result = (
        View(Buffer(place, dtype, math.prod(shape), index), shape, dense_strides(shape))
        for place, shape, index in zip((Place.INPUT, Place.INPUT, Place.OUTPUT), shapes, (0, 1, 0), strict=True)
    )
    if constant and not run:
        second = replace(second, buffer=Buffer(Place.CONSTANT, dtype, math.prod(shapes[1])))
    elif constant:
        rng = np.random.default_rng(0)
        second = Program().constant(rng.integers(-2, 3, shapes[1]).astype(dtypes.numpy_dtype(dtype)))
    attrs = layer.attributes(layout)
    if direction == FPROP:
        attrs["src_shape"] = result.shape
    # of f32 layers in bf16 as well: they may take algorithms that layers whose tensors are bf16 may not
    return make_problem(kind, attrs, [first, second], result, narrowed=dtype != "f32")


def applicable(problem: ConvProblem, env: Env) -> list[str]:
    """The forms that may compute it, by name."""
    return [form.name for form in algorithms.applicable(problem, env)]


def measure(problem: ConvProblem, env: Env) -> dict[str, float]:
    """Least seconds of every algorithm; those far behind the first round's best run once."""
    runners: dict[str, Runner] = {}
    for form in algorithms.applicable(problem, env):
        try:
            runner = runner_of(problem, env, form)
            # what other processes take does not count
            runner.clock = time.process_time if env.threads == 1 else runner.clock
            runner.run()
        except Error:
            continue
        if form.by_reference(problem, env):
            # it ran in f32, as a reference kernel would have run it
            continue
        runner.times.clear()
        runner.run()
        runner.run()
        runners[form.name] = runner
    best = min((min(runner.times) for runner in runners.values()), default=0.0)
    racing = [runner for runner in runners.values() if min(runner.times) <= HOPELESS * best]
    begin = time.perf_counter()
    while racing and (
        len(racing[0].times) < 5 or (time.perf_counter() - begin < SECONDS and len(racing[0].times) < 32)
    ):
        for runner in racing:
            runner.run()
    return {name: float(f"{min(runner.times):.3g}") for name, runner in runners.items()}


def smaller(layer: Problem, gmacs: float) -> Problem | None:
    """The layer with its batch, then its longest axis, halved until it has so many products."""
    while layer.macs > gmacs * 1e9:
        if layer.batch > 1:
            layer = replace(layer, batch=layer.batch // 2)
        elif max(layer.spatial) > 4:
            axis = int(np.argmax(layer.spatial))
            size = tuple(n // 2 if a == axis else n for a, n in enumerate(layer.spatial))
            layer = replace(layer, spatial=size)
        else:
            return None
    return layer


def here(dtype: str, gmacs: float) -> tuple[Env, dict[str, Any]]:
    """This machine, and the head of a file of its times."""
    env = Env(engine("cpu"), get_num_threads())
    head = {
        "cpu": cpu_model(), "cpu_family": cpu_family(), "isa": env.isa, "onednn": env.release,
        "date": date.today().isoformat(), "threads": env.threads, "dtype": dtype, "max_gmacs": gmacs,
        "method": "least seconds of several runs in turn",
    }  # fmt: skip
    return env, head


def questions(
    part: str, layouts: str, ops: str = _TRANSPOSED, more: Sequence[Problem] = ()
) -> Iterator[dict[str, Any]]:
    """Layers, layouts and directions to measure; `more`: layers of no list, which rows hold themselves."""
    first, step = map(int, part.split("/"))
    listed = [layer for op in ops.split(",") for layer in real_layers(op)]
    for layer in (more or listed)[first::step]:
        op = {} if layer.op == _TRANSPOSED else {"op": layer.op}
        problem = {"problem": {key: value for key, value in layer.as_dict().items() if value}} if more else {}
        for layout in layouts.split(","):
            for direction, constant in ASKED[layer.op]:
                question = {"layer": layer.name, "direction": direction, "layout": layout, "constant": constant}
                yield {**op, **question, **problem}


def _layers() -> dict[tuple[str, str], Problem]:
    """The layers of all lists by op and name."""
    return {(op, layer.name): layer for op in OPS for layer in real_layers(op)}


def _layer_of(row: Mapping[str, Any], listed: Mapping[tuple[str, str], Problem]) -> Problem:
    """The layer of a row, as the transposed one that it is."""
    return (Problem.from_dict(row["problem"]) if "problem" in row else listed[_named(row)]).adjoint


def _named(row: Mapping[str, Any]) -> tuple[str, str]:
    return row.get("op", _TRANSPOSED), row["layer"]


def record(recorded: Recorded, asked: Sequence[dict[str, Any]], env: Env, save: Path | None, tell: Progress) -> None:
    """Measure what `recorded` lacks; rows whose forms are not today's are measured anew. Saved after each."""
    layers = _layers()
    known = {_question(row): row for row in recorded.rows}
    for done, one in enumerate(asked):
        tell(done, len(asked), f"{one['layer']} {one['direction']}")
        layer = smaller(_layer_of(one, layers), recorded.head["max_gmacs"])
        if layer is None:
            continue
        problem = described(layer, one["direction"], one["layout"], one["constant"], recorded.head["dtype"])
        before = known.get(_question(one))
        if before is not None and sorted(before["forms"]) == sorted(applicable(problem, env)):
            continue
        if before is not None:
            recorded.rows.remove(before)
        row = {**one, "forms": applicable(problem, env), "seconds": measure(problem, env)}
        recorded.rows.append(row)
        if save is not None:
            cache_files.write(save, json_lines({**recorded.head, "rows": recorded.rows}, 3))


def _question(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (*_named(row), *(row[name] for name in ("direction", "layout", "constant")))


def resumed(path: Path, head: dict[str, Any]) -> Recorded:
    """Returns the wanted times that a file has. InvalidArgumentError: it is of another machine or question."""
    recorded = read(path)
    for name in ("cpu", "cpu_family", "isa", "onednn", "threads", "dtype", "max_gmacs"):
        if recorded.head.get(name) != head[name]:
            raise InvalidArgumentError(
                f"bench.fit: {path} has {name} {recorded.head.get(name)!r}, not {head[name]!r}; begin a file of its own"
            )
    return recorded


# -- files --------------------------------------------------------------------------------------------------------


def read(path: Path) -> Recorded:
    """A file of times. InvalidArgumentError: its directions have the names of an older version."""
    content = json.loads(path.read_text("utf-8"))
    others = {row["direction"] for row in content["rows"]}.difference(READ)
    if others:
        names = ", ".join(f"{old} to {new}" for old, new in _OLD_NAMES.items())
        raise InvalidArgumentError(
            f"bench.fit: {path} has rows of direction {min(others)!r}; directions are {', '.join(READ)}. Measure "
            f"anew, or rename those of an older version: {names}"
        )
    return Recorded({name: value for name, value in content.items() if name != "rows"}, content["rows"])


def samples(recorded: Recorded) -> list[Sample]:
    """The rows with the counts of today's forms; forms that are no more, or none for the problem, are left out."""
    env = Elsewhere(engine("cpu"), recorded.head["threads"], name=recorded.head["isa"])
    layers = _layers()
    found = []
    for row in recorded.rows:
        layer = smaller(_layer_of(row, layers), recorded.head["max_gmacs"])
        if layer is None:
            continue
        direction = row["direction"]
        problem = described(layer, direction, row["layout"], row["constant"], recorded.head["dtype"], run=False)
        timed = tuple(
            Form(form.name, form.key, form.counts(problem, env), row["seconds"][form.name])
            for form in algorithms.applicable(problem, env)
            if form.name in row["seconds"]
        )
        if len(timed) > 1:
            where = f"{row['layer']} {row['layout']}{' constant' if row['constant'] else ''}"
            found.append(Sample(where, row["layer"], problem, env, timed))
    return found


def _algorithm(form: Form, sample: Sample) -> Algorithm:
    """Returns the algorithm of a form of a row."""
    algorithm = algorithms.named(form.name, sample.direction)
    assert algorithm is not None
    return algorithm


# -- fitting ------------------------------------------------------------------------------------------------------


def present(sample: Sample) -> Constants:
    """The constants that such a machine has now."""
    return fits.find(sample.env.isa, sample.env.release, sample.dtype)


def table(rows: Sequence[Sample]) -> Iterator[tuple[Key, np.ndarray, np.ndarray]]:
    """For every family and direction: its counts by thread, and the seconds measured."""
    timed: dict[Key, list[tuple[Form, int]]] = {}
    for sample in rows:
        for form in sample.forms:
            timed.setdefault(form.key, []).append((form, sample.env.threads))
    for key, forms in sorted(timed.items()):
        counts = [np.array(form.counts[:FIELDS]) / threads for form, threads in forms]
        fixed = [cost.overhead(form.counts, threads) for form, threads in forms]
        seconds = [max(f.seconds - o, 0.2 * f.seconds) for (f, _), o in zip(forms, fixed, strict=True)]
        yield key, np.array(counts), np.array(seconds)


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


def borrowed(sample: Sample) -> bool:
    """Whether its constants are those of another dtype."""
    others = fits.INSTEAD.get(sample.dtype, ("f32",))[1:]
    version, prices = sample.env.release, present(sample)
    return any(fits.find(sample.env.isa, version, dtype) is prices for dtype in others)


def fit(rows: Sequence[Sample]) -> dict[Key, Prices]:
    """Constants of all families for the rows, which are of one dtype."""
    prior, other = present(rows[0]), borrowed(rows[0])
    timed = {key: (counts, seconds) for key, counts, seconds in table(rows)}
    # a faster machine or dtype changes the scale first: of all, or of a family
    scales = {key: float(np.mean(np.log(y / (x @ np.array(prior[key]))))) for key, (x, y) in timed.items()}
    whole = float(np.mean(list(scales.values())))
    found = {key: tuple(math.exp(whole) * price for price in prior[key]) for key in prior}
    for key, (counts, seconds) in timed.items():
        before = np.array(prior[key]) * math.exp(scales[key] if other else (scales[key] + whole) / 2)
        found[key] = tuple(map(float, fitted(counts, seconds, before, PULL_OF_ANOTHER if other else PULL)))
    # good estimates are not yet good choices: the search begins with those, and with the present choices
    ends = [cautious(rows, dict(start)) for start in (prior, found)]
    for direction in {sample.direction for sample in rows}:
        mine = [sample for sample in rows if sample.direction == direction]
        best = min(ends, key=lambda end: mean([loss(sample, end) for sample in mine]))
        found.update({key: best[key] for key in found if key[1] == direction})
    return found


def cautious(rows: Sequence[Sample], constants: dict[Key, Prices]) -> dict[Key, Prices]:
    """The constants with each family scaled so that choosing by them costs least: unsure estimates are raised."""
    found = dict(constants)
    for _ in range(ROUNDS):
        for key in found:
            mine = [sample for sample in rows if any(form.key == key for form in sample.forms)]
            if not mine:
                continue
            scaled = {s: tuple(s * price for price in found[key]) for s in SCALES}
            tried = {s: mean([loss(sample, {**found, key: scaled[s]}) for sample in mine]) for s in SCALES}
            found[key] = scaled[min(SCALES, key=lambda s: (tried[s], abs(s - 1)))]
    return found


def at_one_speed(files: Sequence[Sequence[Sample]]) -> list[Sample]:
    """The rows of several machines, with the times of all at the speed of the first: only ratios matter to choices."""
    found = list(files[0])
    constants = fit(found) if len(files) > 1 else {}
    for rows in files[1:]:
        ratios = [form.seconds / estimated(form, sample, constants) for sample in rows for form in sample.forms]
        slower = float(np.median(ratios))
        for sample in rows:
            forms = tuple(form._replace(seconds=form.seconds / slower) for form in sample.forms)
            found.append(sample._replace(forms=forms))
    return found


class Loss(NamedTuple):
    """How many times the best form's time choosing took."""

    times: float
    where: str
    took: str
    best: str


def estimated(form: Form, sample: Sample, constants: Constants) -> float:
    """Seconds by the constants alone."""
    seconds = cost.estimate(form.counts, constants[form.key], sample.env.threads)
    return seconds * cost.turned(form.key, sample.direction, sample.dtype, sample.env)


def loss(sample: Sample, constants: Constants, factors: Mapping[str, float] | None = None) -> Loss:
    """Of the algorithm that the constants choose, corrected by factors of some forms."""
    by = factors or {}
    took = min(sample.forms, key=lambda form: estimated(form, sample, constants) * by.get(form.name, 1.0))
    best = min(sample.forms, key=lambda form: form.seconds)
    return Loss(took.seconds / best.seconds, sample.where, took.name, best.name)


def factors(sample: Sample) -> dict[str, float]:
    """Returns what estimates of a sample's forms are multiplied by: similar recorded layers, and rates of the CPU."""
    near = nearest.factors(sample.problem, sample.env)
    return {
        form.name: near.get(form.name, 1.0)
        * cost.correction(_algorithm(form, sample).unit(sample.problem, sample.env), sample.dtype, sample.env)
        for form in sample.forms
    }


def mean(losses: Sequence[Loss]) -> float:
    """Geometric mean of how many times the best time was taken."""
    return math.exp(sum(math.log(one.times) for one in losses) / len(losses))


def crossed(rows: Sequence[Sample]) -> list[tuple[str, Loss]]:
    """Direction and loss of every row by constants that were fitted to other layers."""
    layers = sorted({sample.layer for sample in rows})
    found = []
    for fold in range(FOLDS):
        judged = set(layers[fold::FOLDS])
        others = [sample for sample in rows if sample.layer not in judged]
        constants = fit(others)
        found += [(s.direction, loss(s, constants)) for s in rows if s.layer in judged]
    return found


def report(rows: Sequence[Sample]) -> dict[Key, Prices]:
    """Fit to rows of one dtype, print, and return the constants.

    Raises:
        Error: too few layers for constants of some to be judged by others.
    """
    layers = {sample.layer for sample in rows}
    if len(layers) < FOLDS:
        raise Error(f"fit: {len(layers)} layer of {rows[0].dtype} is too few, {FOLDS} are needed; give a larger --part")
    constants = fit(rows)
    for key, counts, seconds in table(rows):
        error = np.abs(np.log(counts @ np.array(constants[key]) / seconds))
        print(f"{key}: {len(seconds)} runs, median error {np.median(error):.0%}")
    by = {
        "the present constants": [(s.direction, loss(s, present(s))) for s in rows],
        "these constants": [(s.direction, loss(s, constants)) for s in rows],
        "those of the other half": crossed(rows),
    }
    for name, losses in by.items():
        for direction in (DGRAD, FPROP, WGRAD):
            mine = sorted((one for where, one in losses if where == direction), reverse=True)
            if not mine:
                continue
            worst = ", ".join(f"{w.times:.2f} {w.where} ({w.took} for {w.best})" for w in mine[:4])
            print(f"{name}, {rows[0].dtype} {direction}: choosing costs {mean(mine) - 1:.1%} in the mean; {worst}")
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
    parser.add_argument("--dtype", choices=("f32", "bf16", "f16"), default="f32")
    parser.add_argument("--op", default=_TRANSPOSED, help="conv_transpose, conv or conv_transpose,conv")
    parser.add_argument("--layers", type=Path, metavar="FILE", help="JSON list of problems, instead of the suite")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the measurements as JSON")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="measure what FILE lacks, and save it there")
    parser.add_argument("--load", type=Path, nargs="+", metavar="FILE", help="fit to measurements saved before")
    parser.add_argument("--write", type=Path, nargs="?", const=Path(), metavar="FILE", help="write the constants")
    options = parser.parse_args(arguments)
    for path in (options.save, options.resume, options.write):
        if path not in (None, Path()):
            check_writable(path)
    env, head = here(options.dtype, options.max_gmacs)
    if options.load:
        recorded = [read(path) for path in options.load]
    else:
        save = options.save or options.resume
        resume = options.resume is not None and options.resume.exists()
        one = resumed(options.resume, head) if resume else Recorded(head, [])
        try:
            with shown() as tell:
                asked = questions(options.part, options.layouts, options.op, _read_layers(options.layers))
                record(one, list(asked), env, save, tell)
        except KeyboardInterrupt:
            kept = f"{len(one.rows)} rows are in {save}; go on with --resume {save}" if save else "nothing was kept"
            parser.exit(130, f"interrupted: {kept}\n")
        recorded = [one]
    path = options.write
    if path == Path():
        path = fits.user_file(fits.keys(recorded[0].head["isa"])[0])
    before = cache_files.read(path) if path is not None and path.exists() else {}
    content = fitted_file(recorded, before)
    if path is not None:
        cache_files.write(path, json_lines(content, 4))
        fits.source.cache_clear()
        print(f"written to {path}")


if __name__ == "__main__":
    main()
