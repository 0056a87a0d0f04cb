"""Files of times: how long every algorithm of a layer takes, in turns within a second.

A file says where and how it was measured, and has a row for each layer, direction and layout. `bench.fit` fits the cost
model to such files.
"""

from __future__ import annotations

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
from .._core import kernels
from ..algorithms import table as algorithms
from ..compile.tune import Runner, runner_of
from ..convolution.nodes import CONV_KINDS, make_problem
from ..convolution.problem import DGRAD, FPROP, READ, WGRAD, ConvProblem
from ..cost.fits import INTEGERS
from ..errors import Error, InvalidArgumentError
from ..ir.env import Env
from ..program.program import Buffer, Place, Program, View
from ..progress import Progress
from ..runtime import cache_files, cpu
from ..runtime.cpuinfo import cpu_family, cpu_model
from ..runtime.rates import Rates
from ..runtime.threads import get_num_threads
from ..strides import dense_strides
from . import quantized
from .document import json_lines
from .peers import own
from .peers.task import Task
from .problem import OPS, Problem
from .suite import real_layers

SECONDS = 0.25
HOPELESS = 4.0
_OLD_NAMES = {"forward": DGRAD, "backward_data": FPROP, "backward_weights": WGRAD}
# op: directions, and whether weights are constant; the first is that of 8-bit integers. Ordinary layers count as the
# transposed ones that they are
TRANSPOSED, ORDINARY = OPS
ASKED = {
    TRANSPOSED: ((DGRAD, True), (DGRAD, False), (FPROP, False), (WGRAD, False)),
    ORDINARY: ((FPROP, True), (FPROP, False), (DGRAD, False), (WGRAD, False)),
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


def of_integers(layer: Problem, layout: str) -> ConvProblem | None:
    """The quantized layer as `lowering` sees it; None where its integers are not computed as one convolution."""
    task = Task(layer, "fwd", quantized.DTYPE, layout, "constant", get_num_threads())
    graph, result, _ = own.graph_of(task, engine("cpu"))
    decisions = [decision for _, decision in graph.compile(result)._latest().lowering.decisions]
    problems = [one.problem for one in decisions if one.problem is not None and one.problem.quantization is not None]
    return problems[0] if len(problems) == len(decisions) == 1 else None


def problem_of(
    row: Mapping[str, Any], layers: Mapping[tuple[str, str], Problem], head: Mapping[str, Any], *, run: bool = True
) -> ConvProblem | None:
    """The layer of a row or question as `lowering` sees it, small enough; None where it cannot be."""
    layer, most = layer_of(row, layers), head["max_gmacs"]
    if head["dtype"] == INTEGERS:
        small = smaller(layer, most)
        return None if small is None else of_integers(small, row["layout"])
    # ordinary layers are the transposed ones with the same weights
    small = smaller(layer.adjoint, most)
    if small is None:
        return None
    return described(small, row["direction"], row["layout"], row["constant"], head["dtype"], run=run)


def applicable(problem: ConvProblem, env: Env) -> list[str]:
    """The forms that may compute it, by name."""
    return [form.name for form in algorithms.applicable(problem, env)]


def measure(problem: ConvProblem, env: Env) -> dict[str, float]:
    """Least seconds of every algorithm; those far slower than the first round's best run once."""
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
    return env, head | ({"int8_isa": kernels.int8_isa()[0]} if dtype == INTEGERS else {})


def questions(
    part: str, layouts: str, ops: str = TRANSPOSED, more: Sequence[Problem] = (), dtype: str = "f32"
) -> Iterator[dict[str, Any]]:
    """Layers, layouts and directions to measure; `more`: layers of no list, which rows hold themselves."""
    try:
        first, step = map(int, part.split("/"))
    except ValueError:
        first, step = -1, 0
    if not 0 <= first < step:
        raise InvalidArgumentError(f"part {part!r}: must be i/n with 0 <= i < n, such as 0/4")
    listed = [layer for op in ops.split(",") for layer in real_layers(op)]
    for layer in (more or listed)[first::step]:
        op = {} if layer.op == TRANSPOSED else {"op": layer.op}
        problem = {"problem": {key: value for key, value in layer.as_dict().items() if value}} if more else {}
        for layout in layouts.split(","):
            for direction, constant in ASKED[layer.op][: 1 if dtype == INTEGERS else None]:
                question = {"layer": layer.name, "direction": direction, "layout": layout, "constant": constant}
                yield {**op, **question, **problem}


def listed() -> dict[tuple[str, str], Problem]:
    """The layers of all lists by op and name."""
    return {(op, layer.name): layer for op in OPS for layer in real_layers(op)}


def layer_of(row: Mapping[str, Any], listed: Mapping[tuple[str, str], Problem]) -> Problem:
    """The layer of a row."""
    return Problem.from_dict(row["problem"]) if "problem" in row else listed[_named(row)]


def _named(row: Mapping[str, Any]) -> tuple[str, str]:
    return row.get("op", TRANSPOSED), row["layer"]


def record(recorded: Recorded, asked: Sequence[dict[str, Any]], env: Env, save: Path | None, tell: Progress) -> None:
    """Measure what `recorded` lacks; rows whose forms are not today's are measured anew. Saved after each."""
    layers = listed()
    known = {_question(row): row for row in recorded.rows}
    for done, one in enumerate(asked):
        tell(done, len(asked), f"{one['layer']} {one['direction']}")
        problem = problem_of(one, layers, recorded.head)
        if problem is None:
            continue
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
    for name in ("cpu", "cpu_family", "isa", "onednn", "threads", "dtype", "max_gmacs", "int8_isa"):
        if recorded.head.get(name) != head.get(name):
            raise InvalidArgumentError(
                f"bench.fit: {path} has {name} {recorded.head.get(name)!r}, not {head.get(name)!r}; begin another file"
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
