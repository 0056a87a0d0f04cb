"""One ladder: what `route` says of a kind and of a node, what `supported` and `status` print, and what compile does."""

from math import prod
from random import Random
from types import SimpleNamespace

import pytest
from shapes.generate import GENERATORS

import dnnl_graph_ops as dgo
from dnnl_graph_ops import schema
from dnnl_graph_ops.compile import status
from dnnl_graph_ops.lowering import chain
from dnnl_graph_ops.lowering.env import Env
from dnnl_graph_ops.lowering.equal import EQUAL
from dnnl_graph_ops.lowering.family import MEMBERS
from dnnl_graph_ops.lowering.host_ops import HOST
from dnnl_graph_ops.lowering.norms import OWN_NORMS
from dnnl_graph_ops.lowering.own import OWN
from dnnl_graph_ops.lowering.program import NativeStep
from dnnl_graph_ops.lowering.routes import How, Target, route, route_of
from dnnl_graph_ops.runtime.engines import Engine

CASES = 4
MOST_ELEMENTS = 50_000
FLOATS = ("f32", "bf16", "f16")
# End gives nothing that could be compiled, Wildcard's builder takes the shapes of its results
KINDS = sorted(set(schema.OPS) - {"End", "Wildcard"})
ELSEWHERE = {"own kernel": How.BY_OWN_CODE, "NumPy": How.ON_HOST}


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
    """The way that the only op of a net has taken."""
    built = net.latest().built
    ((_, decision),) = built.decisions
    kinds = {op.kind for step in built.program.steps if isinstance(step, NativeStep) for op in step.ops}
    native = How.NATIVELY if kind in kinds or kind in MEMBERS else How.AS_ANOTHER
    elsewhere = {} if decision.formulation == "own kernel" and kind not in OWN else ELSEWHERE
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
            way = route_of(node, Env(dgo.engine("cpu"), 1))
            assert way.how is How.NOWHERE
            assert str(error).endswith(way.reason)
            continue
        if any(0 in value.shape for value in outputs):
            continue
        compiled += 1
        if chain.takes([node], net.env()):
            # own code is faster than every step of the ladder
            ((_, decision),) = net.latest().built.decisions
            assert decision.formulation == "own chain"
            continue
        if kind == "Concat":
            # its operands are written where they belong
            continue
        taken, compute = way_of(net, kind)
        # own code may take what the library has a kernel for, where data lies badly for that
        assert route_of(node, net.env()).how is taken or (taken is How.BY_OWN_CODE and kind in OWN_NORMS)
        assert answer or node.inputs[0].dtype != dtype
        if taken is How.NATIVELY and kind not in MEMBERS and node.inputs[0].dtype == dtype:
            assert answer.how == ("natively" if compute == outputs[-1].dtype else "in f32")
        if node.inputs[0].dtype == dtype and answer.how == "on the host":
            assert taken is not How.NATIVELY
    # no case is too large, or of no such dtype, for all kinds
    assert compiled or kind != "Add"


def engine_like(kind, version, **more):
    """An engine of a device and a library that are not here."""
    real = dgo.engine("cpu")
    library = SimpleNamespace(effective_cpu_isa=lambda: 0x1FEF)
    runtime = SimpleNamespace(name="other", version="other", version_info=version, library=library)
    found = object.__new__(Engine)
    vars(found).update(kind=kind, index=0, memory=None, runtime=runtime, native=real.native, **more)
    return found


@pytest.mark.sweep(1)
@pytest.mark.parametrize("version", [(3, 2), (3, 5), (3, 8), (3, 13)])
@pytest.mark.parametrize("kind", schema.OPS)
def test_the_answers_print_the_ladder(kind, version):
    way = route(kind, Target(version))
    name, reason = status.how(kind, version)
    expected = {
        How.NATIVELY: "library",
        How.AS_ANOTHER: "equal op",
        How.BY_OWN_CODE: "own kernel",
        How.ON_HOST: "NumPy",
        How.NOWHERE: "not supported",
    }[way.how]
    own = kind in MEMBERS or (kind in OWN and OWN[kind].preferred)
    special = "nothing to do" if kind == "End" else "library or own kernels" if own else expected
    assert name == special
    assert bool(reason) == (name not in ("library", "library or own kernels", "nothing to do"))
    answer = dgo.supported(kind, dtype="f32", engine=engine_like("cpu", version))
    # TypeCast takes no f32 to f32, so that it never is of ordinary data alone
    if "f32" in (schema.OPS[kind].inputs[0].dtypes or ("f32",)) and not schema.OPS[kind].past:
        way = route(kind, Target(version, prefers_own=True))
        assert answer.how == {How.NATIVELY: "natively", How.NOWHERE: ""}.get(way.how, "on the host")


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
    way = route(kind, target, [dtype], outputs)
    assert way.how is How.BY_OWN_CODE
    assert way.reason == f"the library has no {dtype} kernels for avx2"
    assert route(kind, Target((3, 2)), [dtype], outputs).how is How.NATIVELY


def test_the_table_of_ops_knows_the_ways_that_are_open_to_some_uses_only():
    partly = {kind: set(op.partly) for kind, op in schema.OPS.items() if op.partly}
    assert {kind for kind, words in partly.items() if "equal" in words} == {"Pow"}
    assert {word for words in partly.values() for word in words} == {"equal"}
    assert all(kind in EQUAL for kind, words in partly.items() if "equal" in words)


def test_no_op_has_two_ways_but_numpy_as_the_last():
    assert not OWN.keys() & EQUAL.keys()
    assert not (OWN.keys() | EQUAL.keys() | HOST.keys()) - schema.OPS.keys()
    only = {kind for kind, own in OWN.items() if not own.preferred and kind not in OWN_NORMS}
    assert not only & HOST.keys()
