"""Objects of the Graph API with the few lines around them that every test needs."""

import numpy as np
import pytest
from reference.data import unwritten

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import compiled_partition, engine, graph, logical_tensor, op, partition, stream, tensor

LT = logical_tensor
RUNTIMES = [pytest.param("omp", id="bundled"), "sycl"]


def runtime_or_skip(name):
    """The name of an installed library."""
    try:
        dgo.engine("cpu", runtime=name)
    except dgo.RuntimeUnavailableError as error:
        pytest.skip(str(error))
    return name


def cpu(runtime=None):
    return engine(engine.cpu, 0, runtime=runtime)


def strided(tid, dims, dtype=LT.f32, ptype=LT.variable):
    return LT(tid, dtype, dims, LT.strided, ptype)


def relu(oid=0, source=0, result=1, n=4, name=""):
    return op(oid, op.ReLU, [strided(source, [n])], [strided(result, [n])], name)


def partitions(*ops, policy=partition.fusion, runtime=None):
    g = graph(engine.cpu, runtime=runtime)
    for item in ops:
        g.add_op(item)
    g.finalize()
    return g.get_partitions(policy)


def single(item, runtime=None) -> partition:
    (part,) = partitions(item, runtime=runtime)
    return part


def compiled(item, runtime=None) -> compiled_partition:
    """The partition of one op, compiled for the tensors that the op names."""
    part = single(item, runtime)
    return part.compile(part.get_input_ports(), part.get_output_ports(), cpu(runtime))


def run(cp, arrays, lts, runtime=None):
    """The results of a compiled partition on arrays by tensor id, in memory that was NaN before."""
    e = cpu(runtime)
    inputs, outputs = lts
    results = [unwritten(cp.query_logical_tensor(t.get_id()).get_dims(), t.get_data_type().name) for t in outputs]
    made = [tensor(cp.query_logical_tensor(t.get_id()), e, array) for t, array in zip(outputs, results, strict=True)]
    s = stream(e)
    cp.execute(s, [tensor(t, e, arrays[t.get_id()]) for t in inputs], made)
    s.wait()
    return [np.asarray(result) for result in results]
