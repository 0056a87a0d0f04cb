"""The raw API with the few lines around it that every test needs."""

import functools
import itertools
from pathlib import Path

import numpy as np

import dnnl_graph_ops
from dnnl_graph_ops import _core
from dnnl_graph_ops._core import DataType, EngineKind, LogicalTensor, OpAttr, OpKind, PartitionPolicy

PATH = Path(dnnl_graph_ops.engine("cpu").runtime.path)
DECONV = {
    OpAttr.strides: [2, 2],
    OpAttr.pads_begin: [1, 1],
    OpAttr.pads_end: [1, 1],
    OpAttr.dilations: [1, 1],
}
ids = itertools.count(1)


@functools.cache
def library():
    return dnnl_graph_ops.engine("cpu").runtime._library


@functools.cache
def engine():
    return dnnl_graph_ops.engine("cpu")._native


def tensor(*dims, dtype=DataType.f32, **more):
    return LogicalTensor(next(ids), dtype, dims, **more)


def make_op(kind, inputs, outputs, vectors=(), name="test"):
    op = _core.Op(library(), next(ids), kind, name)
    for item in inputs:
        op.add_input(item)
    for item in outputs:
        op.add_output(item)
    for code, values in dict(vectors).items():
        op.set_attr(code, "s64[]", values)
    return op


def partitions(*ops, policy=PartitionPolicy.fusion):
    graph = _core.Graph(library(), EngineKind.cpu)
    for op in ops:
        graph.add_op(op)
    graph.finalize()
    graph.filter(policy)
    return graph.partitions()


def relu(*dims):
    """(compiled partition, input, output)"""
    x, y = tensor(*dims), tensor(*dims)
    (part,) = partitions(make_op(OpKind.relu, [x], [y]))
    return part.compile([x], [y], engine()), x, y


def deconv(out=None, dtype=DataType.f32):
    """(partition, inputs, output): 3 to 6 channels, kernel 4, stride 2, pad 1, channels last."""
    x, w = tensor(2, 5, 4, 3, dtype=dtype), tensor(4, 4, 6, 3, dtype=dtype)
    y = out or tensor(2, 10, 8, 6, dtype=dtype)
    (part,) = partitions(make_op(OpKind.conv_transpose, [x, w], [y], DECONV))
    return part, [x, w], y


def bind(description, array):
    return _core.Tensor(description, engine(), array)


def integers(rng, description):
    return rng.integers(-4, 5, description.dims).astype(np.float32)
