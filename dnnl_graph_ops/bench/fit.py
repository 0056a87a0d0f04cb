"""Fit the cost model to this machine: `python -m dnnl_graph_ops.bench.fit [--max-gmacs G] [--save F] [--load F ...]`.

Every formulation of every layer of the suite is timed, in turns within a second; the constants of `lowering.cost` are
fitted to the least times, relative errors squared. Printed: the constants, how well they predict, and
what choosing by them costs against the best of all formulations.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import engine
from ..compile.tune import Runner, runner_of
from ..errors import Error
from ..lowering import cost
from ..lowering.cost import CONSTANTS, FITTED, Counts
from ..lowering.env import Env
from ..lowering.family import DIRECTIONS as KINDS
from ..lowering.family import make_problem
from ..lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD
from ..lowering.problem import Problem as LoweringProblem
from ..lowering.program import Buffer, Place, Program, View
from ..lowering.registry import FORMULATIONS
from ..runtime.threads import get_num_threads
from ..strides import dense_strides
from .problem import Problem
from .suite import real_layers

SECONDS = 0.25
HOPELESS = 4.0
PULL = 0.05  # towards the constants that are there
SCALES = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5)

Constants = dict[tuple[str, str], Counts]


def described(layer: Problem, direction: str, layout: str, constant: bool) -> LoweringProblem:
    """The layer as `lowering` sees it; constant weights have integers as data."""
    kind = next(kind for kind, name in KINDS.items() if name == direction)
    shapes = {
        FORWARD: (layer.src_shape(layout), layer.weights_shape, layer.dst_shape(layout)),
        BACKWARD_DATA: (layer.dst_shape(layout), layer.weights_shape, layer.src_shape(layout)),
        BACKWARD_WEIGHTS: (layer.src_shape(layout), layer.dst_shape(layout), layer.weights_shape),
    }[direction]
    first, second, result = (
        View(Buffer(place, "f32", math.prod(shape), index), shape, dense_strides(shape))
        for place, shape, index in zip((Place.INPUT, Place.INPUT, Place.OUTPUT), shapes, (0, 1, 0), strict=True)
    )
    if constant:
        rng = np.random.default_rng(0)
        second = Program().constant(rng.integers(-2, 3, shapes[1]).astype(np.float32))
    attrs: dict[str, Any] = {
        "strides": layer.strides, "pads_begin": layer.pads_begin, "pads_end": layer.pads_end,
        "dilations": layer.dilations, "output_padding": layer.output_padding, "groups": layer.groups,
        "data_format": layout, "weights_format": "IOX",
    }  # fmt: skip
    if direction == BACKWARD_DATA:
        attrs["src_shape"] = result.shape
    return make_problem(kind, attrs, [first, second], result)


def measure(layer: Problem, direction: str, layout: str, constant: bool, env: Env) -> dict[str, Any] | None:
    """Least seconds and counts of every formulation; those far behind the first round's best run once."""
    problem = described(layer, direction, layout, constant)
    runners: dict[str, Runner] = {}
    for form in FORMULATIONS:
        if form.direction != direction or not form.applies(problem, env):
            continue
        try:
            runner = runner_of(problem, env, form)
            runner.run()
        except Error:
            continue
        runner.times.clear()
        runner.run()
        runner.run()
        runners[form.name] = runner
    if len(runners) < 2:
        return None
    best = min(min(runner.times) for runner in runners.values())
    racing = [runner for runner in runners.values() if min(runner.times) <= HOPELESS * best]
    begin = time.perf_counter()
    while len(racing[0].times) < 5 or (time.perf_counter() - begin < SECONDS and len(racing[0].times) < 32):
        for runner in racing:
            runner.run()
    return {
        "layer": layer.name, "direction": direction, "layout": layout, "constant": constant, "threads": env.threads,
        "forms": [
            {"name": name, "family": runner.form.family, "counts": list(runner.form.counts(problem, env)),
             "rate": cost.rate(runner.form.family, problem.dtype, env), "seconds": min(runner.times)}
            for name, runner in runners.items()
        ],
    }  # fmt: skip


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


def table(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[tuple[str, str], np.ndarray, np.ndarray]]:
    """For every family and direction: its counts scaled to seconds per constant, and the seconds measured."""
    keys = sorted({(form["family"], row["direction"]) for row in rows for form in row["forms"]})
    for key in keys:
        counts, seconds = [], []
        for row in rows:
            for form in row["forms"]:
                if (form["family"], row["direction"]) == key:
                    one = Counts(*form["counts"])
                    fixed = cost.overhead(one, row["threads"])
                    scaled = np.array(one[:FITTED]) / row["threads"]
                    scaled[0] *= form["rate"]
                    counts.append(scaled)
                    seconds.append(max(form["seconds"] - fixed, 0.2 * form["seconds"]))
        yield key, np.array(counts), np.array(seconds)


def fitted(counts: np.ndarray, seconds: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Non-negative constants of the least squared logarithm of predicted by measured, pulled towards `prior`."""
    found = prior.copy()
    pull = PULL * len(seconds)
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


def report(rows: Sequence[dict[str, Any]]) -> Constants:
    """Fit, print, and return the constants."""
    constants = {}
    for key, counts, seconds in table(rows):
        found = fitted(counts, seconds, np.array(CONSTANTS[key][:FITTED]))
        error = np.abs(np.log(counts @ found / seconds))
        constants[key] = Counts(*found)
        print(f"{key}: {len(seconds)} runs, median error {np.median(error):.0%}")
    constants = cautious(rows, constants)
    for key, one in constants.items():
        print(f"{key}: Counts({', '.join(f'{value:.1e}' for value in one[:FITTED])})")
    for name, chosen in (("these constants", constants), ("the present ones", CONSTANTS)):
        for direction in (FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS):
            losses = sorted((loss(row, chosen) for row in rows if row["direction"] == direction), reverse=True)
            if not losses:
                continue
            print(f"{name}, {direction}: choosing costs {mean(losses) - 1:.1%} in the mean; the worst:")
            for times, layer, took, best in losses[:4]:
                print(f"  {times:.2f} {layer}: {took} for {best}")
    return constants


def mean(losses: Sequence[tuple[float, str, str, str]]) -> float:
    """Geometric mean of how many times the best time was taken."""
    return math.exp(sum(math.log(times) for times, *_ in losses) / len(losses))


def cautious(rows: Sequence[dict[str, Any]], constants: Constants) -> Constants:
    """The constants with each family scaled so that choosing by them costs least: unsure estimates are raised."""
    found = dict(constants)
    for _ in range(3):
        for key in found:
            mine = [row for row in rows if row["direction"] == key[1]]
            scaled = {s: Counts(*(s * value for value in found[key])) for s in SCALES}
            best = min(SCALES, key=lambda s: (mean([loss(row, {**found, key: scaled[s]}) for row in mine]), abs(s - 1)))
            found[key] = scaled[best]
    return found


def loss(row: dict[str, Any], constants: Mapping[tuple[str, str], Counts]) -> tuple[float, str, str, str]:
    """Time of the formulation that the constants choose by the best one's; the layer and both names."""

    def estimate(form: dict[str, Any]) -> float:
        chosen = constants[form["family"], row["direction"]]
        return cost.estimate(Counts(*form["counts"]), chosen, form["rate"], row["threads"])

    took = min(row["forms"], key=estimate)
    best = min(row["forms"], key=lambda form: form["seconds"])
    where = f"{row['layer']} {row['layout']}{' constant' if row['constant'] else ''}"
    return took["seconds"] / best["seconds"], where, took["name"], best["name"]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m dnnl_graph_ops.bench.fit", description=__doc__)
    parser.add_argument("--max-gmacs", type=float, default=0.3, help="layers are halved down to this")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th layer from i on")
    parser.add_argument("--layouts", default="NXC", help="NXC, NCX or NXC,NCX")
    parser.add_argument("--save", type=Path, help="write the measurements as JSON")
    parser.add_argument("--load", type=Path, nargs="+", help="fit to measurements saved before")
    options = parser.parse_args(arguments)
    if options.load:
        rows = [row for path in options.load for row in json.loads(path.read_text("utf-8"))]
    else:
        rows = []
        env = Env(engine("cpu"), get_num_threads())
        part, parts = map(int, options.part.split("/"))
        for layer in real_layers()[part::parts]:
            cut = smaller(layer, options.max_gmacs)
            if cut is None:
                continue
            for layout in options.layouts.split(","):
                for direction, constant in (
                    (FORWARD, True), (FORWARD, False), (BACKWARD_DATA, False), (BACKWARD_WEIGHTS, False),
                ):  # fmt: skip
                    row = measure(cut, direction, layout, constant, env)
                    if row is not None:
                        rows.append(row)
            if options.save:
                options.save.write_text(json.dumps(rows), "utf-8")
    report(rows)


if __name__ == "__main__":
    main()
