"""Settings of the library, in processes of their own where they change more than one call."""

import json

import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops import graph_api
from dnnl_graph_ops.graph_api import (
    cpu_isa,
    cpu_isa_hints,
    dump_mode,
    engine,
    fpmath_mode,
    get_compiled_partition_cache_capacity,
    get_cpu_isa_hints,
    get_default_fpmath_mode,
    get_effective_cpu_isa,
    op,
    set_compiled_partition_cache_capacity,
    set_constant_tensor_cache_capacity,
    set_cpu_isa_hints,
    set_default_fpmath_mode,
    set_dump_mode,
    set_jit_dump,
    set_jit_profiling_flags,
    set_jit_profiling_jitdumpdir,
    set_max_cpu_isa,
    set_verbose,
)

from .common import RUNTIMES, runtime_or_skip

BEGIN = """
import json, numpy as np
from dnnl_graph_ops.graph_api import *
L = logical_tensor
x, y = (L(i, L.f32, [4], L.strided) for i in range(2))
def run():
    e = engine(engine.cpu)
    cp = partition(op(0, op.Tanh, [x], [y]), engine.cpu).compile([x], [y], e)
    cp.execute(stream(e), [tensor(x, e, np.zeros(4, np.float32))], [tensor(y, e)])
"""


def printed(code, **more):
    done = child("-c", BEGIN + code, **more)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_is_told(runtime):
    runtime_or_skip(runtime)
    assert get_compiled_partition_cache_capacity(runtime) == 0
    assert get_default_fpmath_mode(runtime) is fpmath_mode.strict
    assert isinstance(get_effective_cpu_isa(runtime), int)
    assert get_cpu_isa_hints(runtime) is cpu_isa_hints.no_hints


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_capacity(runtime):
    runtime_or_skip(runtime)
    try:
        set_compiled_partition_cache_capacity(7, runtime)
        assert get_compiled_partition_cache_capacity(runtime) == 7
    finally:
        set_compiled_partition_cache_capacity(0, runtime)
    for capacity in (-1, 2**31, 2**64):
        with pytest.raises(dgo.InvalidArgumentError, match="capacity"):
            set_compiled_partition_cache_capacity(capacity, runtime)
    for capacity in ("1", 1.0, True, None, engine.cpu):
        with pytest.raises(TypeError):
            set_compiled_partition_cache_capacity(capacity, runtime)


def test_fpmath_mode():
    try:
        set_default_fpmath_mode(fpmath_mode.bf16)
        assert get_default_fpmath_mode() is fpmath_mode.bf16
    finally:
        set_default_fpmath_mode(fpmath_mode.strict)


WRONG = [
    (set_default_fpmath_mode, "bf16", TypeError),
    (set_default_fpmath_mode, 77, dgo.InvalidArgumentError),
    (set_dump_mode, "graph", TypeError),
    (set_dump_mode, 4, dgo.InvalidArgumentError),
    (set_dump_mode, op.Add, TypeError),
    (set_max_cpu_isa, "avx2", TypeError),
    (set_max_cpu_isa, 5, dgo.InvalidArgumentError),
    (set_cpu_isa_hints, True, TypeError),
    (set_cpu_isa_hints, 9, dgo.InvalidArgumentError),
    (set_verbose, 3, dgo.InvalidArgumentError),
    (set_verbose, -1, dgo.InvalidArgumentError),
    (set_verbose, "all", TypeError),
    (set_verbose, True, TypeError),
    (set_jit_dump, 2, TypeError),
    (set_jit_dump, "yes", TypeError),
    (set_jit_profiling_flags, 16, dgo.InvalidArgumentError),
    (set_jit_profiling_flags, "perf", TypeError),
    (set_jit_profiling_jitdumpdir, 5, TypeError),
    (set_jit_profiling_jitdumpdir, "/nowhere/at/all", dgo.InvalidArgumentError),
]


@pytest.mark.parametrize(("function", "value", "error"), WRONG, ids=[f"{f.__name__}-{v}" for f, v, _ in WRONG])
def test_refused(function, value, error):
    with pytest.raises(error, match=function.__name__):
        function(value)


def test_capacity_by_kind():
    for kind in ("cpu", True, op.Add):
        with pytest.raises(TypeError):
            set_constant_tensor_cache_capacity(kind, 5)


def test_dumps_of_an_older_library():
    with pytest.raises(dgo.UnsupportedError, match=r"3\.11"):
        set_dump_mode(dump_mode.graph)


@pytest.mark.child
def test_dumps(tmp_path):
    runtime_or_skip("sycl")
    code = """
set_dump_mode(dump_mode.graph | dump_mode.subgraph, "sycl")
g = graph(engine.cpu, runtime="sycl")
g.add_op(op(5, op.Tanh, [x], [y]))
g.finalize()
p, = g.get_partitions()
p.compile([x], [y], engine(engine.cpu, runtime="sycl"))
"""
    printed(code, cwd=tmp_path)
    files = sorted(tmp_path.glob("graph-*.json"))
    assert len(files) >= 2
    for path in files:
        g = graph_api.graph.from_json(path, runtime="sycl")
        assert [item["id"] for item in json.loads(g.to_json())["graph"]] == [5]


@pytest.mark.child
def test_verbose():
    assert "onednn_verbose" not in printed("run()")
    out = printed("set_verbose(2); run(); set_verbose(0)")
    assert "eltwise_tanh" in out and "create" in out and "exec" in out


@pytest.mark.child
def test_max_cpu_isa_before_and_after_the_first_compile():
    code = """
set_max_cpu_isa(cpu_isa.sse41)
first = get_effective_cpu_isa()
run()
try:
    set_max_cpu_isa(cpu_isa.avx2)
except Exception as error:
    print(json.dumps([first.name, type(error).__name__, str(error)]))
"""
    isa, kind, message = json.loads(printed(code).splitlines()[-1])
    assert isa == "sse41" and kind == "InvalidArgumentError" and "before anything is compiled" in message


@pytest.mark.child
def test_jit_dump(tmp_path):
    printed("set_jit_dump(True); run()", cwd=tmp_path)
    assert list(tmp_path.glob("dnnl_dump_*.bin"))


@pytest.mark.child
def test_jit_profiling(tmp_path):
    printed(f"set_jit_profiling_jitdumpdir({str(tmp_path)!r}); set_jit_profiling_flags(4); run()")
    assert list(tmp_path.glob("**/*.dump"))


def test_isa_names():
    assert cpu_isa.avx2 in cpu_isa and {isa.name for isa in cpu_isa} >= {"sse41", "avx2", "avx512_core"}
