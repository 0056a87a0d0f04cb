"""Gradients of pooling, resampling and softmax, and batch norms, by own code: against NumPy, in any layout."""

from random import Random

import numpy as np
import pytest
from reference.data import integers, strided, unwritten
from reference.ops import Slot, evaluate
from shapes.generate import GENERATORS

from dnnl_graph_ops.backends import builtin, composed, norm
from lowering.test_routes import values_of

pytestmark = pytest.mark.isa
FLOATS = ("f32", "bf16", "f16")
KINDS = ["AvgPoolBackward", "InterpolateBackward", "MaxPoolBackward", *norm.SOFTMAX_GRADIENTS, *composed.BUILDERS]


def operands(rng, values):
    """Small numbers in any layout, but variances from 1 on."""
    for position, value in enumerate(values):
        array = integers(rng, value.shape, value.dtype)
        if value.node is None and value.name in ("variance", f"x{position}") and len(value.shape) == 1:
            array = (np.abs(array.astype(np.float32)) + 1).astype(array.dtype)
        yield strided(array, rng.permutation(array.ndim), int(rng.integers(3)))


def truth(kind, arrays, attrs, slots):
    """By NumPy; a gradient's windows were counted rounding down or up."""
    try:
        return evaluate(kind, arrays, attrs, slots)
    except ValueError:
        return evaluate(kind, arrays, {**attrs, "rounding_type": "ceil"}, slots)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_against_numpy(kind, dtype, rng, seed, monkeypatch):
    monkeypatch.setattr(builtin, "goes_before", lambda node, env: "it is asked for" if builtin.serves(node) else None)
    ran = 0
    for number in range(40):
        case = GENERATORS[kind](Random(f"{seed} {kind} composed {number}"))
        print(f"reproduce: --seed {seed}, case {number}\n{case}")
        results = values_of(kind, case, dtype)
        if not results or any(0 in value.shape for value in results):
            continue
        node = results[0].node
        net = results[0].graph.compile({f"y{i}": value for i, value in enumerate(results)})
        if not builtin.serves(node):
            continue
        ran += 1
        arrays = list(operands(rng, node.inputs))
        out = {}
        for i, value in enumerate(results):
            blank = unwritten(value.shape, value.dtype)
            out[f"y{i}"] = strided(blank, rng.permutation(blank.ndim), int(rng.integers(3)))
        net.run({value.name: array for value, array in zip(node.inputs, arrays, strict=True)}, out)
        assert {decision.formulation for _, decision in net._latest().built.decisions} == {"own kernel"}
        slots = [Slot(value.dtype, value.shape) for value in results]
        unit = {"f32": 2.0**-20, "bf16": 2.0**-7, "f16": 2.0**-9}[dtype]
        for found, expected in zip(out.values(), truth(kind, arrays, node.attrs, slots), strict=True):
            wide = expected.astype(np.float64)
            limit = unit * max(np.abs(wide).max(initial=0), 1)
            np.testing.assert_allclose(found.astype(np.float64), wide, rtol=0, atol=limit)
    # vectors of batch norms are never f16
    assert ran > 5 or (dtype == "f16" and kind.startswith("BatchNorm"))
