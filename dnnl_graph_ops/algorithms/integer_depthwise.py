"""Computes depthwise layers of 8-bit integers by sums of integers, or of floats, with the channels in vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import dtypes
from ..convolution.problem import DGRAD, FPROP, READ, RESULT, ConvProblem, as_floats
from ..cost import integers as cost
from ..ir.env import Env
from ..program.epilogue import labelled
from ..program.kernel_post_ops import fused
from ..program.program import Program, View, array_of, has_data
from ..symbolic import kernels
from . import depthwise, integers
from .algorithm import NOTHING, Algorithm, always
from .integers import WORDS
from .views import FROM_CHANNELS_LAST, MULTIPLY, as_channels_last, layer_sizes, result_view

Array = np.ndarray[Any, Any]

# vectors of channels in a block of the kernel of integers; fewest channels of that of floats; its sums below are exact
_VECTORS, _FEWEST, _EXACT = 4, 8, 2**24
# sets of tiles, and the set of the same CPU that sums by channels
_WITHOUT_TILES = {"amxint8": "avx512vnni", "emulatedint8tiles": "emulatedint8"}


def _applies(problem: ConvProblem, env: Env) -> bool:
    """Whether every channel has its own weights, the source's scale is known, and a kernel sums the layer up."""
    g, q = problem.geometry, problem.quantization
    suits = g.groups == g.y_channels == g.x_channels > 1 and max(g.strides) <= depthwise.MOST_PHASES
    if not suits or q is None or q.is_dynamic or not integers.applies(problem, env):
        return False
    return _isa_of(problem) != WORDS or _sums_floats(problem)


def _isa_of(problem: ConvProblem) -> str:
    """Returns the set that multiplies the bytes of a layer; WORDS if there is none, or weights less zeros are wider."""
    assert problem.quantization is not None
    best = kernels.int8_isa()[0]
    # a kernel of bytes subtracts this as it packs weights, since it multiplies by s8
    shift = 128 if problem.w.dtype == "u8" else 0
    return _WITHOUT_TILES.get(best, best) if set(problem.quantization.weights_zeros) == {shift} else WORDS


def _centred(problem: ConvProblem) -> Array:
    """Returns the weights (channels, kernel) less their zero points."""
    assert problem.quantization is not None
    channels, kernel = problem.w.shape[0], problem.geometry.kernel
    zeros = problem.quantization.zeros(channels).reshape(channels, *[1] * len(kernel))
    return array_of(problem.w).reshape(channels, *kernel) - zeros


def _sums_floats(problem: ConvProblem) -> bool:
    """Whether the kernel that converts sources as it reads them and sums them up in f32 takes a layer, exactly."""
    channels = problem.w.shape[0]
    if channels < _FEWEST or not has_data(problem.w.buffer):
        return False
    return int(np.abs(_centred(problem)).reshape(channels, -1).sum(1).max(initial=0)) * 255 < _EXACT


# packed weights of a layer, how a kernel is made from what describes results, and words for its label
_Kernel = tuple[View, Callable[..., Any], str]


def _build(program: Program, problem: ConvProblem, env: Env) -> None:
    """Appends the steps of a depthwise layer: packed weights, and the kernel with post-ops."""
    q, result = problem.quantization, problem.result
    assert q is not None
    source, target = as_channels_last(program, problem.read[0]), result_view(program, result)
    views = dict(zip((READ[problem.direction][0], RESULT[problem.direction]), (source, target), strict=True))
    # of fewer channels, sums of floats are faster
    few = _isa_of(problem) == WORDS or problem.w.shape[0] < _VECTORS * env.lanes
    of_layer = _in_floats if few and _sums_floats(problem) else _in_integers
    packed, make, by = of_layer(program, problem.with_views(**views))
    bias = [] if problem.bias is None else [program.in_a_row(problem.bias)]
    epilogue, integers_of_result = q.bounded(problem.epilogue, result.dtype)
    after = fused(program, epilogue, as_floats(target))
    step = make(result=integers_of_result, epilogue=after.epilogue)
    reads = [source, packed, program.constant(q.scales(result.shape[1])), *bias, *after.views]
    program.kernel(step, reads, [target], labelled(MULTIPLY + by, problem.epilogue))
    if target is not result:
        program.copy(target, result, FROM_CHANNELS_LAST)


def _in_floats(program: Program, problem: ConvProblem) -> _Kernel:
    """Returns the kernel that converts sources as it reads them and sums them up in f32."""
    q, dgrad = problem.quantization, problem.direction == DGRAD
    assert q is not None
    weights = program.constant(_centred(problem).astype(np.float32))
    described = kernels.DepthwiseProblem(
        layer_sizes(problem), dtypes.CODES[problem.dtype], problem.y.strides, weights.strides, problem.x.strides, 1
    )  # fmt: skip
    packed = depthwise.pack(program, described, dgrad, weights)
    code, has_bias = dtypes.CODES[problem.result.dtype], problem.bias is not None
    make = partial(kernels.int8_depthwise_gather, described, dgrad, q.src_zero, code, has_bias=has_bias)
    return packed, make, " in f32"


def _in_integers(program: Program, problem: ConvProblem) -> _Kernel:
    """Returns the kernel that sums integers up."""
    q = problem.quantization
    assert q is not None
    dgrad, isa, g = problem.direction == DGRAD, _isa_of(problem), problem.geometry
    weights, layer, src, dst = problem.w, layer_sizes(problem), problem.read[0], problem.result
    code, zero, strides = dtypes.CODES[src.dtype], q.src_zero, (weights.strides[0], *weights.strides[3:])
    pack = kernels.int8_depthwise_pack(layer, dgrad, dtypes.CODES[weights.dtype], strides, code, zero, isa)
    packed = program.scratch((kernels.int8_depthwise_size(layer, dgrad, isa),), "u8")
    cache_key = (
        "depthwise integers", isa, dgrad, code, zero, weights.dtype, weights.shape, weights.strides, g.strides,
        g.pads_begin, g.dilations, tuple(map(min, g.x, g.strides)),
    )  # fmt: skip
    program.kernel(pack, [weights], [packed], "pack weights", cache_key=cache_key)
    make = partial(
        kernels.int8_depthwise, layer, dgrad, code, src.strides, zero, dtypes.CODES[dst.dtype], dst.strides,
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
