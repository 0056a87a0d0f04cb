"""A node, or a few, against ONNX Runtime, bit for bit: with sizes that are known, with sizes of a call, and folded."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

import dnnl_graph_ops as dgo

from .models import reference

WAYS = ("sizes", "symbolic", "folded")


def node(kind, inputs, outputs="y", **attrs):
    return helper.make_node(kind, ["" if name == "-" else name for name in inputs.split()], outputs.split(), **attrs)


def proto_of(nodes, feeds, constants=(), opset=18, way="sizes", domains=(), outputs=()):
    """A model of nodes; `outputs`: by default those of the nodes' that no node reads."""
    reads = {name for one in nodes for name in one.input}
    outputs = outputs or [name for one in nodes for name in one.output if name and name not in reads]
    stored = {**dict(constants), **(feeds if way == "folded" else {})}
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}_{axis}" if way == "symbolic" else size for axis, size in enumerate(array.shape)],
        )
        for name, array in feeds.items()
        if name not in stored
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    graph = helper.make_graph(list(nodes), "test", inputs, results, arrays)
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 9
    return made


def run(proto, feeds, **options):
    net = dgo.from_onnx(proto).compile(**options)
    return [*net.run({name: feeds[name] for name in net.input_names}).values()]


def agree(nodes, feeds, constants=(), ways=WAYS, tolerance=0.0, literal=False, **more):
    """Compare shapes, types and numbers of all results with ONNX Runtime's."""
    for way in ways:
        proto = proto_of(nodes, feeds, constants, way=way, **more)
        wanted = reference(proto, {} if way == "folded" else feeds, literal)
        results = run(proto, {} if way == "folded" else feeds)
        for name, result, want in zip([one.name for one in proto.graph.output], results, wanted, strict=True):
            want = np.asarray(want)
            assert (name, result.shape, result.dtype) == (name, want.shape, want.dtype), way
            np.testing.assert_allclose(result, want, rtol=tolerance, atol=tolerance, err_msg=f"{name}, {way}")
