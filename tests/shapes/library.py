"""The library's own answer: one op compiled alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, dtypes, schema, shapes
from dnnl_graph_ops.shapes import Meta


@pytest.fixture(scope="module", params=["omp", "sycl"])
def engine(request):
    """The CPU engine of every runtime that is installed."""
    try:
        return dgo.engine("cpu", runtime=request.param)
    except dgo.RuntimeUnavailableError as error:
        pytest.skip(str(error))


def compile_alone(
    engine: dgo.Engine,
    kind: str,
    inputs: Sequence[Meta],
    outputs: Sequence[Meta],
    attrs: Mapping[str, Any],
    *,
    known: bool,
) -> list[tuple[int, ...]]:
    """The shapes of the outputs as the library has them; without `known` it infers them itself."""
    library = engine.runtime._library
    op = _core.Op(library, 1, schema.OPS[kind].value, kind)
    sources = [_core.LogicalTensor(i, dtypes.CODES[m.dtype], list(m.shape)) for i, m in enumerate(inputs)]
    results = [
        _core.LogicalTensor(100 + i, dtypes.CODES[m.dtype], list(m.shape) if known else None)
        for i, m in enumerate(outputs)
    ]
    for tensor in sources:
        op.add_input(tensor)
    for tensor in results:
        op.add_output(tensor)
    for name, value in shapes.native_attrs(kind, attrs, inputs, outputs, library.version).items():
        attr = schema.OPS[kind].attrs[name]
        op.set_attr(attr.code, attr.type, value)
    partition = _core.Partition.create_with_op(op, _core.EngineKind.cpu)
    if not partition.is_supported:
        raise dgo.UnsupportedError(f"{kind}: the library reports no kernel")
    compiled = partition.compile(sources, results, engine._native)
    return [tuple(compiled.query(tensor.id).dims) for tensor in results]
