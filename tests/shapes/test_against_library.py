"""Every shape rule against the library's own answer.

One op is compiled alone with an output of unknown rank; the library infers its shape, which is then queried.
"""

from random import Random

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, dtypes, schema, shapes

from .generate import GENERATORS

CASES, ALL_CASES = 12, 100
# what the library infers wrongly or refuses, though it has a kernel for the op
REFUSED = {
    "ConvTransposeBackwardData": lambda attrs: (
        set(attrs["dilations"]) != {1} or attrs["auto_pad"].startswith("SAME")
    ),
    "ConvTransposeBackwardWeights": lambda attrs: attrs["auto_pad"].startswith("SAME"),
}


@pytest.fixture(scope="module", params=["omp", "sycl"])
def engine(request):
    try:
        return dgo.engine("cpu", runtime=request.param)
    except dgo.RuntimeUnavailableError as error:
        pytest.skip(str(error))


def library_shapes(engine, kind, case, attrs, expected):
    library = engine.runtime.library
    op = _core.Op(library, 1, schema.OPS[kind].value, kind)
    inputs = [_core.LogicalTensor(i, dtypes.CODES[m.dtype], list(m.shape)) for i, m in enumerate(case.metas)]
    outputs = [_core.LogicalTensor(100 + i, dtypes.CODES[m.dtype]) for i, m in enumerate(expected)]
    for tensor in inputs:
        op.add_input(tensor)
    for tensor in outputs:
        op.add_output(tensor)
    for name, value in shapes.native_attrs(kind, attrs, case.metas, expected, library.version).items():
        attr = schema.OPS[kind].attrs[name]
        op.set_attr(attr.code, attr.type, value)
    partition = _core.Partition.create_with_op(op, _core.EngineKind.cpu)
    assert partition.is_supported
    compiled = partition.compile(inputs, outputs, engine.native)
    return [tuple(compiled.query(tensor.id).dims) for tensor in outputs]


@pytest.mark.parametrize("kind", sorted(schema.OPS))
def test_same_shape(kind, engine, seed, run_all, request):
    chosen = request.config.getoption("--case")
    compared, reason = 0, "no case"
    for number in range(ALL_CASES if run_all else CASES) if chosen is None else [chosen]:
        case = GENERATORS[kind](Random(f"{seed} {kind} {number}"))
        print(f"reproduce: pytest {__file__} -k 'same and {kind}' --seed {seed} --case {number}\n{case}")
        rank = len(case.shapes[0]) if case.shapes else 0
        attrs = schema.normalise_attrs(kind, case.attrs, kind, ranks=schema.attr_lengths(kind, rank))
        expected = shapes.infer(kind, case.metas, attrs, kind, dtype=case.dtype, outputs=case.outputs)
        why = shapes.unsupported(kind, case.metas, expected, attrs, engine.runtime.library.version)
        if why or (kind in REFUSED and REFUSED[kind](attrs)):
            reason = why or reason
            continue
        compared += 1
        assert library_shapes(engine, kind, case, attrs, expected) == [meta.shape for meta in expected]
    if not compared:
        pytest.skip(reason)
