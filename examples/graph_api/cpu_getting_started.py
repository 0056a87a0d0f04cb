"""A graph of two convolutions, each with bias and ReLU, from its description to its numbers on the CPU.

Logical tensors say which op reads what another one writes; sizes need not be known before a partition is compiled. The
library fuses each convolution with what follows it. Between the two partitions it may choose the layout: the second one
is compiled for whatever the first one writes.
"""

from __future__ import annotations

import sys

import numpy as np
from graph_example_utils import Array, Case, open_engine, options, run
from numpy.lib.stride_tricks import sliding_window_view

from dnnl_graph_ops.graph_api import engine, graph, logical_tensor, op, stream

BATCH, IN_CHANNELS, CHANNELS, SIZE, KERNEL, STRIDE = 2, 3, 96, 67, 11, 4
# the ids of the tensors that the graph reads, and of the one that it writes
SRC, WEIGHTS0, BIAS0, WEIGHTS1, BIAS1, DST = 0, 1, 3, 6, 8, 10


def described(*ids: int) -> list[logical_tensor]:
    """Tensors of f32 of which nothing else is known yet."""
    return [logical_tensor(number, logical_tensor.f32) for number in ids]


def convolution(number: int, inputs: list[int], output: int, stride: int, name: str) -> op:
    o = op(number, op.kind.Convolution, described(*inputs), described(output), name)
    o.set_attr(op.attr.strides, [stride, stride])
    o.set_attr(op.attr.pads_begin, [0, 0])
    o.set_attr(op.attr.pads_end, [0, 0])
    o.set_attr(op.attr.dilations, [1, 1])
    o.set_attr(op.attr.groups, 1)
    o.set_attr(op.attr.data_format, "NCX")
    o.set_attr(op.attr.weights_format, "OIX")
    return o


def bias_add(number: int, inputs: list[int], output: int, name: str) -> op:
    return op(number, op.kind.BiasAdd, described(*inputs), described(output), name).set_attr(op.attr.data_format, "NCX")


def relu(number: int, source: int, output: int, name: str) -> op:
    return op(number, op.kind.ReLU, described(source), described(output), name)


def ops() -> list[op]:
    """The ops in any order: the ids of their tensors connect them."""
    return [
        convolution(0, [SRC, WEIGHTS0], 2, STRIDE, "conv0"),
        bias_add(1, [2, BIAS0], 4, "conv0_bias_add"),
        relu(2, 4, 5, "relu0"),
        convolution(3, [5, WEIGHTS1], 7, 1, "conv1"),
        bias_add(4, [7, BIAS1], 9, "conv1_bias_add"),
        relu(5, 9, DST, "relu1"),
    ]


def in_numpy(src: Array, weights0: Array, bias0: Array, weights1: Array, bias1: Array) -> Array:
    windows = sliding_window_view(src, (KERNEL, KERNEL), axis=(2, 3))[:, :, ::STRIDE, ::STRIDE]
    first = np.einsum("ncyxkl,ockl->noyx", windows, weights0, optimize=True) + bias0[:, None, None]
    second = np.einsum("ncyx,oc->noyx", np.maximum(first, 0), weights1[:, :, 0, 0], optimize=True)
    return np.maximum(second + bias1[:, None, None], 0)


def case() -> Case:
    """The graph, and small integers to run it on, whose sums f32 holds exactly."""
    rng = np.random.default_rng(0)
    shapes = {
        SRC: (BATCH, IN_CHANNELS, SIZE, SIZE),
        WEIGHTS0: (CHANNELS, IN_CHANNELS, KERNEL, KERNEL),
        BIAS0: (CHANNELS,),
        WEIGHTS1: (CHANNELS, CHANNELS, 1, 1),
        BIAS1: (CHANNELS,),
    }
    arrays = [rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes.values()]
    inputs = [
        logical_tensor(number, logical_tensor.f32, shape, logical_tensor.strided) for number, shape in shapes.items()
    ]
    return Case(ops(), dict(zip(inputs, arrays, strict=True)), DST, in_numpy(*arrays), partitions=2)


def main() -> int:
    chosen = options(__doc__)
    e = open_engine(chosen.runtime)
    return 0 if run(case(), graph(engine.kind.cpu, runtime=chosen.runtime), e, stream(e)) else 1


if __name__ == "__main__":
    sys.exit(main())
