"""Computes layers by the library's Convolution ops, on the activations as they are or on channels-last copies."""

from __future__ import annotations

from ..lowering import epilogue as post
from ..lowering.cost import Counts, channels, detours
from ..lowering.env import Env
from ..lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, channels_apart
from ..lowering.program import NativeOp, Program
from .algorithm import SRC, WEIGHTS, Algorithm, always, by_library
from .deconvolution import Pace, attributes, literal, trimmed
from .flipped import flipped
from .views import as_channels_last, finish_weights, merged_weights, result_view, weights_target


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
    result, target = weights_target(program, problem)
    attrs = {**attributes(problem, ends), "weights_format": "OIX", "weights_shape": target.shape}
    op = NativeOp("ConvolutionBackwardWeights", attrs, (diff_dst, problem.src), (target,))
    program.native([op], "ConvolutionBackwardWeights")
    finish_weights(program, result, problem)


def _backward_data_aside(program: Program, problem: Problem, env: Env) -> None:
    """Appends `_backward_data` on a channels-last copy of diff_dst, and a copy of its channels-last result to diff_src.

    The library's kernels for channels-first activations are slower than kernels for channels last and the copies.
    """
    target = result_view(program, problem.src)
    dst = as_channels_last(program, problem.dst, "diff_dst to channels last")
    _backward_data(program, problem.with_views(src=target, dst=dst), env)
    if target is not problem.src:
        program.copy(target, problem.src, "diff_src from channels last")


def _backward_weights_aside(program: Program, problem: Problem, env: Env) -> None:
    """Appends `_backward_weights` on channels-last copies of src and diff_dst."""
    src = as_channels_last(program, problem.src, "src to channels last")
    dst = as_channels_last(program, problem.dst, "diff_dst to channels last")
    _backward_weights(program, problem.with_views(src=src, dst=dst), env)


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

_DATA = (
    Algorithm(
        _NAME, BACKWARD_DATA, _NAME, always, _work, _backward_data, WEIGHTS,
        fuses=by_library, op="Convolution", op_adds_bias=True, literal=True, anywhere=True,
    ),
    Algorithm(
        _ASIDE, BACKWARD_DATA, _NAME, _copies_pay, _aside_work, _backward_data_aside, WEIGHTS,
        fuses=by_library, op="Convolution", op_adds_bias=True, anywhere=True,
    ),
)  # fmt: skip
ALGORITHMS = (
    *_DATA,
    Algorithm(
        _NAME, BACKWARD_WEIGHTS, _NAME, always, _work, _backward_weights, SRC,
        op="ConvolutionBackwardWeights", literal=True, anywhere=True,
    ),
    Algorithm(
        _ASIDE, BACKWARD_WEIGHTS, _NAME, _copies_pay, _aside_work, _backward_weights_aside, SRC,
        op="ConvolutionBackwardWeights", anywhere=True,
    ),
    *(flipped(algorithm, _beyond_subpixels) for algorithm in _DATA),
)  # fmt: skip
