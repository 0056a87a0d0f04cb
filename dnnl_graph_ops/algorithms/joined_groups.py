"""Computes fprop of narrow groups in bf16 as fewer, wider groups, whose weights have zeros between the groups' own.

With tiles the library multiplies groups of 16 channels at several times the rate of narrower ones: of 8 channels, half
of the multiplications are with zeros, and 3x3x3 layers take a third of the time.
"""

from __future__ import annotations

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
from .algorithm import Algorithm, W, X, by_library

_WIDTH = 16  # channels of a joined group
_NARROWEST = 4  # channels of a group; of narrower ones too much is multiplied with zeros


def _number(problem: ConvProblem) -> int:
    """Returns how many groups become one; 1 if none do."""
    width, others = channels(problem)
    number = _WIDTH // width if width == others and _NARROWEST <= width < _WIDTH and _WIDTH % width == 0 else 1
    return number if problem.geometry.groups % number == 0 else 1


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
ALGORITHMS = (
    Algorithm(
        f"{convolution.NAME}, groups together", FPROP, convolution.NAME, _applies, _work, _build, W | X,
        fuses=lambda p, e: by_library(p, e, "Convolution"),
        op="Convolution", op_adds_bias=True, misread=lambda p: workarounds.is_misread(_joined(p)),
    ),
)  # fmt: skip
