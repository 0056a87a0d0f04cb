"""Every shape rule against the library's own answer.

One op is compiled alone with an output of unknown rank; the library infers its shape, which is then queried.
"""

from random import Random

import pytest

from dnnl_graph_ops import dtypes, schema, shapes

from .generate import GENERATORS

_core = pytest.importorskip("dnnl_graph_ops._core")

CASES = 40
# known to differ or to be answered by no single op: each with its reason
NOT_COMPARED = {
    "ConvTransposeBackwardData": "the library ignores dilations here and refuses to compile",
}


@pytest.fixture(scope="module")
def library():
    from dnnl_graph_ops import runtime

    return runtime.default_engine().native.library


def library_shapes(library, kind, case, attrs, expected):
    op = _core.Op(library, 1, schema.OPS[kind].value, kind)
    inputs = [_core.LogicalTensor(i, dtypes.CODES[m.dtype], list(m.shape)) for i, m in enumerate(case.metas)]
    outputs = [_core.LogicalTensor(100 + i, dtypes.CODES[m.dtype]) for i, m in enumerate(expected)]
    for tensor in inputs:
        op.add_input(tensor)
    for tensor in outputs:
        op.add_output(tensor)
    version = library.version
    for name, value in schema.native_attrs(kind, attrs, version).items():
        attr = schema.OPS[kind].attrs[name]
        op.set_attr(attr.code, attr.type, value)
    graph = _core.Graph(library, _core.EngineKind.cpu)
    graph.add_op(op)
    graph.finalize()
    graph.filter(_core.PartitionPolicy.fusion)
    (partition,) = graph.partitions()
    assert partition.is_supported
    compiled = partition.compile(inputs, outputs, _core.Engine(library, _core.EngineKind.cpu, 0))
    return [tuple(compiled.query(tensor.id).dims) for tensor in outputs]


@pytest.mark.parametrize("kind", sorted(set(schema.OPS) - set(NOT_COMPARED)))
def test_same_shape(kind, library, seed, request):
    chosen = request.config.getoption("--case")
    for number in range(CASES) if chosen is None else [chosen]:
        rng = Random(f"{seed} {kind} {number}")
        case = GENERATORS[kind](rng)
        print(f"reproduce: pytest {__file__} -k '{kind}]' --seed {seed} --case {number}\n{case}")
        rank = len(case.shapes[0]) if case.shapes else 0
        attrs = schema.normalise_attrs(kind, case.attrs, kind, ranks=schema.attr_lengths(kind, rank))
        expected = shapes.infer(kind, case.metas, attrs, kind, dtype=case.dtype, outputs=case.outputs)
        reason = schema.availability(
            kind,
            [meta.dtype for meta in case.metas],
            library.version,
            attrs,
            outputs=[m.dtype for m in expected],
        )
        if reason:
            pytest.skip(reason)
        assert library_shapes(library, kind, case, attrs, expected) == [meta.shape for meta in expected]
