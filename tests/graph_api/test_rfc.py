"""The example of oneDNN's RFC 20230720-graph-python-api, as printed but for the module's name, and what it makes."""

import numpy as np
from reference.data import integers, unwritten

SNIPPET = """
from dnnl_graph_ops.graph_api import *

# init op
matmul0 = op(0, op.MatMul, "matmul0")
matmul0.set_attr(op.transpose_a, False)
matmul0.set_attr(op.transpose_b, True)

lt0 = logical_tensor(0, logical_tensor.f32, [64, 1280], logical_tensor.strided, logical_tensor.variable)
lt1 = logical_tensor(1, logical_tensor.f32, [1280, 1280], logical_tensor.strided, logical_tensor.constant)
lt2 = logical_tensor(2, logical_tensor.f32, [64, 1280], logical_tensor.strided, logical_tensor.variable)

matmul0.add_inputs([lt0, lt1])
matmul0.add_output(lt2)

# init graph
g = graph(engine.cpu)
g.add_op(matmul0, True)

# finalize graph
g.finalize()

# get partitions
p = g.get_partitions(partition.fusion)
"""


def test_the_snippet(rng):
    names = {}
    exec(SNIPPET, names)
    (part,) = names["p"]
    assert part.is_supported() and part.get_ops() == [0] and part.get_ops_num() == 1
    lt0, lt1, lt2, engine, tensor, stream = (names[n] for n in ("lt0", "lt1", "lt2", "engine", "tensor", "stream"))
    e = engine(engine.cpu, 0)
    a, b = integers(rng, (64, 1280)), integers(rng, (1280, 1280))
    out = unwritten((64, 1280))
    s = stream(e)
    part.compile([lt0, lt1], [lt2], e).execute(s, [tensor(lt0, e, a), tensor(lt1, e, b)], [tensor(lt2, e, out)])
    s.wait()
    np.testing.assert_array_equal(out, a @ b.T)


def test_everything_is_exported():
    names = {}
    exec("from dnnl_graph_ops.graph_api import *", names)
    classes = "engine stream allocator logical_tensor op graph partition compiled_partition tensor status"
    functions = """set_constant_tensor_cache get_constant_tensor_cache set_constant_tensor_cache_capacity
        get_constant_tensor_cache_capacity set_compiled_partition_cache_capacity get_compiled_partition_cache_capacity
        set_dump_mode set_max_cpu_isa get_effective_cpu_isa set_cpu_isa_hints get_cpu_isa_hints set_default_fpmath_mode
        get_default_fpmath_mode set_verbose set_jit_dump set_jit_profiling_flags set_jit_profiling_jitdumpdir"""
    assert {*classes.split(), *functions.split(), "fpmath_mode", "make_engine_with_allocator"} <= names.keys()
