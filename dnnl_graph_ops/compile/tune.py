"""Measures algorithms on the real shapes for tune="measure", once, and keeps the times in a file."""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

from .._core import __file__ as extension_file
from ..algorithms import lower
from ..algorithms.algorithm import Algorithm
from ..algorithms.choice import measured_as
from ..algorithms.table import Ranked
from ..convolution.problem import ConvProblem
from ..errors import Error, Timeout
from ..ir.env import Env
from ..onednn.partition import separated
from ..onednn.workarounds import on_views
from ..program import epilogue as post
from ..program.arrays import ones
from ..program.program import Buffer, NativeStep, Operand, Place, Program, View, data_of
from ..progress import shown
from ..runtime import cache_files
from ..runtime.cpuinfo import cpu_family, cpu_model
from ..runtime.info import version
from ..runtime.reference import Keys
from ..strides import extent
from .plan import assemble, bytes_of, settled

# the most seconds to measure one op, and all ops of a graph
BUDGET, GRAPH_BUDGET = 2.0, 20.0
# algorithms whose estimate or time exceeds the best by this factor are not measured further
HOPELESS_ESTIMATE = 6.0
HOPELESS_TIME = 1.5
ROUNDS = 25
SURE_ROUNDS = 4
# folders whose sources define the algorithms: times are measured again when a source changes
SOURCES = tuple(
    Path(__file__).parents[1] / room for room in ("algorithms", "convolution", "cost", "ir", "onednn", "program")
)


@dataclass
class Runner:
    """A plan of a problem or step, on arrays of its own, and the seconds of its runs."""

    executor: Any
    inputs: list[Any]
    outputs: list[Any]
    times: list[float]
    clock: Callable[[], float] = time.perf_counter

    def run(self) -> None:
        start = self.clock()
        self.executor.run(self.inputs, self.outputs)
        self.times.append(self.clock() - start)


class Answers:
    """Measures the algorithms of a graph's problems, the longest estimate first, until the budget of the graph ends.

    A problem that the budget does not reach keeps its estimates. `questions`: problems, each with the algorithms that
    may compute it and their estimated seconds.
    """

    def __init__(self, env: Env, questions: Sequence[tuple[ConvProblem, Ranked]]) -> None:
        self._ranked: dict[Path, Ranked | None] = {}
        self.deadline = time.perf_counter() + GRAPH_BUDGET
        with shown() as tell:
            for done, (problem, found) in enumerate(sorted(questions, key=lambda question: -question[1][0][1]), 1):
                alike = measured_as(problem, env)
                path = _path(alike, env, found)
                if path not in self._ranked:
                    self._ranked[path] = choose(alike, env, found, min(BUDGET, self.left()))
                tell(done, len(questions), f"result {'x'.join(map(str, problem.result.shape))}")

    def left(self) -> float:
        return self.deadline - time.perf_counter()

    def choose(self, problem: ConvProblem, env: Env, found: Ranked) -> Ranked | None:
        ranked = self._ranked.get(_path(measured_as(problem, env), env, found))
        # the measured problem may have other sizes, so an algorithm may not apply
        return ranked and [item for item in ranked if item[0].takes(problem, env)]

    def part(self, program: Program, env: Env) -> None:
        """Divides native steps of several ops of `program` into a step for each op, where measured as faster."""
        natives = [step for step in program.steps if isinstance(step, NativeStep) and len(step.ops) > 1]
        apart: dict[Path, bool] = {}
        divided: list[NativeStep] = []
        for step in sorted(natives, key=bytes_of, reverse=True):
            path = _path_of_step(step, env)
            if path not in apart:
                apart[path] = _faster_apart(step, env, path, self.left())
            divided += [step] if apart[path] else []
        program.steps = [
            one
            for step in program.steps
            for one in (_each_op(program, step) if isinstance(step, NativeStep) and step in divided else [step])
        ]


def choose(problem: ConvProblem, env: Env, found: Ranked, budget: float) -> Ranked | None:
    """Returns the algorithms with their measured seconds, fastest first, from the file cache if measured before.

    None if no time is left to measure them, or none of them runs.
    """
    names = {algorithm.name: algorithm for algorithm, _ in found}
    path = _path(problem, env, found)
    ranked = _load(path, names)
    if ranked is not None:
        return [(names[name], seconds) for name, seconds in ranked]
    if budget < 0:
        return None
    limit = HOPELESS_ESTIMATE * found[0][1]
    racing = [algorithm for algorithm, seconds in found if seconds <= limit and algorithm.takes(problem, env)]
    ranked = _race({algorithm.name: partial(runner_of, problem, env, algorithm) for algorithm in racing}, budget)
    if not ranked:
        return None
    _save(path, ranked)
    return [(names[name], seconds) for name, seconds in ranked]


WHOLE, PARTS = "whole", "parts"


def _faster_apart(step: NativeStep, env: Env, path: Path, left: float) -> bool:
    """Whether the ops of a step are faster as steps of their own; False if no time is left to measure both."""
    rows = _load(path, (WHOLE, PARTS)) or []
    if not rows and left > 0:
        rows = _race({name: partial(_runner_of_step, step, env, name) for name in (WHOLE, PARTS)}, min(BUDGET, left))
        if rows:
            _save(path, rows)
    return bool(rows) and rows[0][0] == PARTS


def _each_op(program: Program, step: NativeStep) -> list[NativeStep]:
    return separated(program, step, [(op,) for op in step.ops])


def _runner_of_step(step: NativeStep, env: Env, how: str) -> Runner:
    """Returns a runner of a step on arrays of ones; with `how` PARTS of its ops as steps of their own."""
    program, buffers = Program(), _Buffers()
    taken = {view: buffers.take(view) for view in step.reads}
    written = {view: _alone(view, Place.OUTPUT, i) for i, view in enumerate(step.writes)}
    own = on_views(step, {**taken, **written})
    program.steps = [*(_each_op(program, own) if how == PARTS else [own])]
    return _runner(program, list(buffers.inputs.values()), list(written.values()), env)


def _runner(
    program: Program, inputs: Sequence[View], outputs: Sequence[View], env: Env, known: Keys | None = None
) -> Runner:
    plan = assemble(program, inputs, outputs, env.engine, fpmath_mode=env.fpmath_mode, threads=env.threads, known=known)
    return Runner(plan.executor, [ones(view) for view in inputs], [ones(view) for view in outputs], [])


def _race(makers: Mapping[str, Callable[[], Runner]], budget: float) -> list[tuple[str, float]]:
    """Measures runners by rounds in which each runs once; returns their names and median seconds, fastest first.

    Drops runners that are much slower than the best, and stops at the budget; `makers` come in the order of estimates.
    """
    runners: dict[str, Runner] = {}
    deadline = time.perf_counter() + budget
    for name, make in makers.items():
        if len(runners) > 1 and time.perf_counter() > deadline:
            break
        try:
            runner = make()
            runner.run()
        except Timeout:
            raise
        except (Error, MemoryError):
            # the library refuses the steps, or memory is too small for them
            continue
        runner.times.clear()
        runners[name] = runner
    for number in range(ROUNDS):
        for runner in runners.values():
            runner.run()
        best = min((min(runner.times) for runner in runners.values()), default=0.0)
        # a single short run may be twice as long by chance
        limit = HOPELESS_TIME if number >= SURE_ROUNDS else HOPELESS_ESTIMATE
        runners = {name: runner for name, runner in runners.items() if min(runner.times) <= limit * best}
        if len(runners) < 2 or time.perf_counter() > deadline:
            break
    return sorted(((name, median(runner.times)) for name, runner in runners.items()), key=lambda row: row[1])


class _Buffers:
    """Replaces the views that a problem or step reads by inputs of a plan of its own."""

    def __init__(self) -> None:
        self.inputs: dict[View, View] = {}

    def take(self, view: View) -> View:
        if view.is_constant:
            # a copy of the buffer record, as other algorithms and the net need the data after this plan releases it
            return replace(view, buffer=replace(view.buffer, array=data_of(view.buffer)))
        if view not in self.inputs:
            self.inputs[view] = _alone(view, Place.INPUT, len(self.inputs))
        return self.inputs[view]


def _alone(view: View, place: Place, index: int = 0) -> View:
    """Returns a view of a new buffer of its own with the same shape and strides."""
    return View(Buffer(place, view.dtype, extent(view.shape, view.strides), index), view.shape, view.strides)


def apart(problem: ConvProblem, take: Callable[[View], View]) -> ConvProblem:
    """Returns the problem with a new output as its result, and with `take(view)` for each view that it reads."""
    result, q = problem.result, problem.quantization
    written = _alone(result, Place.OUTPUT)

    def taken(view: View) -> View:
        # a partition of the library has the result with the axes of its node
        return replace(view, buffer=written.buffer, offset=0) if view.buffer is result.buffer else take(view)

    names = ("y", "w", "x")
    views = {name: written if view is result else take(view) for name in names if (view := getattr(problem, name))}
    return problem.with_views(
        **views,
        bias=None if problem.bias is None else take(problem.bias),
        epilogue=post.map_views(problem.epilogue, take),
        quantization=q and q.on_views(taken),
    )


def runner_of(problem: ConvProblem, env: Env, algorithm: Algorithm) -> Runner:
    """Returns a runner of the problem by this algorithm, on arrays of ones; constants keep their data.

    What a reference kernel of the library would run is computed in f32.
    """

    def attempt(known: Keys) -> Runner:
        program, buffers = Program(), _Buffers()
        own = apart(problem, buffers.take)
        lower.build(program, own, algorithm, env)
        return _runner(program, list(buffers.inputs.values()), [own.result], env, known)

    return settled(attempt, env.engine)


# -- the file cache -----------------------------------------------------------------------------------------------


def folder() -> Path:
    """Returns the folder of the files of measured times, in the package's folder of the user's cache directory."""
    return cache_files.folder("tuning")


def _path(problem: ConvProblem, env: Env, found: Ranked) -> Path:
    """Returns the path of the file of a problem's times; its name is a digest of all that the times depend on."""
    views = {name: getattr(problem, name) for name in ("y", "w", "x", "bias")}
    return _file(
        {
            "direction": problem.direction,
            "geometry": repr(problem.geometry),
            "quantization": repr(problem.quantization and problem.quantization.key),
            "views": {name: _described(view) for name, view in views.items()},
            "epilogue": [
                (
                    op.kind,
                    sorted(map(repr, op.attrs.items())),
                    [o if isinstance(o, int) else (o.shape, o.strides) for o in op.operands],
                )
                for op in problem.epilogue
            ],
            "candidates": sorted(algorithm.name for algorithm, _ in found),
        },
        env,
    )


def _path_of_step(step: NativeStep, env: Env) -> Path:
    numbers: dict[Operand, int] = {}
    ops = []
    for op in step.ops:
        operands = [(numbers.setdefault(o, len(numbers)), _described(o)) for o in (*op.inputs, *op.outputs)]
        ops.append((op.kind, sorted(map(repr, op.attrs.items())), len(op.inputs), operands))
    return _file({"ops": ops}, env)


def _described(operand: Operand | None) -> tuple[Any, ...] | None:
    if isinstance(operand, View):
        return operand.dtype, operand.shape, operand.strides, operand.is_constant
    return None if operand is None else (operand.dtype, operand.shape)


def _file(question: dict[str, Any], env: Env) -> Path:
    question |= {
        "env": env.key(),
        "engine": (env.engine.kind, env.engine.runtime.name, env.engine.runtime.version, env.isa),
        "package": version(),
        "cpu": (cpu_model(), cpu_family()),
        "sources": _sources(),
    }
    digest = hashlib.sha256(json.dumps(question, sort_keys=True, default=str).encode()).hexdigest()
    return folder() / f"{digest[:40]}.json"


@cache
def _sources() -> str:
    """Returns a digest of the sources of the algorithms, and of the extension module with the kernels."""
    digest = hashlib.sha256()
    files = sorted(file for folder in SOURCES for file in folder.rglob("*") if file.suffix in (".py", ".json"))
    for file in (*files, Path(extension_file)):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _load(path: Path, names: Collection[str]) -> list[tuple[str, float]] | None:
    """Returns the (name, seconds) of a file, fastest first; None if it is missing or, with a warning, damaged.

    Damaged is a file that `_save` has not written, or that has names not in `names`.
    """
    try:
        content = cache_files.read(path)
        rows = {str(name): seconds for name, seconds in content}
        plain = all(type(seconds) in (int, float) and 0 < float(seconds) < math.inf for seconds in rows.values())
        if not plain or not 0 < len(rows) == len(content) or not rows.keys() <= set(names):
            raise ValueError
        return sorted(rows.items(), key=lambda row: row[1])
    except OSError:
        return None
    except (ValueError, TypeError, OverflowError, RecursionError):
        warnings.warn(f"the tuning file {path.name} is damaged and is ignored", RuntimeWarning, stacklevel=2)
        return None


def _save(path: Path, rows: list[tuple[str, float]]) -> None:
    try:
        cache_files.write(path, json.dumps(rows))
    except OSError as error:
        warnings.warn(f"the tuning result could not be written to the cache: {error}", RuntimeWarning, stacklevel=2)
