"""A quantized convolution: Dequantize ops before it, ReLU and Quantize after it become one int8 partition.

The library multiplies u8 by s8 and never makes the f32 tensors of the graph. Weights (1, 1, IC, OC) have a scale for
each output channel, axis 3 of format XIO (the C++ file says axis 1, which has one element there).
"""

from __future__ import annotations

import sys

import numpy as np
from graph_example_utils import Array, Case, open_engine, options, run

from dnnl_graph_ops.graph_api import engine, graph, logical_tensor, op, stream

BATCH, IN_CHANNELS, OUT_CHANNELS, SIZE = 2, 256, 64, 14
SCALE, ZERO_POINT = 0.1, 10
f32, constant = logical_tensor.f32, logical_tensor.constant
# the ids of the tensors that the graph reads, and of the one that it writes
SRC, WEIGHTS, BIAS, DST = 0, 3, 6, 11


def ops() -> list[op]:
    src_u8 = logical_tensor(SRC, logical_tensor.u8)
    src = logical_tensor(1, f32)
    dequant0 = op(2, op.kind.Dequantize, [src_u8], [src], "dequant0")
    dequant0.set_attr(op.attr.qtype, "per_tensor")
    dequant0.set_attr(op.attr.scales, [SCALE])
    dequant0.set_attr(op.attr.zps, [ZERO_POINT])

    weights_s8 = logical_tensor(WEIGHTS, logical_tensor.s8)
    # a rank without sizes; constants may be packed once
    weights = logical_tensor(4, f32, 4, logical_tensor.layout_type.undef, constant)
    dequant1 = op(5, op.kind.Dequantize, [weights_s8], [weights], "dequant1")
    dequant1.set_attr(op.attr.qtype, "per_channel")
    dequant1.set_attr(op.attr.scales, np.full(OUT_CHANNELS, SCALE))
    dequant1.set_attr(op.attr.zps, np.zeros(OUT_CHANNELS, np.int64))
    dequant1.set_attr(op.attr.axis, 3)

    bias = logical_tensor(BIAS, f32, 1, logical_tensor.layout_type.undef, constant)
    product = logical_tensor(7, f32)
    conv = op(8, op.kind.Convolution, [src, weights, bias], [product], "conv")
    conv.set_attr(op.attr.strides, [1, 1])
    conv.set_attr(op.attr.pads_begin, [0, 0])
    conv.set_attr(op.attr.pads_end, [0, 0])
    conv.set_attr(op.attr.dilations, [1, 1])
    conv.set_attr(op.attr.data_format, "NXC")
    conv.set_attr(op.attr.weights_format, "XIO")
    conv.set_attr(op.attr.groups, 1)

    positive = logical_tensor(9, f32)
    relu = op(10, op.kind.ReLU, [product], [positive], "relu")
    quant = op(12, op.kind.Quantize, [positive], [logical_tensor(DST, logical_tensor.u8)], "quant")
    quant.set_attr(op.attr.qtype, "per_tensor")
    quant.set_attr(op.attr.scales, [SCALE])
    quant.set_attr(op.attr.zps, [ZERO_POINT])
    return [dequant0, dequant1, conv, relu, quant]


def in_numpy(src: Array, weights: Array, bias: Array) -> Array:
    sums = (src.astype(np.int64) - ZERO_POINT) @ weights[0, 0].astype(np.int64)
    result = np.maximum(sums * SCALE**2 + bias, 0)
    return np.clip(np.rint(result / SCALE) + ZERO_POINT, 0, 255)


def case() -> Case:
    """The graph, and arrays to run it on. The bias keeps every result away from halves: no rounding is in doubt."""
    rng = np.random.default_rng(0)
    arrays: list[Array] = [
        rng.integers(0, 21, (BATCH, SIZE, SIZE, IN_CHANNELS)).astype(np.uint8),
        rng.integers(-8, 9, (1, 1, IN_CHANNELS, OUT_CHANNELS)).astype(np.int8),
        ((rng.integers(-9, 10, OUT_CHANNELS) + 0.05) * SCALE).astype(np.float32),
    ]
    types = {SRC: logical_tensor.u8, WEIGHTS: logical_tensor.s8, BIAS: f32}
    inputs = {
        logical_tensor(number, dtype, array.shape, logical_tensor.strided): array
        for (number, dtype), array in zip(types.items(), arrays, strict=True)
    }
    return Case(ops(), inputs, DST, in_numpy(*arrays), partitions=1)


def main() -> int:
    chosen = options(__doc__)
    e = open_engine(chosen.runtime)
    return 0 if run(case(), graph(engine.kind.cpu, runtime=chosen.runtime), e, stream(e)) else 1


if __name__ == "__main__":
    sys.exit(main())
