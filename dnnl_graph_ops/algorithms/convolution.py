"""Computes layers by the library's Convolution ops, on the activations as they are or on channels-last copies."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from operator import lt

from ..convolution.nodes import fprop_pads
from ..convolution.problem import DGRAD, FPROP, WGRAD, ConvProblem, channels_apart
from ..cost.model import Counts, Far, channels, detours, padded
from ..ir.env import Env
from ..program import epilogue as post
from ..program.program import Ints, Program, View
from .algorithm import Algorithm, W, Y, always, by_library
from .deconvolution import CostFactors, append_gradient, attributes, cropped, has_depthwise_kernel, literal, trimmed
from .flipped import flipped
from .views import FROM_CHANNELS_LAST, as_channels_last, merged_weights, result_view


def leaves_rows(problem: ConvProblem) -> bool:
    """Whether Convolution ops may read x with its last positions that no tap reaches.

    The ops round sizes of y down, so that x of fewer positions than a stride more means the same y. oneDNN 3.2 with
    AVX2 writes past its memory for such gradients of 1x1 weights.
    """
    g, (_, rows) = problem.geometry, fprop_pads(problem.geometry)
    return all(map(lt, rows, g.strides)) and not (problem.direction == WGRAD and max(g.kernel) == 1)


def _read(problem: ConvProblem) -> tuple[Ints, View]:
    """Returns pads_end for the ops of fprop and wgrad, and the x that they read: cropped, it would be copied."""
    ends, x = trimmed(problem)
    return ends, problem.x if leaves_rows(problem) else x


def build(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends y as the Convolution of x with weights (K, C/G, kernel...), which the op reads as OIX."""
    ends, x = _read(problem)
    weights = merged_weights(program, problem.w)
    attrs = {**attributes(problem, ends), "weights_format": "OIX"}
    inputs = x, weights, problem.bias
    program.native(post.fused("Convolution", attrs, inputs, problem.epilogue, problem.y), NAME)


def _wgrad(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends ConvolutionBackwardWeights, whose src is x, and whose diff_dst is y."""
    ends, x = _read(problem)
    attrs = {**attributes(problem, ends), "weights_format": "OIX"}
    append_gradient(program, problem, "ConvolutionBackwardWeights", attrs, (x, problem.y))


def _aside(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends the op on channels-last copies of the activations that it reads, and a copy of its result to y.

    The library's kernels for channels-first activations are slower than kernels for channels last and the copies.
    """
    data, y = problem.direction == FPROP, problem.y
    y = result_view(program, y) if data else as_channels_last(program, y)
    x = as_channels_last(program, problem.x)
    (build if data else _wgrad)(program, problem.with_views(y=y, x=x), env)
    if data and y is not problem.y:
        program.copy(y, problem.y, FROM_CHANNELS_LAST)


_COST_FACTORS = CostFactors(
    {DGRAD: (2.0, 6.7), FPROP: (2.0, 6.7), WGRAD: (5.0, 3.0)}, (7.0, 1.9, 1.8), (4.5, 2.0), Far(1.3, 0.7, True)
)
_SHALLOW, _WIDE = 2.5, 5  # cost factor of layers that read one channel, unless all kernel axes have so many taps


def work(problem: ConvProblem, env: Env) -> Counts:
    """Counts the work of a Convolution op that reads x; more where groups are narrow."""
    counts = literal(problem, env, _COST_FACTORS)
    g = problem.geometry
    wide = g.rank > 1 and min(g.kernel) >= _WIDE
    shallow = problem.direction == FPROP and channels(problem)[1] == 1 and not wide
    blocked = _blocked(problem, env)
    if shallow or blocked != 1:
        products = counts.products * (_SHALLOW if shallow else 1.0)
        counts = counts._replace(products=products, weights=counts.weights * blocked)
    return counts if leaves_rows(problem) else counts.moving(cropped(problem, env))


def _blocked(problem: ConvProblem, env: Env) -> float:
    """Returns how many weights the library writes for one of a gradient in f32: of groups, blocks of vectors."""
    grouped = problem.direction == WGRAD and problem.geometry.groups > 1 and env.lanes > 8
    if not grouped or env.compute_dtype(problem.dtype) != "f32" or has_depthwise_kernel(problem):
        return 1.0
    return min(prod(padded(n, env.lanes) / max(n, 1) for n in channels(problem)), env.lanes)


def _aside_work(problem: ConvProblem, env: Env) -> Counts:
    """Counts the work of a Convolution op on channels-last copies, and of the copies."""
    counts = work(problem, env)
    return counts._replace(bytes=counts.bytes - detours(problem, env), calls=counts.calls + 2)


def _copies_pay(problem: ConvProblem, env: Env) -> bool:
    return env.engine.on_host and channels_apart(problem)


def _beyond_subpixels(problem: ConvProblem, env: Env) -> bool:
    """Whether sub-pixel decomposition does not apply to the layer, because it has groups or dilations."""
    g = problem.geometry
    return g.groups > 1 or any(d != 1 for d in g.dilations)


NAME = "convolution"
_ASIDE = f"{NAME}, channels last"

_LITERAL = (
    Algorithm(
        NAME, FPROP, NAME, always, work, build, W,
        fuses=lambda p, e: by_library(p, e, "Convolution"),
        op="Convolution", op_adds_bias=True, literal=True, anywhere=True,
    ),
    Algorithm(
        NAME, WGRAD, NAME, always, work, _wgrad, Y,
        op="ConvolutionBackwardWeights", literal=True, anywhere=True,
    ),
)  # fmt: skip
_DATA, _WEIGHTS = (
    (op, replace(op, name=_ASIDE, applies=_copies_pay, counts=_aside_work, build=_aside, literal=False))
    for op in _LITERAL
)
ALGORITHMS = (*_DATA, *_WEIGHTS, *(flipped(algorithm, _beyond_subpixels) for algorithm in _DATA))
