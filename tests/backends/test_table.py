"""One table of backends: who runs a kind and a node, what `supported` and `status` print, and what compile does."""

from math import prod
from random import Random
from types import SimpleNamespace

import pytest
from shapes.generate import GENERATORS

import dnnl_graph_ops as dgo
from dnnl_graph_ops import schema
from dnnl_graph_ops.backends import onednn
from dnnl_graph_ops.backends.backend import Kind, Target, group_of
from dnnl_graph_ops.backends.builtin import BUILTIN, KERNELS
from dnnl_graph_ops.backends.convolution import CONVOLUTION
from dnnl_graph_ops.backends.equal import EQUAL, EQUAL_OP
from dnnl_graph_ops.backends.host_ops import HOST
from dnnl_graph_ops.backends.norm import NORM, OWN_NORMS
from dnnl_graph_ops.backends.numpy_fallback import NUMPY
from dnnl_graph_ops.backends.onednn import ONEDNN
from dnnl_graph_ops.backends.table import NOWHERE, who_runs
from dnnl_graph_ops.convolution.nodes import CONV_KINDS
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program import elementwise
from dnnl_graph_ops.program.program import NativeStep
from dnnl_graph_ops.reports import supported
from dnnl_graph_ops.runtime.engines import Engine

CASES = 4
MOST_ELEMENTS = 50_000
FLOATS = ("f32", "bf16", "f16")
# End gives nothing that could be compiled, Wildcard's builder takes the shapes of its results
KINDS = sorted(set(schema.OPS) - {"End", "Wildcard"})
ELSEWHERE = {"builtin kernel": BUILTIN, "NumPy": NUMPY}


def values_of(kind, case, dtype):
    """The results of one op with f32 replaced by `dtype`; none where the op does not take that."""
    graph = dgo.Graph()
    metas = [meta._replace(dtype=dtype) if meta.dtype == "f32" else meta for meta in case.metas]
    inputs = [graph.input(f"x{i}", meta.shape, meta.dtype) for i, meta in enumerate(metas)]
    more = {"dtype": case.dtype, "outputs": case.outputs}
    given = case.attrs | {name: value for name, value in more.items() if value is not None}
    try:
        made = getattr(dgo.ops, schema.OPS[kind].builder)(*inputs, **given)
    except dgo.InvalidArgumentError:
        return []
    return list(made) if isinstance(made, tuple) else [made]


def way_of(net, kind):
    """The backend of the only op of a net, by its steps."""
    built = net._latest().lowering
    ((_, decision),) = built.decisions
    kinds = {op.kind for step in built.program.steps if isinstance(step, NativeStep) for op in step.ops}
    native = CONVOLUTION if kind in CONV_KINDS else ONEDNN if kind in kinds else EQUAL_OP
    elsewhere = {} if decision.formulation == "builtin kernel" and kind not in KERNELS else ELSEWHERE
    return elsewhere.get(decision.formulation, native), decision.compute


@pytest.mark.sweep(1)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_ladder_is_what_compile_climbs(kind, dtype, seed):
    answer = dgo.supported(kind, dtype=dtype)
    compiled = 0
    for number in range(CASES):
        case = GENERATORS[kind](Random(f"{seed} {kind} routes {number}"))
        print(f"reproduce: --seed {seed}, case {number}\n{case}")
        outputs = values_of(kind, case, dtype)
        if not outputs or sum(prod(meta.shape) for meta in case.metas) > MOST_ELEMENTS:
            continue
        node, graph = outputs[0].node, outputs[0].graph
        try:
            net = graph.compile({f"y{i}": value for i, value in enumerate(outputs)})
        except dgo.UnsupportedError as error:
            env = Env(dgo.engine("cpu"), 1)
            assert group_of([node], env).backend is NOWHERE
            assert str(error).endswith(onednn.why_not(node, env))
            continue
        if any(0 in value.shape for value in outputs):
            continue
        compiled += 1
        if elementwise.takes([node], net._env()):
            # builtin code is faster than every step of the ladder
            ((_, decision),) = net._latest().lowering.decisions
            assert decision.formulation == "builtin element-wise"
            continue
        if kind == "Concat":
            # its operands are written where they belong
            continue
        taken, compute = way_of(net, kind)
        # kernels of the package may take what the library has one for, where data lies badly for that
        backend = group_of([node], net._env()).backend
        assert backend is taken or (taken is BUILTIN and (kind in OWN_NORMS or backend is NORM))
        assert answer or node.inputs[0].dtype != dtype
        if taken is ONEDNN and node.inputs[0].dtype == dtype:
            assert answer.how == ("natively" if compute == outputs[-1].dtype else "in f32")
        if node.inputs[0].dtype == dtype and answer.how == "on the host":
            assert taken not in (ONEDNN, CONVOLUTION)
    # no case is too large, or of no such dtype, for all kinds
    assert compiled or kind != "Add"


def engine_like(kind, version, **more):
    """An engine of a device and a library that are not here."""
    real = dgo.engine("cpu")
    library = SimpleNamespace(effective_cpu_isa=lambda: 0x1FEF)
    runtime = SimpleNamespace(name="other", version="other", version_info=version, _library=library)
    found = object.__new__(Engine)
    vars(found).update(kind=kind, index=0, memory=None, runtime=runtime, _native=real._native, **more)
    return found


@pytest.mark.sweep(1)
@pytest.mark.parametrize("version", [(3, 2), (3, 5), (3, 8), (3, 13)])
@pytest.mark.parametrize("kind", schema.OPS)
def test_the_answers_print_the_ladder(kind, version):
    backend, _ = who_runs(Kind(kind), Target(version))
    name, reason = supported.how(kind, version)
    own = kind in CONV_KINDS or (kind in KERNELS and KERNELS[kind].preferred)
    assert name == ("nothing to do" if kind == "End" else "library or builtin kernels" if own else backend.title)
    assert bool(reason) == (name not in ("library", "library or builtin kernels", "nothing to do"))
    answer = dgo.supported(kind, dtype="f32", engine=engine_like("cpu", version))
    # TypeCast takes no f32 to f32, so that it never is of ordinary data alone
    if "f32" in (schema.OPS[kind].inputs[0].dtypes or ("f32",)) and not schema.OPS[kind].past:
        backend, _ = who_runs(Kind(kind), Target(version, prefers_builtin=True))
        ways = {CONVOLUTION: "natively", ONEDNN: "natively", NOWHERE: ""}
        assert answer.how == ways.get(backend, "on the host")


@pytest.mark.parametrize("kind", ["Reciprocal", "StaticReshape", "Pow", "Dropout"])
def test_a_gpu_takes_the_same_ways(kind, monkeypatch):
    """The builder asks the tables of the CPU for every engine; host steps run beside a device as well."""
    monkeypatch.setattr("dnnl_graph_ops.runtime.cpu.has_kernels", lambda engine, dtype: True)
    on_gpu, on_cpu = (dgo.supported(kind, engine=engine_like(name, (3, 2))) for name in ("gpu", "cpu"))
    assert (on_gpu.how, on_gpu.reason) == (on_cpu.how, on_cpu.reason)
    assert on_gpu.how == "on the host"


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("kind", ["Reorder", "TypeCast"])
def test_conversions_that_fall_away_are_copies(kind, dtype):
    """Where the library computes in f32, nothing is left of them for it to do."""
    target = Target((3, 2), "avx2", lambda item: "f32" if item in ("bf16", "f16") else item)
    outputs = [dtype if kind == "Reorder" else "f32"]
    backend, reason = who_runs(Kind(kind, [dtype], outputs), target)
    assert backend is BUILTIN
    assert reason == f"the library has no {dtype} kernels for avx2"
    assert who_runs(Kind(kind, [dtype], outputs), Target((3, 2)))[0] is ONEDNN


def test_the_table_of_ops_knows_the_ways_that_are_open_to_some_uses_only():
    partly = {kind: set(op.partly) for kind, op in schema.OPS.items() if op.partly}
    assert {kind for kind, words in partly.items() if "equal" in words} == {"Pow"}
    assert {word for words in partly.values() for word in words} == {"equal"}
    assert all(kind in EQUAL for kind, words in partly.items() if "equal" in words)


def test_no_op_has_two_ways_but_numpy_as_the_last():
    assert not KERNELS.keys() & EQUAL.keys()
    assert not (KERNELS.keys() | EQUAL.keys() | HOST.keys()) - schema.OPS.keys()
    only = {kind for kind, kernel in KERNELS.items() if not kernel.preferred and kind not in OWN_NORMS}
    assert not only & HOST.keys()
