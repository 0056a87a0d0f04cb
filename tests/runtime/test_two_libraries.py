"""The bundled library and the SYCL one in one process: nothing mixes."""

import numpy as np
import pytest
from concurrently import in_threads

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core
from dnnl_graph_ops._core import DataType, EngineKind, LogicalTensor

from .processes import run, sycl

__all__ = ["sycl"]

CALLS, THREADS = 1000, 4
DOUBLE = {"strides": 2, "pads_begin": 1, "pads_end": 1}


def net(engine, tune):
    rng = np.random.default_rng(5)
    graph = dgo.Graph(engine)
    weights = rng.integers(-3, 4, (4, 4, 8, 6)).astype(np.float32)
    made = dgo.ops.conv_transpose(graph.input("x", (1, 5, 4, 6)), weights, **DOUBLE)
    return graph.compile(dgo.ops.relu(made), tune=tune)


@pytest.mark.parametrize("tune", ["off", "heuristic"])
def test_alternating_calls_are_exact(sycl, tune, seed):
    nets = [net(dgo.engine("cpu", runtime=name), tune) for name in ("omp", "sycl")]
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-4, 5, (1, 5, 4, 6)).astype(np.float32) for _ in range(THREADS)]
    expected = [nets[0](x) for x in inputs]
    wrong, done = [], []

    def call(k):
        for i in range(CALLS // THREADS):
            if not np.array_equal(nets[(i + k) % 2](inputs[k]), expected[k]):
                wrong.append((k, i))
            done.append(k)

    in_threads(THREADS, call)
    assert len(done) == CALLS and not wrong


@pytest.mark.parametrize("name", ["omp", "sycl"])
def test_explain_names_the_runtime(sycl, name):
    engine = dgo.engine("cpu", runtime=name)
    explained = net(engine, "off").explain()
    assert explained.to_dict()["runtime"] == f"oneDNN {engine.runtime.version} ({name})"
    assert f"({name})" in str(explained).splitlines()[0]


def relu(library):
    x, y = (LogicalTensor(i, DataType.f32, (4,)) for i in range(2))
    op = _core.Op(library, 9, _core.OpKind.relu, "relu")
    op.add_input(x)
    op.add_output(y)
    return _core.Partition.create_with_op(op, EngineKind.cpu), x, y, op


def test_what_belongs_to_one_is_refused_by_the_other(sycl):
    omp = dgo.engine("cpu", runtime="omp")._native
    part, x, y, op = relu(omp.library)
    compiled = part.compile([x], [y], omp)
    data = np.ones(4, np.float32)
    mixed = {
        "the partition belongs to .*the engine to": lambda: part.compile([x], [y], sycl._native),
        "the stream is on another engine": lambda: compiled.execute(
            _core.Stream(sycl._native), [_core.Tensor(x, omp, data)], [_core.Tensor(y, omp, data.copy())]
        ),
        "input 0 is on another engine": lambda: compiled.execute(
            _core.Stream(omp), [_core.Tensor(x, sycl._native, data)], [_core.Tensor(y, omp, data.copy())]
        ),
        "compiled for another engine": lambda: _core.Executor(sycl._native).add_partition(compiled, [], []),
        "belongs to": lambda: _core.Graph(sycl._native.library, EngineKind.cpu).add_op(op),
    }
    for why, call in mixed.items():
        with pytest.raises(dgo.InvalidArgumentError, match=rf"(?s){why}"):
            call()


@pytest.mark.child
def test_the_command_line_lists_both(sycl):
    code = """
import contextlib, io
from dnnl_graph_ops.__main__ import main
with contextlib.redirect_stdout(io.StringIO()) as out:
    main(["info", "--json"])
found = json.loads(out.getvalue())
print(json.dumps([[r["name"] for r in found["runtimes"]], found["engines"]]))
"""
    names, engines = run(code)
    assert {"omp", "sycl"} <= set(names)
    assert {f"Engine('cpu', 0, runtime='{name}')" for name in ("omp", "sycl")} <= set(engines)
