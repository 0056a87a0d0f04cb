"""From a problem to steps: empty cases, the compute dtype, the choice of an algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..lowering import chain
from ..lowering import tail as post
from ..lowering.env import Env
from ..lowering.problem import RESULT, Problem
from ..lowering.program import Program, View
from . import nonfinite
from .algorithm import Algorithm
from .choice import ranked
from .deconvolution import fill_with_bias
from .table import Ranked, candidates


@dataclass
class Decision:
    """The algorithm that was chosen, and all that were weighed with estimated or measured seconds; for explain().

    `problem`: of a convolution that has something to compute.
    """

    formulation: str
    compute: str
    candidates: list[tuple[str, float]] = field(default_factory=list)
    measured: bool = False
    problem: Problem | None = None


# None: it was not measured
Chooser = Callable[[Problem, Env, Ranked], Ranked | None]
# the algorithms that the user wants, of those that may be used, best first
Selector = Callable[[Problem, Env], Ranked]


def lower(
    program: Program, problem: Problem, env: Env, choose: Chooser | None = None, select: Selector | None = None
) -> Decision:
    """Append the steps that solve `problem` by the best algorithm, of those that `select` leaves if it is there."""
    if problem.result.size == 0:
        return Decision("nothing to do", problem.dtype)
    problem = with_own_bias(problem)
    if _sums_nothing(problem):
        _write_empty_sum(program, problem, env)
        return Decision("empty sum", problem.dtype)
    found = select(problem, env) if select else _ranked(problem, env)
    if env.tune == "off":
        # nearest to the literal op, which the caller could not use as it is
        found.sort(key=lambda item: not item[0].literal)
    measured = choose(problem, env, found) if choose is not None and env.tune != "off" else None
    found = measured or found
    algorithm = found[0][0]
    build(program, problem, algorithm, env)
    computed = algorithm.compute_dtype(problem, env)
    weighed = [(a.name, seconds) for a, seconds in found]
    return Decision(algorithm.name, computed, weighed, measured is not None, problem)


def allowed(problem: Problem, env: Env) -> Ranked:
    """Every algorithm that may be used, with its estimate for these sizes; the first is the one that is taken."""
    ranking = _ranked(problem, env)
    if not env.varies:
        return ranking
    every = nonfinite.obeying(candidates(problem, env), problem, env)
    return sorted(every, key=lambda item: item[0] is not ranking[0][0])


def _ranked(problem: Problem, env: Env) -> Ranked:
    return nonfinite.obeying(ranked(problem, env), problem, env)


def with_own_bias(problem: Problem) -> Problem:
    """A BiasAdd right behind the head as the head's bias."""
    first = problem.tail[0] if problem.tail else None
    if problem.bias is not None or first is None or first.kind != "BiasAdd" or first.operands[0] != 0:
        return problem
    if any(operand == 0 for op in problem.tail[1:] for operand in op.operands):
        return problem
    rest = tuple(
        replace(op, operands=tuple(o - 1 if isinstance(o, int) else o for o in op.operands)) for op in problem.tail[1:]
    )
    bias = first.operands[1]
    return problem.with_views(bias=bias if isinstance(bias, View) else None, tail=rest)


def build(program: Program, problem: Problem, algorithm: Algorithm, env: Env) -> None:
    """Append one algorithm, and where an operand might spread Inf or NaN there, what runs in its place then."""
    views = nonfinite.guarded(algorithm, problem, env)
    if not views:
        _build(program, problem, algorithm, env)
        return
    flag = nonfinite.scan(program, views)
    with program.only_if(flag, False):
        _build(program, problem, algorithm, env)
    with program.only_if(flag, True):
        _build(program, problem, nonfinite.clean(problem, env), env)


def _build(program: Program, problem: Problem, algorithm: Algorithm, env: Env) -> None:
    """Append one algorithm; where the library lacks kernels for the dtype, in f32 and converted at the edges."""
    compute = algorithm.compute_dtype(problem, env)
    if problem.bias is not None:
        # own code reads no strides of it
        problem = problem.with_views(bias=program.in_a_row(problem.bias))
    if compute == problem.dtype or algorithm.converts(problem, env):
        _with_rest(program, problem, algorithm, env)
        return
    inner, result = _converted(program, problem, compute)
    _with_rest(program, inner, algorithm, env)
    program.copy(result, problem.result, f"{compute} to {problem.dtype}")


def _with_rest(program: Program, problem: Problem, algorithm: Algorithm, env: Env) -> None:
    """The algorithm, and behind it a bias and post-ops that it leaves to others."""
    bias, tail = problem.bias, problem.tail
    if algorithm.finishes(problem, env):
        algorithm.build(program, problem, env)
        return
    adds = bias is None or algorithm.adds_bias(problem)
    plain = program.like(problem.result, algorithm.plain_dtype(problem, env))
    algorithm.build(
        program, problem.with_views(**{RESULT[problem.direction]: plain}, bias=bias if adds else None, tail=()), env
    )
    _apply(program, plain, tail if adds else post.with_bias(bias, tail), problem.result, env)


def _apply(program: Program, source: View, tail: post.Tail, dst: View, env: Env) -> None:
    """Post-ops as a step of their own, by own code where they are not to be the library's."""
    if not (env.prefers_own and chain.apply(program, source, tail, dst, "post-ops")):
        post.apply(program, source, tail, dst)


def _converted(program: Program, problem: Problem, compute: str) -> tuple[Problem, View]:
    """The same problem on copies in the compute dtype, and the view that its result lands in."""

    def take(view: View) -> View:
        return program.converted(view, compute, f"{view.dtype} to {compute}")

    result = program.like(problem.result, compute)
    views = {
        name: result if getattr(problem, name) is problem.result else take(getattr(problem, name))
        for name in ("src", "weights", "dst")
    }
    bias = None if problem.bias is None else take(problem.bias)
    return problem.with_views(**views, bias=bias, tail=post.map_views(problem.tail, take)), result


def _sums_nothing(problem: Problem) -> bool:
    """Whether every sum of the definition is empty: a batch, channel or spatial size of zero on the input side."""
    return any(view.size == 0 for view in problem.read) or _untouched(problem)


def _untouched(problem: Problem) -> bool:
    """Whether on some axis no tap reaches dst, because pads_begin crops all of the plain result."""
    g = problem.geometry
    return any(o - max(op - pe, 0) <= 0 for o, op, pe in zip(g.dst, g.output_padding, g.pads_end, strict=True))


def _write_empty_sum(program: Program, problem: Problem, env: Env) -> None:
    if not problem.tail:
        fill_with_bias(program, problem.result, problem.bias)
        return
    empty = program.like(problem.result, problem.dtype)
    fill_with_bias(program, empty, problem.bias)
    _apply(program, empty, problem.tail, problem.result, env)
