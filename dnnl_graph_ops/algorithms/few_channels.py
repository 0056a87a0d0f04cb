"""Computes fprop and wgrad of layers of few channels by builtin vector code, in any layout of x and y.

Fprop is an ordinary convolution whose x has at most 4 channels, such as the first one of a network, or whose y has at
most 4 and x at most 64, such as the last one: there vectors hold neighbouring positions.
"""

from __future__ import annotations

from math import prod

from .. import dtypes
from ..convolution.problem import FPROP, WGRAD, ConvProblem
from ..cost.model import Counts, Far, packing, padded, waits
from ..ir.env import Env
from ..program.epilogue import labelled
from ..program.kernel_post_ops import expresses, fused
from ..program.program import Program
from ..symbolic import kernels
from .algorithm import Algorithm, W, Y, always
from .flipped import flipped, flips
from .views import MULTIPLY, layer_sizes

# a load of a vector of positions takes as long as a product of one, to which a load serves for each channel of y
_LOAD = 1
_FAR = Far(0.4, 0.7)
# sums of w of more bytes are no longer near when the next row adds to them; bytes of traffic that a sum counts as then
_NEAR_SUMS, _ADDED = 2 << 20, 1.5
_TURNED = 2  # values that an element counts as, which is moved between channels side by side and planes of channels


def _applies(problem: ConvProblem, env: Env) -> bool:
    """Whether the layer has one group and few channels, and rows that are short enough for the kernel to copy."""
    g = problem.geometry
    channels = g.y_channels if problem.direction == FPROP else 0
    return g.groups == 1 and not kernels.few_channels_refusal(layer_sizes(problem), channels)


def _fprop(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends the packing of the weights (run once if they are constant) and the kernel that writes y."""
    y, x = problem.y, problem.x
    g, codes = problem.geometry, dtypes.CODES
    layer, channels = layer_sizes(problem), g.y_channels
    weights = problem.w.merge(0)  # the only group
    packed = program.scratch((kernels.few_channels_packed_size(layer, channels),), "f32")
    pack = kernels.few_channels_pack(layer, channels, codes[weights.dtype], weights.strides)
    cache_key = ("few channels", weights.dtype, weights.shape, weights.strides)
    program.kernel(pack, [weights], [packed], "pack weights", cache_key=cache_key)
    after = fused(program, problem.epilogue, y, problem.bias)
    kernel = kernels.few_channels_product(
        layer, channels, codes[x.dtype], x.strides, codes[y.dtype], y.strides,
        after.bias, after.epilogue,
    )  # fmt: skip
    label = labelled(MULTIPLY, problem.epilogue)
    program.kernel(kernel, [x, packed, *after.views], [y], label)


def _wgrad(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends the kernel that writes w in the layout that the weights have."""
    y, x, g, codes = problem.y, problem.x, problem.geometry, dtypes.CODES
    weights = problem.w.merge(0)  # the only group
    kernel = kernels.few_channels_gradient(
        layer_sizes(problem), g.y_channels, codes[y.dtype], y.strides, codes[x.dtype],
        x.strides, codes[weights.dtype], weights.strides,
    )  # fmt: skip
    program.kernel(kernel, [y, x], [weights], MULTIPLY)


def _work(problem: ConvProblem, env: Env) -> Counts:
    """Counts products over taps and channels of x, with channels of y, or positions of a row, padded to vectors."""
    g = problem.geometry
    places = g.batch * prod(g.y)
    depth = prod(g.kernel) * g.x_channels
    results = places * padded(g.y_channels, env.lanes)
    turned = 0
    if problem.direction == FPROP and kernels.few_channels_in_planes(layer_sizes(problem), g.y_channels):
        rows = places // max(g.y[-1], 1)
        results = rows * padded(g.y[-1], env.lanes) * (g.y_channels + _LOAD)
        turned = sum([view.size for view in (problem.y, problem.x) if view.shape[1] > 1 and view.strides[1] == 1])
    # results that are written to channels-first planes; or the sums of w, to which each row adds
    moved = places * g.y_channels if problem.y.strides[1] != 1 else 0
    added = places // max(g.y[-1], 1) * problem.w.size
    far = _ADDED * added if problem.direction == WGRAD and 4 * problem.w.size > _NEAR_SUMS else 0
    return Counts(
        products=results * depth,
        values=results + problem.x.size + (moved if problem.direction == WGRAD else _TURNED * turned),
        runs=added if problem.direction == WGRAD else moved,
        weights=problem.w.size,
        variable=packing(problem, problem.w.size),
        bytes=waits(problem, env, _FAR) + far,
    )


_NAME, _FAMILY = "builtin few-channel", "few channels"

_DATA = Algorithm(
    _NAME, FPROP, _FAMILY, _applies, _work, _fprop, W,
    converts=always, fuses=lambda p, e: expresses(p.epilogue, p.result), tiles_rows=True,
)  # fmt: skip
ALGORITHMS = (
    _DATA,
    Algorithm(_NAME, WGRAD, _FAMILY, _applies, _work, _wgrad, Y, converts=always),
)
FLIPPED = flipped(_DATA, flips)
