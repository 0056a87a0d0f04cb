"""Runs quantized depthwise layers, ordinary or transposed, by sums of integers with the channels in vectors."""

from __future__ import annotations

import numpy as np

from .. import dtypes
from .._core import kernels
from ..algorithms.depthwise import MOST_PHASES
from ..algorithms.lower import Decision
from ..algorithms.views import FROM_CHANNELS_LAST, MULTIPLY, as_channels_last, layer_sizes, result_view
from ..lowering.elementwise_group import fused
from ..lowering.epilogue import labelled
from ..lowering.problem import DGRAD, ConvProblem
from ..lowering.program import Program
from .quantized import Quantized, as_floats, bounded, of_channels, point, shift

# the set that multiplies words, which every CPU has; sets of tiles, and the set of the same CPU that sums by channels
_WORDS = "avx2words"
_WITHOUT_TILES = {"amxint8": "avx512vnni", "emulatedint8tiles": "emulatedint8"}


def applies(q: Quantized, problem: ConvProblem) -> bool:
    """Whether the kernel takes a layer: every channel has its own weights, and the source's scale is known."""
    g = problem.geometry
    return g.groups == g.y_channels == g.x_channels > 1 and max(g.strides) <= MOST_PHASES and not q.is_dynamic


def isa_of(q: Quantized) -> str:
    """Returns the instruction set that sums a layer up: words where weights less their zero points are no bytes."""
    best = kernels.int8_isa()[0]
    zeros = set(q.weights.attrs.get("zps") or (0,))
    return _WITHOUT_TILES.get(best, best) if zeros == {shift(q.weights)} else _WORDS


def build(program: Program, q: Quantized, problem: ConvProblem) -> Decision:
    """Appends the steps of a depthwise layer: packed weights, and the kernel with post-ops."""
    forward, isa, to = problem.direction == DGRAD, isa_of(q), q.quantize
    weights, result, layer = problem.w, problem.result, layer_sizes(problem)
    source, target = as_channels_last(program, problem.read[0]), result_view(program, result)
    makes = result.shape[1]
    src = dtypes.CODES[source.dtype], point(q.src)
    reads = [weights]
    strides = [weights.strides[0], *weights.strides[3:]]
    points = of_channels(makes, q.weights.attrs.get("zps") or (0,), np.int32) if isa == _WORDS else None
    if points is not None:
        reads.append(program.constant(points))
    pack = kernels.int8_depthwise_pack(
        layer, forward, dtypes.CODES[weights.dtype], strides, *src, points is not None, isa
    )  # fmt: skip
    packed = program.scratch((kernels.int8_depthwise_size(layer, forward, isa),), "u8")
    g = problem.geometry
    phases = tuple(map(min, g.x, g.strides)) if forward else ()
    cache_key = (
        "depthwise integers", isa, forward, src, weights.dtype, weights.shape, weights.strides, g.strides, g.pads_begin,
        g.dilations, phases, None if points is None else points.tobytes(),
    )  # fmt: skip
    program.kernel(pack, reads, [packed], "pack weights", cache_key=cache_key)
    scales = np.float32(q.src.attrs["scales"][0]) * of_channels(makes, q.weights.attrs["scales"], np.float32)
    bias = [] if problem.bias is None else [program.in_a_row(problem.bias)]
    epilogue, low, high = (problem.epilogue, -128, 255) if to is None else bounded(problem.epilogue, to)
    after = fused(program, epilogue, as_floats(target))
    kernel = kernels.int8_depthwise(
        layer, forward, src[0], source.strides, src[1], dtypes.CODES[target.dtype], target.strides,
        1.0 if to is None else to.attrs["scales"][0], 0 if to is None else point(to), low, high,
        dtypes.CODES["f32"] if bias else 0, after.epilogue, isa,
    )  # fmt: skip
    by = "" if isa == kernels.int8_isa()[0] else f" by {isa}"
    reads = [source, packed, program.constant(scales), *bias, *after.views]
    program.kernel(kernel, reads, [target], labelled(MULTIPLY + by, problem.epilogue))
    if target is not result:
        program.copy(target, result, FROM_CHANNELS_LAST)
    return Decision("builtin integer", source.dtype)
