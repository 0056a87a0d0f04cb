"""ONNX models: bytes, and models whose nodes, attributes, shapes and tensors were tampered with."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes
from dnnl_graph_ops.frontends.reading.numpy_steps import ROWS
from dnnl_graph_ops.frontends.reading.stages import UNKNOWN, StagedNet
from dnnl_graph_ops.frontends.reading.table import RULES
from hard.fuzz.choices import EDGES
from hard.fuzz.mutators import changed_bytes

# elements of all results together
MOST = 1 << 18
NUMBERS = [n for e in EDGES for n in (e, e + 1, e - 1, -e) if -(2**63) <= n < 2**63]
ATTRIBUTES = (
    "axis", "axes", "pads", "strides", "dilations", "group", "keepdims", "auto_pad", "perm", "to", "output_padding",
    "kernel_shape", "mode", "epsilon", "alpha", "ceil_mode", "output_shape", "size", "num_heads", "q_num_heads",
    "kv_num_heads", "sampling_ratio", "scale", "block_size", "antialias", "exclude_outside", "layout", "batch_dims",
)  # fmt: skip
NAMES = ("", "x", "y", "w", "\0", "x" * 300)


def one(data: bytes) -> None:
    graph = dgo.from_onnx(data)
    sizes = [np.prod([n or 1 for n in v.shape], dtype=float) for node in graph.nodes for v in node.outputs]
    if sum(sizes) > MOST or any(np.prod([n or 1 for n in v.shape], dtype=float) > MOST for v in graph.inputs):
        return
    net = graph.compile()
    if isinstance(net, StagedNet) and any(v.shape == UNKNOWN or v.dtype not in dtypes.CODES for v in net.inputs):
        return
    fed = [([3 if n is None else n for n in v.shape], dtypes.numpy_dtype(v.dtype)) for v in net.inputs]
    net.run({v.name: np.ones(*made) for v, made in zip(net.inputs, fed, strict=True)})


def change(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.2:
        return changed_bytes(rng, data)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:
        return changed_bytes(rng, data)
    try:
        rng.choice(CHANGES)(rng, model)
    except UnicodeDecodeError:
        # the package reads such names, protobuf does not write them
        return changed_bytes(rng, data)
    return model.SerializeToString()


def _number(rng: random.Random) -> int:
    return rng.choice(NUMBERS) if rng.random() < 0.5 else rng.randrange(-2, 9)


def _attribute(rng: random.Random, model: Any) -> None:
    node = _node(rng, model)
    if not node.attribute:
        return
    attribute = rng.choice(node.attribute)
    if attribute.type == AttributeProto.INTS and attribute.ints and rng.random() < 0.7:
        attribute.ints[rng.randrange(len(attribute.ints))] = _number(rng)
    elif attribute.type == AttributeProto.INTS:
        attribute.ints.extend(_number(rng) for _ in range(rng.randrange(4)))
    elif attribute.type == AttributeProto.INT:
        attribute.i = _number(rng)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice((0.0, -1.0, 1e38, float("inf"), float("nan"), 1e-45))
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice((b"", b"SAME_UPPER", b"linear", b"cubic", b"reflect", b"\xff", b"VALID"))
    if rng.random() < 0.1:
        attribute.type = rng.randrange(15)


def _new_attribute(rng: random.Random, model: Any) -> None:
    name = rng.choice(ATTRIBUTES)
    value: Any = rng.choice((_number(rng), [_number(rng) for _ in range(rng.randrange(1, 6))], 0.5, "x"))
    node = _node(rng, model)
    node.attribute.append(helper.make_attribute(name, value))


def _inputs(rng: random.Random, model: Any) -> None:
    node = _node(rng, model)
    names = [name for n in model.graph.node for name in (*n.input, *n.output)] + [*NAMES]
    kind = rng.randrange(4)
    if kind == 0 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    elif kind == 1:
        node.input.append(rng.choice(names))
    elif kind == 2 and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice(names)


def _kind(rng: random.Random, model: Any) -> None:
    _node(rng, model).op_type = rng.choice(KINDS)


def _again(rng: random.Random, model: Any) -> None:
    """One more node, that reads what the model makes and takes its place."""
    graph = model.graph
    made = onnx.NodeProto()
    made.CopyFrom(_node(rng, model))
    if rng.random() < 0.5:
        made.op_type = rng.choice(KINDS)
    if graph.output and made.input:
        made.input[0] = graph.output[0].name
        name = f"more{len(graph.node)}"
        made.name = name
        del made.output[:]
        made.output.append(name)
        graph.node.append(made)
        graph.output[0].name = name


def _shape(rng: random.Random, model: Any) -> None:
    values = [*model.graph.input]
    if not values:
        return
    tensor = rng.choice(values).type.tensor_type
    if rng.random() < 0.15:
        tensor.elem_type = rng.randrange(24)
    elif tensor.shape.dim and rng.random() < 0.7:
        dim = rng.choice(tensor.shape.dim)
        if rng.random() < 0.2:
            dim.dim_param = "n"
        else:
            dim.dim_value = _number(rng)
    elif tensor.shape.dim and rng.random() < 0.5:
        del tensor.shape.dim[0]
    else:
        tensor.shape.dim.add().dim_value = rng.randrange(5)


def _tensor(rng: random.Random, model: Any) -> None:
    tensors = [*model.graph.initializer, *(a.t for n in model.graph.node for a in n.attribute if a.HasField("t"))]
    if not tensors:
        return
    tensor = rng.choice(tensors)
    kind = rng.randrange(4)
    if kind == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = _number(rng)
    elif kind == 1:
        tensor.data_type = rng.randrange(24)
    elif kind == 2:
        tensor.raw_data = changed_bytes(rng, tensor.raw_data)
    else:
        # sizes, axes and the like as constants
        name = tensor.name
        values = np.array([_number(rng) for _ in range(rng.randrange(5))], np.int64)
        tensor.CopyFrom(numpy_helper.from_array(values, name))


def _drop(rng: random.Random, model: Any) -> None:
    part = rng.choice((model.graph.node, model.graph.input, model.graph.initializer, model.graph.output))
    if part:
        del part[rng.randrange(len(part))]


def _versions(rng: random.Random, model: Any) -> None:
    if model.opset_import:
        model.opset_import[0].version = rng.choice((7, 9, 10, 11, 13, 18, 21, 1, 0, -1, 2**62, 99))


def _node(rng: random.Random, model: Any) -> Any:
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    return rng.choice(nodes) if nodes else model.graph.node.add()


KINDS = sorted({*RULES, *ROWS, "Constant", "If", "Loop", "Size", ""})
CHANGES = (
    _attribute, _attribute, _attribute, _new_attribute, _inputs, _kind, _again, _shape, _shape, _tensor, _tensor,
    _drop, _versions,
)  # fmt: skip
