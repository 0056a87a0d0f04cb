"""Nets with dims that are known at the call only, against nets built for these sizes: the same results, bit for bit."""

from math import prod
from random import Random

import numpy as np
import pytest
from reference.rounding import DTYPES
from shapes.generate import GENERATORS

import dnnl_graph_ops as dgo
from dnnl_graph_ops import schema
from dnnl_graph_ops.algorithms import table

# End gives nothing that could be compiled, Wildcard's builder takes the shapes of its results
KINDS = sorted(set(schema.OPS) - {"End", "Wildcard"})
CASES = (2, 4, 40)
MOST_ELEMENTS = 20_000


def hidden(rng, shapes):
    """Batch and sizes unknown as models have them, or any dims of any operand."""
    if rng.random() < 0.5:
        # the first operand's, and those of the same shape
        gone = {axis for axis in range(len(shapes[0]) if shapes else 0) if axis != 1 and rng.random() < 0.7}
        return [
            tuple(None if shape == shapes[0] and axis in gone else dim for axis, dim in enumerate(shape))
            for shape in shapes
        ]
    return [tuple(None if rng.random() < 0.3 else dim for dim in shape) for shape in shapes]


def net_of(kind, case, shapes):
    graph = dgo.Graph()
    inputs = [
        graph.input(f"x{i}", shape, meta.dtype) for i, (shape, meta) in enumerate(zip(shapes, case.metas, strict=True))
    ]
    more = {"dtype": case.dtype, "outputs": case.outputs}
    given = case.attrs | {name: value for name, value in more.items() if value is not None}
    made = getattr(dgo.ops, schema.OPS[kind].builder)(*inputs, **given)
    made = list(made) if isinstance(made, tuple) else [made]
    return made, graph.compile({f"y{i}": value for i, value in enumerate(made)})


def arrays_of(rng, kind, case):
    for i, meta in enumerate(case.metas):
        if kind == "Gather" and i == 1:
            size = case.metas[0].shape[case.attrs["axis"]]
            yield rng.integers(0, size, meta.shape).astype(DTYPES[meta.dtype])
        elif kind == "Dropout" and i:
            yield np.full(meta.shape, 0.25 if i == 3 else 7, DTYPES[meta.dtype])
        elif meta.dtype == "boolean":
            yield rng.random(meta.shape) < 0.5
        else:
            yield rng.integers(1, 6, meta.shape).astype(np.float32).astype(DTYPES[meta.dtype])


@pytest.mark.filterwarnings("ignore:graph JSON.*ops that oneDNN does not have")
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_is_as_that_of_a_net_for_its_sizes(kind, seed, amount, request):
    chosen = request.config.getoption("--case")
    for number in range(amount(*CASES)) if chosen is None else [chosen]:
        rng = Random(f"{seed} {kind} open {number}")
        case = GENERATORS[kind](rng)
        shapes = hidden(rng, case.shapes)
        print(f"reproduce: pytest {__file__} -k 'sizes and {kind}' --seed {seed} --case {number}\n{case}\n{shapes}")
        if sum(map(prod, case.shapes)) > MOST_ELEMENTS:
            continue
        try:
            fixed_values, fixed = net_of(kind, case, case.shapes)
        except dgo.UnsupportedError:
            continue
        values, net = net_of(kind, case, shapes)
        for known, found in zip(fixed_values, values, strict=True):
            assert len(known.shape) == len(found.shape)
            assert all(b in (a, None) for a, b in zip(known.shape, found.shape, strict=True)), (known, found)
        again = dgo.Graph.from_json(values[0].graph.to_json())
        assert [value.shape for value in again.inputs] == shapes
        assert [value.shape for value in again.outputs.values()] == [value.shape for value in values]
        arrays = list(arrays_of(np.random.default_rng(number), kind, case))
        given = {f"x{i}": array for i, array in enumerate(arrays)}
        expected, results = fixed.run(given), net.run(given)
        for name, array in expected.items():
            assert results[name].dtype == array.dtype and results[name].shape == array.shape
            assert results[name].tobytes() == array.tobytes(), name
        read = again.compile()(*arrays)
        for array, found in zip(expected.values(), read if isinstance(read, tuple) else (read,), strict=True):
            assert found.tobytes() == array.tobytes()


def test_strides_that_no_large_size_has_a_place_for(monkeypatch):
    """The weights are packed alike for all sizes, here as for the size that is called."""
    monkeypatch.setattr(table, "ALGORITHMS", tuple(f for f in table.ALGORITHMS if f.name == "builtin direct"))
    graph = dgo.Graph()
    x, w = graph.input("x", (1, None, 16)), graph.constant(np.ones((16, 16, 1), np.float32))
    y = dgo.ops.convolution(x, w, data_format="NXC", weights_format="OIX", strides=2**31 - 1)
    np.testing.assert_array_equal(graph.compile(y)(np.ones((1, 2, 16), np.float32)), np.full((1, 1, 16), 16.0))
