"""Appends the steps of a problem: handles empty tensors, chooses the dtype to compute in and the algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..convolution.problem import RESULT, ConvProblem, at_values
from ..ir.env import Env
from ..program import elementwise
from ..program import epilogue as post
from ..program.program import Program, View
from ..symbolic import greatest
from . import alike, nonfinite
from .algorithm import Algorithm
from .choice import ranked
from .deconvolution import fill_with_bias
from .in_floats import in_floats, rounded, with_residual_apart
from .table import Ranked, candidates


@dataclass
class Decision:
    """Records how a problem was lowered, for explain(): the algorithm's name and the dtype that it computes in.

    `candidates`: the algorithms that were compared, with estimated or, if `measured`, with measured seconds. `problem`:
    the problem of a convolution that has something to compute.
    """

    formulation: str
    compute: str
    candidates: list[tuple[str, float]] = field(default_factory=list)
    measured: bool = False
    problem: ConvProblem | None = None


# measures the candidates; returns them with measured seconds, the best first, or None if it measures nothing
Chooser = Callable[[ConvProblem, Env, Ranked], Ranked | None]
# the algorithms that the user wants, of those that may be used, best first
Selector = Callable[[ConvProblem, Env], Ranked]


def lower(
    program: Program, problem: ConvProblem, env: Env, choose: Chooser | None = None, select: Selector | None = None
) -> Decision:
    """Appends the steps that compute `problem` to `program`, by the cheapest algorithm; returns the decision.

    `choose` may return another ranking from measured times, except with tune="off"; `select` ranks the algorithms that
    the user leaves.
    """
    if problem.result.size == 0:
        return Decision("nothing to do", problem.dtype)
    problem = with_own_bias(problem)
    if _sums_nothing(problem):
        _write_empty_sum(program, problem, env)
        return Decision("empty sum", problem.dtype)
    valued = at_values(problem)
    ranking = select(valued, env) if select else _ranked(valued, env)
    if env.tune == "off":
        # first the algorithms nearest to the library's op on the tensors as they are, which the caller could not use
        ranking.sort(key=lambda item: not item[0].literal or item[0].by_reference(problem, env))
    measured = choose(problem, env, ranking) if choose is not None and env.tune != "off" else None
    ranking = measured or ranking
    algorithm = ranking[0][0]
    if valued is not problem and not algorithm.takes(problem, env):
        raise RuntimeError(f"{algorithm.name} applies to the values of sizes, but not to the sizes")
    build(program, problem, algorithm, env)
    computed = algorithm.compute_dtype(problem, env)
    weighed = [(a.name, seconds) for a, seconds in ranking]
    return Decision(algorithm.name, computed, weighed, measured is not None, problem)


def allowed(problem: ConvProblem, env: Env) -> Ranked:
    """Ranks every algorithm that may be used, with its estimate for these sizes; the first one is taken."""
    ranking = _ranked(problem, env)
    if not env.varies and problem.quantization is None:
        return ranking
    every = nonfinite.obeying(candidates(problem, env, every=True), problem, env)
    return sorted(every, key=lambda item: item[0] is not ranking[0][0])


def _ranked(problem: ConvProblem, env: Env) -> Ranked:
    return nonfinite.obeying(ranked(problem, env), problem, env)


def with_own_bias(problem: ConvProblem) -> ConvProblem:
    """Returns the problem with a BiasAdd that is its first post-op as the bias of the convolution itself.

    The problem is returned unchanged if it has a bias, or if another post-op reads the convolution's result too.
    """
    first = problem.epilogue[0] if problem.epilogue else None
    if problem.bias is not None or first is None or first.kind != "BiasAdd" or first.operands[0] != 0:
        return problem
    if any(operand == 0 for op in problem.epilogue[1:] for operand in op.operands):
        return problem
    bias = first.operands[1]
    rest = post.renumbered(problem.epilogue[1:], -1)
    return problem.with_views(bias=bias if isinstance(bias, View) else None, epilogue=rest)


def build(program: Program, problem: ConvProblem, algorithm: Algorithm, env: Env) -> None:
    """Appends to `program` the steps that compute `problem` with `algorithm`.

    If the algorithm could spread an operand's Inf or NaN to results that do not depend on it, a run-time scan of the
    operands is appended as well, and an algorithm that spreads none, which runs instead where the scan finds any.
    """
    views = nonfinite.guarded(algorithm, problem, env)
    if not views:
        _build(program, problem, algorithm, env)
        return
    flag = nonfinite.scan(program, views)
    with program.only_if(flag, False):
        _build(program, problem, algorithm, env)
    with program.only_if(flag, True):
        _build(program, problem, nonfinite.non_spreading(problem, env), env)


def _build(program: Program, problem: ConvProblem, algorithm: Algorithm, env: Env) -> None:
    """Appends the steps of one algorithm, on f32 copies of the operands if the library lacks kernels of the dtype."""
    compute, choice = algorithm.compute_dtype(problem, env), algorithm.choice(problem)
    if problem.bias is not None:
        # builtin kernels read a contiguous bias only
        problem = problem.with_views(bias=program.in_a_row(problem.bias))
    if problem.residual is not None and not algorithm.adds(problem):
        return with_residual_apart(program, problem, lambda layer: _build(program, layer, algorithm, env))
    if algorithm.seen(problem) is not problem:
        floats = in_floats(program, problem)
        with program.chosen(choice):
            _with_rest(program, floats, algorithm, env)
        rounded(program, floats.result, problem)
        return
    if compute == problem.dtype or algorithm.converts(problem, env):
        with program.chosen(choice):
            if program.lowered is None:
                _with_rest(program, problem, algorithm, env)
            else:
                alike.append(
                    program, program.lowered, problem, algorithm, env,
                    lambda: _with_rest(program, problem, algorithm, env),
                )  # fmt: skip
        return
    inner, result = _converted(program, problem, compute)
    _with_rest(program, inner, algorithm, env)
    program.copy(result, problem.result, f"{compute} to {problem.dtype}")


def _with_rest(program: Program, problem: ConvProblem, algorithm: Algorithm, env: Env) -> None:
    """Appends the steps of the algorithm, then steps for the bias and post-ops that its `build` does not compute."""
    bias, epilogue = problem.bias, problem.epilogue
    if algorithm.finishes(problem, env):
        algorithm.build(program, problem, env)
        return
    adds = bias is None or algorithm.adds_bias(problem)
    plain = program.like(problem.result, algorithm.plain_dtype(problem, env))
    algorithm.build(
        program, problem.with_views(**{RESULT[problem.direction]: plain}, bias=bias if adds else None, epilogue=()), env
    )
    rest = epilogue if adds else post.with_bias(bias, epilogue)
    elementwise.apply_apart(program, plain, rest, problem.result, env)


def _converted(program: Program, problem: ConvProblem, compute: str) -> tuple[ConvProblem, View]:
    """Returns the problem on copies in dtype `compute`, and the new result, which the caller copies to the old one."""

    def take(view: View) -> View:
        return program.converted(view, compute, f"{view.dtype} to {compute}")

    result = program.like(problem.result, compute)
    views = {
        name: result if getattr(problem, name) is problem.result else take(getattr(problem, name))
        for name in ("y", "w", "x")
    }
    bias = None if problem.bias is None else take(problem.bias)
    return problem.with_views(**views, bias=bias, epilogue=post.map_views(problem.epilogue, take)), result


def _sums_nothing(problem: ConvProblem) -> bool:
    """Whether every result is an empty sum: an operand has no elements, or no tap reaches x.

    No tap reaches x where pads_begin crops all rows that taps reach on some axis.
    """
    g = problem.geometry
    crops = (o - greatest(op - pe, 0) <= 0 for o, op, pe in zip(g.x, g.output_padding, g.pads_end, strict=True))
    return any(0 in view.shape for view in problem.read) or any(crops)


def _write_empty_sum(program: Program, problem: ConvProblem, env: Env) -> None:
    if problem.residual is not None:
        return with_residual_apart(program, problem, lambda layer: _write_empty_sum(program, layer, env))
    floats = problem if problem.quantization is None else in_floats(program, problem)
    empty = program.like(floats.result, floats.dtype) if problem.epilogue else floats.result
    fill_with_bias(program, empty, problem.bias)
    if problem.epilogue:
        elementwise.apply_apart(program, empty, problem.epilogue, floats.result, env)
    rounded(program, floats.result, problem)
