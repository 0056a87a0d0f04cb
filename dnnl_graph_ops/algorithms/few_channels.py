"""Computes gradients of layers of at most 4 out channels by own vector code, in any layout of src and diff_dst.

Backward data is an ordinary convolution that reads few channels, such as the first one of a network.
"""

from __future__ import annotations

from math import prod

from .. import dtypes
from .._core import kernels
from ..lowering.chain import expresses, fused
from ..lowering.cost import Counts, packing, padded
from ..lowering.env import Env
from ..lowering.epilogue import labelled
from ..lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, Problem
from ..lowering.program import Program
from .algorithm import SRC, WEIGHTS, Algorithm, always
from .flipped import flipped, flips
from .views import layer_sizes

_MOST_CHANNELS = 4


def _applies(problem: Problem, env: Env) -> bool:
    """Whether the layer has one group and few out channels, and rows that are short enough for the kernel to copy."""
    g = problem.geometry
    return g.groups == 1 and 1 <= g.out_channels <= _MOST_CHANNELS and not kernels.stem_refusal(layer_sizes(problem))


def _fuses(problem: Problem, env: Env) -> bool:
    return expresses(problem.epilogue, problem.result)


def _backward_data(program: Program, problem: Problem, env: Env) -> None:
    """Appends the packing of the weights (run once if they are constant) and the kernel that writes diff_src."""
    src, dst = problem.src, problem.dst
    g, codes = problem.geometry, dtypes.CODES
    layer, channels = layer_sizes(problem), g.in_channels
    weights = problem.weights.merge(0)  # the only group
    packed = program.scratch((kernels.stem_packed_size(layer, channels),), "f32")
    pack = kernels.stem_pack(layer, channels, codes[weights.dtype], weights.strides)
    recipe = ("stem", weights.dtype, weights.shape, weights.strides)
    program.kernel(pack, [weights], [packed], "pack weights", recipe=recipe)
    after = fused(program, problem.epilogue, src, problem.bias)
    kernel = kernels.stem_product(
        layer, channels, codes[dst.dtype], dst.strides, codes[src.dtype], src.strides,
        after.bias, after.epilogue,
    )  # fmt: skip
    label = labelled("own stem backward data", problem.epilogue)
    program.kernel(kernel, [dst, packed, *after.views], [src], label)


def _backward_weights(program: Program, problem: Problem, env: Env) -> None:
    """Appends the kernel that writes diff_weights in the layout that the weights have."""
    src, dst, g, codes = problem.src, problem.dst, problem.geometry, dtypes.CODES
    weights = problem.weights.merge(0)  # the only group
    kernel = kernels.stem_gradient(
        layer_sizes(problem), g.in_channels, codes[src.dtype], src.strides, codes[dst.dtype],
        dst.strides, codes[weights.dtype], weights.strides,
    )  # fmt: skip
    program.kernel(kernel, [src, dst], [weights], "own stem backward weights")


def _work(problem: Problem, env: Env) -> Counts:
    """Counts products over taps and out channels, with in channels padded to whole vectors."""
    g = problem.geometry
    places = g.batch * prod(g.src)
    depth = prod(g.kernel) * g.out_channels
    results = places * padded(g.in_channels, env.lanes)
    # results that are written to channels-first planes; or the sums of diff_weights, to which each row adds
    moved = places * g.in_channels if problem.src.strides[1] != 1 else 0
    added = places // max(g.src[-1], 1) * problem.weights.size
    return Counts(
        products=results * depth,
        values=results + problem.dst.size + (moved if problem.direction == BACKWARD_WEIGHTS else 0),
        runs=added if problem.direction == BACKWARD_WEIGHTS else moved,
        weights=problem.weights.size,
        variable=packing(problem, problem.weights.size),
    )


_NAME, _FAMILY = "own stem", "stem"

_DATA = Algorithm(
    _NAME, BACKWARD_DATA, _FAMILY, _applies, _work, _backward_data, WEIGHTS,
    converts=always, fuses=_fuses, tiles_rows=True,
)  # fmt: skip
ALGORITHMS = (
    _DATA,
    Algorithm(_NAME, BACKWARD_WEIGHTS, _FAMILY, _applies, _work, _backward_weights, SRC, converts=always),
)
FLIPPED = flipped(_DATA, flips)
