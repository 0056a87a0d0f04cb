"""Computes depthwise layers of 8-bit integers by sums of integers, or of floats, with the channels in vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import dtypes
from ..convolution.problem import DGRAD, FPROP, ConvProblem, as_floats
from ..cost import integers as cost
from ..ir.env import Env
from ..program.elementwise import fused
from ..program.epilogue import labelled
from ..program.program import Program, View, array_of, has_data
from ..strides import dense_strides
from ..symbolic import kernels
from . import depthwise, integers
from .algorithm import NOTHING, Algorithm, always
from .integers import WORDS
from .views import FROM_CHANNELS_LAST, MULTIPLY, as_channels_last, layer_sizes, result_view

# vectors of channels in a block of the kernel of integers; sums in f32 below this number are exact
_VECTORS, _EXACT = 4, 2**24
# sets of tiles, and the set of the same CPU that sums by channels
_WITHOUT_TILES = {"amxint8": "avx512vnni", "emulatedint8tiles": "emulatedint8"}


def _applies(problem: ConvProblem, env: Env) -> bool:
    """Whether every channel has its own weights, and the source's scale is known."""
    g, q = problem.geometry, problem.quantization
    suits = g.groups == g.y_channels == g.x_channels > 1 and max(g.strides) <= depthwise.MOST_PHASES
    return suits and q is not None and not q.is_dynamic and integers.applies(problem, env)


def _isa_of(problem: ConvProblem) -> str:
    """Returns the instruction set that sums a layer up: words where weights less their zero points are no bytes."""
    assert problem.quantization is not None
    best = kernels.int8_isa()[0]
    # a kernel of bytes subtracts this as it packs weights, since it multiplies by s8
    shift = 128 if problem.w.dtype == "u8" else 0
    return _WITHOUT_TILES.get(best, best) if set(problem.quantization.weights_zeros) == {shift} else WORDS


# packed weights of a layer, how a kernel is made from what describes results, and words for its label
_Kernel = tuple[View, Callable[..., Any], str]


def _build(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends the steps of a depthwise layer: packed weights, and the kernel with post-ops."""
    q, result = problem.quantization, problem.result
    assert q is not None
    source, target = as_channels_last(program, problem.read[0]), result_view(program, result)
    of_layer = _in_floats(program, problem, source, target, env) or _in_integers(program, problem, source, target)
    packed, make, by = of_layer
    bias = [] if problem.bias is None else [program.in_a_row(problem.bias)]
    epilogue, integers_of_result = q.bounded(problem.epilogue, result.dtype)
    after = fused(program, epilogue, as_floats(target))
    step = make(result=integers_of_result, epilogue=after.epilogue)
    reads = [source, packed, program.constant(q.scales(result.shape[1])), *bias, *after.views]
    program.kernel(step, reads, [target], labelled(MULTIPLY + by, problem.epilogue))
    if target is not result:
        program.copy(target, result, FROM_CHANNELS_LAST)


def _in_floats(program: Program, problem: ConvProblem, source: View, target: View, env: Env) -> _Kernel | None:
    """Returns the kernel that converts sources as it reads them and sums them up in f32; None where another is faster.

    Sums are exact below 2^24.
    """
    channels, q = problem.w.shape[0], problem.quantization
    assert q is not None
    if (_isa_of(problem) != WORDS and channels >= _VECTORS * env.lanes) or not has_data(problem.w.buffer):
        return None
    dgrad = problem.direction == DGRAD
    layer, kernel = layer_sizes(problem), problem.geometry.kernel
    strides = dense_strides((channels, *kernel))
    views = (source, target) if dgrad else (target, source)
    described = kernels.DepthwiseProblem(
        layer, dtypes.CODES[source.dtype], views[0].strides, strides, views[1].strides, 1
    )  # fmt: skip
    zeros = q.zeros(channels).reshape(channels, *[1] * len(kernel))
    centred = array_of(problem.w).reshape(channels, *kernel) - zeros
    most = int(np.abs(centred).reshape(channels, -1).sum(1).max(initial=0))
    if most * 255 >= _EXACT or not kernels.int8_depthwise_gathers(described):
        return None
    floats = kernels.DepthwiseProblem(layer, dtypes.CODES["f32"], views[0].strides, strides, views[1].strides, 1)
    packed = depthwise.pack(program, floats, dgrad, program.constant(centred.astype(np.float32)))
    code = dtypes.CODES[target.dtype]
    has_bias = problem.bias is not None
    make = partial(kernels.int8_depthwise_gather, described, dgrad, q.src_zero, code, has_bias=has_bias)
    return packed, make, " in f32"


def _in_integers(program: Program, problem: ConvProblem, source: View, target: View) -> _Kernel:
    """Returns the kernel that sums integers up."""
    q = problem.quantization
    assert q is not None
    dgrad, isa, g = problem.direction == DGRAD, _isa_of(problem), problem.geometry
    weights, layer, zero = problem.w, layer_sizes(problem), q.src_zero
    src, reads = dtypes.CODES[source.dtype], [weights]
    points = None
    if isa == WORDS:
        points = q.zeros(weights.shape[0])
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
    return packed, make, "" if isa == kernels.int8_isa()[0] else f" by {isa}"


NAME = f"{integers.NAME}, depthwise"
ALGORITHMS = tuple(
    Algorithm(
        NAME, direction, "depthwise", _applies, cost.sums, _build, NOTHING, fuses=always, multiplies="s8",
        row=lambda p: (cost.DEPTHWISE, _isa_of(p)),
    )
    for direction in (FPROP, DGRAD)
)  # fmt: skip
