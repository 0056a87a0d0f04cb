"""A partition is compiled with the tensors that its ports name."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import engine, graph, logical_tensor, op, partition, stream, tensor

X, SQUARE, SUM = (logical_tensor(tid, logical_tensor.f32, [2, 3], logical_tensor.strided) for tid in (7, 8, 9))


@pytest.mark.parametrize("runtime", ["omp", "sycl"])
def test_a_tensor_that_several_ops_read_is_one_port(runtime):
    """x * x + x: the library lists x three times, and compiling refused a tensor named twice."""
    try:
        e = engine(engine.cpu, runtime=runtime)
    except dgo.RuntimeUnavailableError as error:
        pytest.skip(f"needs the extra 'sycl': {error}")
    g = graph(engine.cpu, runtime=runtime)
    g.add_op(op(0, op.Multiply, [X, X], [SQUARE]))
    g.add_op(op(1, op.Add, [SQUARE, X], [SUM]))
    g.finalize()
    (fused,) = g.get_partitions()
    assert fused.get_input_ports() == [X] and fused.get_output_ports() == [SUM]
    for p in (fused, partition(op(0, op.Multiply, [X, X], [SQUARE]), engine.cpu, runtime=runtime)):
        compiled = p.compile(p.get_input_ports(), p.get_output_ports(), e)
        x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
        result = np.full((2, 3), np.nan, np.float32)
        (written,) = p.get_output_ports()
        compiled.execute(stream(e), [tensor(X, e, x)], [tensor(written, e, result)])
        np.testing.assert_array_equal(result, x * x + x if written == SUM else x * x)
