"""Computes narrow groups in bf16 as fewer, wider ones, whose weights have zeros between the groups' own.

Fprop, and dgrad with stride 1, which is fprop of flipped weights.
With tiles the library multiplies groups of 16, 24, 32 channels and so on at several times the rate of others: of groups
of 8 channels, half of the multiplications are with zeros, and 3x3x3 layers take a third of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from operator import mul

from .. import dtypes
from ..convolution.problem import FPROP, ConvProblem
from ..cost.model import Counts, channels, packing
from ..ir.env import Env
from ..once import answered
from ..onednn import workarounds
from ..program.program import Program, View
from ..strides import dense_strides
from . import convolution
from .algorithm import Algorithm, W, X, always, by_library
from .flipped import flipped

# least channels of several joined groups, and what these are a multiple of, which is the least of a single one; most
# groups in one
_WIDTH, _MULTIPLE, _MOST = 16, 8, 8


def _number(problem: ConvProblem) -> int:
    """Returns how many groups become one; 1 if none do."""
    groups, widths = problem.geometry.groups, channels(problem)
    if min(widths) == 1 or _fills(widths):
        return 1
    numbers = (n for n in range(2, min(_MOST, groups) + 1) if groups % n == 0)
    joined = (n for n in numbers if n == groups or _fills([n * width for width in widths]))
    return next((n for n in joined if n * min(widths) >= (_MULTIPLE if n == groups else _WIDTH)), 1)


def _fills(widths: Sequence[int]) -> bool:
    """Whether the library multiplies groups of so many channels in tiles."""
    return min(widths) >= _WIDTH and not any(width % _MULTIPLE for width in widths)


def _applies(problem: ConvProblem, env: Env) -> bool:
    in_tiles = env.has_tiles and problem.dtype == "bf16" and env.compute_dtype("bf16") == "bf16"
    return in_tiles and _number(problem) > 1


def _joined(problem: ConvProblem) -> ConvProblem:
    """Returns the layer of wider groups to count; its w has the shape alone."""
    return answered(problem.answers, (_joined,), lambda: _of_weights(problem, _shaped(problem)))


def _shaped(problem: ConvProblem) -> View:
    number, (groups, y_channels, x_channels, *kernel) = _number(problem), problem.w.shape
    shape = groups // number, number * y_channels, number * x_channels, *kernel
    return replace(problem.w, shape=shape, strides=dense_strides(shape))


def _of_weights(problem: ConvProblem, weights: View) -> ConvProblem:
    return problem.with_views(w=weights, geometry=replace(problem.geometry, groups=weights.shape[0]))


def _work(problem: ConvProblem, env: Env) -> Counts:
    """Counts the work of the layer of wider groups, and of writing its weights if they are not constant."""
    layer = _joined(problem)
    counts = convolution.work(layer, env)
    return counts._replace(bytes=counts.bytes + packing(problem, 2 * dtypes.itemsize("bf16") * layer.w.size))


def _build(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends the weights of wider groups, once if they are constant, and the Convolution with these."""
    number, w = _number(problem), problem.w
    _, y_channels, x_channels, *kernel = w.shape
    weights = program.scratch(_shaped(problem).shape, w.dtype)
    items = []
    for i, *tap in product(range(number), *map(range, kernel)):
        source = i * w.strides[0] + sum(map(mul, tap, w.strides[3:]))
        target = i * (y_channels * weights.strides[1] + x_channels * weights.strides[2])
        target += sum(map(mul, tap, weights.strides[3:]))
        shape = weights.shape[0], y_channels, x_channels
        items.append((shape, source, (number * w.strides[0], *w.strides[1:3]), target, weights.strides[:3]))
    program.copy_list(items, w, weights, "groups together", zeros=weights.size)
    convolution.build(program, _of_weights(problem, weights), env)


# a zero between groups * Inf is NaN
_FPROP = Algorithm(
    f"{convolution.NAME}, groups together", FPROP, convolution.NAME, _applies, _work, _build, W | X,
    fuses=lambda p, e: by_library(p, e, "Convolution"),
    op="Convolution", op_adds_bias=True, misread=lambda p: workarounds.is_misread(_joined(p)),
)  # fmt: skip
ALGORITHMS = (_FPROP, flipped(_FPROP, always))
