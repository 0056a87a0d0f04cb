"""Computes layers by the library's Convolution ops, on the activations as they are or on channels-last copies."""

from __future__ import annotations

from dataclasses import replace

from ..lowering import epilogue as post
from ..lowering.cost import Counts, channels, detours
from ..lowering.env import Env
from ..lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, channels_apart
from ..lowering.program import Program
from .algorithm import SRC, WEIGHTS, Algorithm, always, by_library
from .deconvolution import Pace, append_gradient, attributes, literal, trimmed
from .flipped import flipped
from .views import as_channels_last, merged_weights, result_view


def _backward_data(program: Program, problem: Problem, env: Env) -> None:
    """Appends diff_src as the Convolution of diff_dst with weights (IC, OC/G, kernel...), which the op reads as OIX."""
    ends, diff_dst = trimmed(problem)
    weights = merged_weights(program, problem.weights)
    attrs = {**attributes(problem, ends), "weights_format": "OIX"}
    inputs = diff_dst, weights, problem.bias
    program.native(post.fused("Convolution", attrs, inputs, problem.epilogue, problem.src), "Convolution")


def _backward_weights(program: Program, problem: Problem, env: Env) -> None:
    """Appends ConvolutionBackwardWeights with diff_dst in the role of its src, and src in that of its diff_dst."""
    ends, diff_dst = trimmed(problem)
    attrs = {**attributes(problem, ends), "weights_format": "OIX"}
    append_gradient(program, problem, "ConvolutionBackwardWeights", attrs, (diff_dst, problem.src))


def _aside(program: Program, problem: Problem, env: Env) -> None:
    """Appends the op on channels-last copies of the activations that it reads, and a copy of its result to diff_src.

    The library's kernels for channels-first activations are slower than kernels for channels last and the copies.
    """
    data, src = problem.direction == BACKWARD_DATA, problem.src
    src = result_view(program, src) if data else as_channels_last(program, src, "src to channels last")
    dst = as_channels_last(program, problem.dst, "diff_dst to channels last")
    (_backward_data if data else _backward_weights)(program, problem.with_views(src=src, dst=dst), env)
    if data and src is not problem.src:
        program.copy(src, problem.src, "diff_src from channels last")


_PACE = Pace({FORWARD: (2.0, 6.7), BACKWARD_DATA: (2.0, 6.7), BACKWARD_WEIGHTS: (5.0, 3.0)}, (7.0, 1.9, 1.8))
_SHALLOW, _WIDE = 2.5, 5  # cost factor of layers that read one channel, unless all kernel axes have so many taps


def _work(problem: Problem, env: Env) -> Counts:
    """Counts the work of a Convolution op that reads diff_dst; more where diff_dst has one channel per group."""
    counts = literal(problem, env, _PACE)
    g = problem.geometry
    wide = g.rank > 1 and min(g.kernel) >= _WIDE
    shallow = problem.direction == BACKWARD_DATA and channels(problem)[1] == 1 and not wide
    return counts._replace(products=counts.products * (_SHALLOW if shallow else 1.0))


def _aside_work(problem: Problem, env: Env) -> Counts:
    """Counts the work of a Convolution op on channels-last copies, and of the copies."""
    counts = _work(problem, env)
    return counts._replace(bytes=counts.bytes - detours(problem, env), calls=counts.calls + 2)


def _copies_pay(problem: Problem, env: Env) -> bool:
    return env.engine.on_host and channels_apart(problem)


def _beyond_subpixels(problem: Problem, env: Env) -> bool:
    """Whether sub-pixel decomposition does not apply to the layer, because it has groups or dilations."""
    g = problem.geometry
    return g.groups > 1 or any(d != 1 for d in g.dilations)


_NAME = "convolution"
_ASIDE = f"{_NAME}, channels last"

_LITERAL = (
    Algorithm(
        _NAME, BACKWARD_DATA, _NAME, always, _work, _backward_data, WEIGHTS,
        fuses=by_library, op="Convolution", op_adds_bias=True, literal=True, anywhere=True,
    ),
    Algorithm(
        _NAME, BACKWARD_WEIGHTS, _NAME, always, _work, _backward_weights, SRC,
        op="ConvolutionBackwardWeights", literal=True, anywhere=True,
    ),
)  # fmt: skip
_DATA, _WEIGHTS = (
    (op, replace(op, name=_ASIDE, applies=_copies_pay, counts=_aside_work, build=_aside, literal=False))
    for op in _LITERAL
)
ALGORITHMS = (*_DATA, *_WEIGHTS, *(flipped(algorithm, _beyond_subpixels) for algorithm in _DATA))
