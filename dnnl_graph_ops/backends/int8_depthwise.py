"""Runs quantized depthwise layers, ordinary or transposed, by sums of integers with the channels in vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..algorithms.depthwise import MOST_PHASES
from ..algorithms.lower import Decision
from ..algorithms.views import FROM_CHANNELS_LAST, MULTIPLY, as_channels_last, layer_sizes, result_view
from ..convolution.problem import DGRAD, ConvProblem
from ..ir.env import Env
from ..program.elementwise import fused
from ..program.epilogue import labelled
from ..program.program import Program, View
from ..strides import dense_strides
from ..symbolic import kernels
from .quantized import WORDS, Quantized, as_floats, bounded, constant_weights, of_channels, point, shift, zero_points

# vectors of channels in a block of the kernel of integers; sums in f32 below this number are exact
_VECTORS, _EXACT = 4, 2**24
# taps from which on, and channels below which, the library's kernel is slower
_MANY_TAPS, _FEW_CHANNELS = 16, 16
# sets of tiles, and the set of the same CPU that sums by channels
_WITHOUT_TILES = {"amxint8": "avx512vnni", "emulatedint8tiles": "emulatedint8"}


def applies(q: Quantized, problem: ConvProblem) -> bool:
    """Whether the kernel takes a layer: every channel has its own weights, and the source's scale is known."""
    g = problem.geometry
    return g.groups == g.y_channels == g.x_channels > 1 and max(g.strides) <= MOST_PHASES and not q.is_dynamic


def beats_library(problem: ConvProblem) -> bool:
    """Whether the kernel is faster than the library's, which has one for ordinary layers of up to two axes.

    That one converts each byte to a lane of its own: it multiplies more often where there are many taps, and leaves
    lanes empty where there are few channels.
    """
    g = problem.geometry
    return problem.direction == DGRAD or g.rank > 2 or prod(g.kernel) >= _MANY_TAPS or g.groups < _FEW_CHANNELS


def isa_of(q: Quantized) -> str:
    """Returns the instruction set that sums a layer up: words where weights less their zero points are no bytes."""
    best = kernels.int8_isa()[0]
    zeros = set(q.weights.attrs.get("zps") or (0,))
    return _WITHOUT_TILES.get(best, best) if zeros == {shift(q.weights)} else WORDS


class _Kernel(NamedTuple):
    """A kernel of a layer: its packed weights, how it is made from what describes results, and words for its label."""

    packed: View
    make: Callable[..., Any]
    by: str


def build(program: Program, q: Quantized, problem: ConvProblem, env: Env) -> Decision:
    """Appends the steps of a depthwise layer: packed weights, and the kernel with post-ops."""
    to, result = q.quantize, problem.result
    source, target = as_channels_last(program, problem.read[0]), result_view(program, result)
    kernel = _in_floats(program, q, problem, source, target, env) or _in_integers(program, q, problem, source, target)
    scales = of_channels(result.shape[1], q.weights.attrs["scales"], np.float32)
    bias = [] if problem.bias is None else [program.in_a_row(problem.bias)]
    epilogue, low, high = (problem.epilogue, -128, 255) if to is None else bounded(problem.epilogue, to)
    after = fused(program, epilogue, as_floats(target))
    step = kernel.make(
        dst_scale=1.0 if to is None else to.attrs["scales"][0], dst_zero=0 if to is None else point(to), dst_low=low,
        dst_high=high, epilogue=after.epilogue,
    )  # fmt: skip
    factors = program.constant(np.float32(q.src.attrs["scales"][0]) * scales)
    reads = [source, kernel.packed, factors, *bias, *after.views]
    program.kernel(step, reads, [target], labelled(MULTIPLY + kernel.by, problem.epilogue))
    if target is not result:
        program.copy(target, result, FROM_CHANNELS_LAST)
    return Decision("builtin integer", source.dtype)


def _in_floats(
    program: Program, q: Quantized, problem: ConvProblem, source: View, target: View, env: Env
) -> _Kernel | None:
    """Returns the kernel that converts sources as it reads them and sums them up in f32; None where another is faster.

    Sums are exact below 2^24.
    """
    channels = problem.w.shape[0]
    if (isa_of(q) != WORDS and channels >= _VECTORS * env.lanes) or not q.weights.inputs[0].is_constant:
        return None
    dgrad, zeros = problem.direction == DGRAD, zero_points(q, channels)
    layer, kernel = layer_sizes(problem), problem.geometry.kernel
    strides = dense_strides((channels, *kernel))
    views = (source, target) if dgrad else (target, source)
    described = kernels.DepthwiseProblem(
        layer, dtypes.CODES[source.dtype], views[0].strides, strides, views[1].strides, 1
    )  # fmt: skip
    weights = constant_weights(q, problem.w).reshape(channels, *kernel)
    centred = weights - zeros.reshape(channels, *[1] * len(kernel))
    most = int(np.abs(centred).reshape(channels, -1).sum(1).max(initial=0))
    if most * 255 >= _EXACT or not kernels.int8_depthwise_gathers(described):
        return None
    floats = kernels.DepthwiseProblem(layer, dtypes.CODES["f32"], views[0].strides, strides, views[1].strides, 1)
    packing, size, *order = kernels.depthwise_packing(floats, dgrad)
    packed = program.scratch((size,), "f32")
    cache_key = ("depthwise", *map(tuple, order), strides, "f32")
    program.kernel(
        packing, [program.constant(centred.astype(np.float32))], [packed], "pack weights", cache_key=cache_key
    )
    code = dtypes.CODES[target.dtype]
    has_bias = problem.bias is not None
    make = partial(kernels.int8_depthwise_gather, described, dgrad, point(q.src), code, has_bias=has_bias)
    return _Kernel(packed, make, " in f32")


def _in_integers(program: Program, q: Quantized, problem: ConvProblem, source: View, target: View) -> _Kernel:
    """Returns the kernel that sums integers up."""
    dgrad, isa, g = problem.direction == DGRAD, isa_of(q), problem.geometry
    weights, layer, zero = problem.w, layer_sizes(problem), point(q.src)
    src, reads = dtypes.CODES[source.dtype], [weights]
    points = None
    if isa == WORDS:
        points = zero_points(q, weights.shape[0])
        reads.append(program.constant(points))
    strides = [weights.strides[0], *weights.strides[3:]]
    pack = kernels.int8_depthwise_pack(
        layer, dgrad, dtypes.CODES[weights.dtype], strides, src, zero, points is not None, isa
    )  # fmt: skip
    packed = program.scratch((kernels.int8_depthwise_size(layer, dgrad, isa),), "u8")
    cache_key = (
        "depthwise integers", isa, dgrad, src, zero, weights.dtype, weights.shape, weights.strides, g.strides,
        g.pads_begin, g.dilations, tuple(map(min, g.x, g.strides)), None if points is None else points.tobytes(),
    )  # fmt: skip
    program.kernel(pack, reads, [packed], "pack weights", cache_key=cache_key)
    make = partial(
        kernels.int8_depthwise, layer, dgrad, src, source.strides, zero, dtypes.CODES[target.dtype], target.strides,
        bias_dtype=0 if problem.bias is None else dtypes.CODES["f32"], isa=isa,
    )  # fmt: skip
    return _Kernel(packed, make, "" if isa == kernels.int8_isa()[0] else f" by {isa}")
