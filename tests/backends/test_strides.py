"""Every op kind on operands and results that do not lie densely in memory, against dense ones.

One case again: pytest tests/backends/test_strides.py -k KIND --seed=SEED --case=NUMBER
"""

from random import Random

import numpy as np
import pytest
from reference.data import with_strides
from shapes.generate import GENERATORS

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, schema

CASES = 6
MOST_ELEMENTS = 50_000
# inputs that NumPy holds in another form than the library, and ops that give nothing or depend on a seed
PLAIN = {"f32", "bf16", "f16", "s8", "u8", "s32", "boolean"}
KINDS = sorted(set(schema.OPS) - {"Dropout", "End", "Wildcard"})


def dense(shape, order):
    strides, step = [0] * len(shape), 1
    for axis in order:
        strides[axis] = step
        step *= shape[axis]
    return strides


def every_other(shape):
    return [2 * stride for stride in dense(shape, range(len(shape))[::-1])]


def padded_rows(shape):
    return dense((*shape[:-1], *(n + 3 for n in shape[-1:])), range(len(shape))[::-1])


def first_axis_fastest(shape):
    return dense(shape, range(len(shape)))


LAYOUTS = (every_other, padded_rows, first_axis_fastest)


def built(case):
    graph = dgo.Graph()
    inputs = [graph.input(f"x{i}", meta.shape, meta.dtype) for i, meta in enumerate(case.metas)]
    more = {"dtype": case.dtype, "outputs": case.outputs}
    return graph, inputs, case.attrs | {name: value for name, value in more.items() if value is not None}


@pytest.mark.parametrize("kind", KINDS)
def test_as_dense(kind, seed, full, request):
    chosen = request.config.getoption("--case")
    compared = 0
    for number in range(CASES) if chosen is None else [chosen]:
        rng = Random(f"{seed} {kind} strides {number}")
        case = GENERATORS[kind](rng)
        sizes = [int(np.prod(meta.shape)) for meta in case.metas]
        if not {meta.dtype for meta in case.metas} <= PLAIN or sum(sizes) > MOST_ELEMENTS:
            continue
        print(f"reproduce: pytest {__file__} -k {kind} --seed {seed} --case {number}\n{case}")
        graph, inputs, attrs = built(case)
        made = getattr(dgo.ops, schema.OPS[kind].builder)(*inputs, **attrs)
        outputs = made if isinstance(made, tuple) else (made,)
        try:
            net = graph.compile({f"y{i}": value for i, value in enumerate(outputs)})
        except dgo.UnsupportedError:
            continue
        draw = np.random.default_rng(rng.randrange(2**32))
        arrays = [(draw.random(m.shape) * 3 + 0.5).astype(dtypes.numpy_dtype(m.dtype)) for m in case.metas]
        names = [f"x{i}" for i in range(len(arrays))]
        expected = net.run(dict(zip(names, arrays, strict=True)))
        operands = [*names, *expected]
        # all at once, then one alone
        for loose in [operands] + [[name] for name in (operands if full else rng.sample(operands, 1))]:
            layout = rng.choice(LAYOUTS)
            print(f"{layout.__name__} for {loose}")
            given = {
                n: with_strides(a, layout(a.shape)) if n in loose else a for n, a in zip(names, arrays, strict=True)
            }
            out = {n: with_strides(np.zeros_like(a), layout(a.shape)) for n, a in expected.items() if n in loose}
            found = net.run(given, out=out)
            for name, want in expected.items():
                limit = 1e-5 if want.dtype == np.float32 else 1e-2
                wide = [array.astype(np.float64) for array in (found[name], want)]
                np.testing.assert_allclose(*wide, rtol=limit, atol=limit, err_msg=name)
            compared += 1
    assert compared or chosen is not None
