"""tune="measure": time the candidates on the real shapes, once, and remember the winner in a file."""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from .._core import __file__ as extension_file
from ..errors import Error
from ..lowering import lower as lowering
from ..lowering import tail as post
from ..lowering.env import Env
from ..lowering.problem import Problem
from ..lowering.program import Buffer, Place, Program, View
from ..lowering.registry import Formulation, Ranked
from ..runtime import cache_files
from ..runtime.info import cpu_model, version
from ..strides import extent
from .plan import assemble, ones

# Seconds that one op may take to tune, and what its estimate or time must not exceed to stay in the race
BUDGET = 2.0
HOPELESS_ESTIMATE = 6.0
HOPELESS_TIME = 1.5
ROUNDS = 25
SURE_ROUNDS = 4


@dataclass
class Runner:
    """A formulation of one problem, on buffers of its own."""

    form: Formulation
    executor: Any
    inputs: list[Any]
    outputs: list[Any]
    times: list[float]

    def run(self) -> None:
        start = time.perf_counter()
        self.executor.run(self.inputs, self.outputs)
        self.times.append(time.perf_counter() - start)


def choose(problem: Problem, env: Env, found: Ranked) -> Ranked:
    """The candidates with their measured seconds, fastest first; from the file cache if they were measured before."""
    names = {form.name: form for form, _ in found}
    path = _path(problem, env, sorted(names))
    known = _load(path, names)
    if known is not None:
        return [(names[name], seconds) for name, seconds in known]
    limit = HOPELESS_ESTIMATE * found[0][1]
    ranked = _race(problem, env, [form for form, seconds in found if seconds <= limit])
    if not ranked:
        return found
    _save(path, [(form.name, seconds) for form, seconds in ranked])
    return ranked


def _race(problem: Problem, env: Env, forms: Sequence[Formulation]) -> Ranked:
    """Run the candidates in turn; drop those far behind the best; stop at the budget."""
    runners = []
    deadline = time.perf_counter() + BUDGET
    for form in forms:
        try:
            runner = runner_of(problem, env, form)
            runner.run()
        except (Error, MemoryError):
            # a form that the library refuses or that has no room here is no candidate
            continue
        runner.times.clear()
        runners.append(runner)
    for number in range(ROUNDS):
        for runner in runners:
            runner.run()
        best = min(min(runner.times) for runner in runners) if runners else 0.0
        # a single short run may be twice as long by chance
        limit = HOPELESS_TIME if number >= SURE_ROUNDS else HOPELESS_ESTIMATE
        runners = [runner for runner in runners if min(runner.times) <= limit * best]
        if len(runners) == 1 or time.perf_counter() > deadline:
            break
    return sorted(((r.form, median(r.times)) for r in runners), key=lambda item: item[1])


def runner_of(problem: Problem, env: Env, form: Formulation) -> Runner:
    """The problem on buffers of its own, filled with ones, as a plan of this formulation."""
    program = Program()
    inputs: dict[View, View] = {}

    def take(view: View) -> View:
        if view.is_constant:
            # the other candidates and the net need its data too
            return replace(view, buffer=replace(view.buffer, shared=True))
        if view not in inputs:
            buffer = Buffer(Place.INPUT, view.dtype, extent(view.shape, view.strides), index=len(inputs))
            inputs[view] = View(buffer, view.shape, view.strides)
        return inputs[view]

    result = problem.result
    buffer = Buffer(Place.OUTPUT, result.dtype, extent(result.shape, result.strides))
    output = View(buffer, result.shape, result.strides)
    views = {name: getattr(problem, name) for name in ("src", "weights", "dst")}
    own = problem.with_views(
        **{name: output if view is result else take(view) for name, view in views.items()},
        bias=None if problem.bias is None else take(problem.bias),
        tail=post.map_views(problem.tail, take),
    )
    lowering.build(program, own, form, env)
    plan = assemble(
        program, list(inputs.values()), [output], env.engine, fpmath_mode=env.fpmath_mode, threads=env.threads
    )
    arrays = [ones(view) for view in inputs.values()]
    return Runner(form, plan.executor, arrays, [ones(output)], [])


# -- the file cache -----------------------------------------------------------------------------------------------


def folder() -> Path:
    """Where winners are remembered: dnnl_graph_ops in the user's cache directory."""
    return cache_files.folder("tuning")


def _path(problem: Problem, env: Env, names: Sequence[str]) -> Path:
    """A file per question: everything that can change the answer is in its name."""
    views = {name: getattr(problem, name) for name in ("src", "weights", "dst", "bias")}
    question = {
        "direction": problem.direction,
        "geometry": repr(problem.geometry),
        "views": {
            name: None if view is None else (view.dtype, view.shape, view.strides, view.is_constant)
            for name, view in views.items()
        },
        "tail": [
            (
                op.kind,
                sorted(map(repr, op.attrs.items())),
                [o if isinstance(o, int) else (o.shape, o.strides) for o in op.operands],
            )
            for op in problem.tail
        ],
        "env": env.key(),
        "engine": (env.engine.kind, env.engine.runtime.name, env.engine.runtime.version, env.isa),
        "package": version(),
        "cpu": cpu_model(),
        "candidates": list(names),
        "forms": _forms(),
    }
    digest = hashlib.sha256(json.dumps(question, sort_keys=True, default=str).encode()).hexdigest()
    return folder() / f"{digest[:40]}.json"


@cache
def _forms() -> str:
    """A digest of all that makes the forms what they are: the sources of lowering, and the kernels."""
    digest = hashlib.sha256()
    sources = Path(lowering.__file__).parent
    files = sorted(file for file in sources.rglob("*") if file.suffix in (".py", ".json"))
    for file in (*files, Path(extension_file)):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _load(path: Path, names: Collection[str]) -> list[tuple[str, float]] | None:
    """What the file says, fastest first; None if there is none, or, with a RuntimeWarning, if it is damaged."""
    try:
        return _rows(cache_files.read(path), names)
    except OSError:
        return None
    except (ValueError, TypeError, OverflowError, RecursionError):
        warnings.warn(f"the tuning file {path.name} is damaged and is ignored", RuntimeWarning, stacklevel=2)
        return None


def _rows(content: Any, names: Collection[str]) -> list[tuple[str, float]]:
    """(name, seconds), fastest first. ValueError, TypeError, OverflowError: anything else than `_save` writes."""
    rows = [(name, float(seconds)) for name, seconds in content]
    known = {name for name, _ in rows}
    times = [seconds for _, seconds in content]
    if not rows or len(known) < len(rows) or not known <= set(names) or any(type(t) not in (int, float) for t in times):
        raise ValueError
    if not all(math.isfinite(seconds) and seconds > 0 for _, seconds in rows):
        raise ValueError
    return sorted(rows, key=lambda row: row[1])


def _save(path: Path, rows: list[tuple[str, float]]) -> None:
    try:
        cache_files.write(path, json.dumps(rows))
    except OSError as error:
        warnings.warn(f"the tuning result could not be remembered: {error}", RuntimeWarning, stacklevel=2)
