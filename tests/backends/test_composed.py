"""Gradients of pooling, resampling and softmax, and batch norms, by builtin code: against NumPy, in any layout."""

from random import Random

import numpy as np
import pytest
from children import child
from reference.data import integers, strided, unwritten
from reference.ops import Slot, evaluate
from shapes.generate import GENERATORS

import dnnl_graph_ops as dgo
from backends.test_table import values_of
from dnnl_graph_ops.backends import builtin, composed, gradients, norm

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
        assert {decision.formulation for _, decision in net._latest().lowering.decisions} == {"builtin kernel"}
        slots = [Slot(value.dtype, value.shape) for value in results]
        unit = {"f32": 2.0**-20, "bf16": 2.0**-7, "f16": 2.0**-9}[dtype]
        for found, expected in zip(out.values(), truth(kind, arrays, node.attrs, slots), strict=True):
            wide = expected.astype(np.float64)
            limit = unit * max(np.abs(wide).max(initial=0), 1)
            np.testing.assert_allclose(found.astype(np.float64), wide, rtol=0, atol=limit)
    # vectors of batch norms are never f16
    assert ran > 5 or (dtype == "f16" and kind.startswith("BatchNorm"))


def test_sums_of_many_short_rows_are_rounded_in_parts():
    """One sum after the other is off by 2e-3."""
    x = np.full((200_000, 3, 2), 0.1, np.float32)
    graph = dgo.Graph()
    given = graph.input("x", x.shape)
    means = (dgo.ops.reduce_mean(given, axes=axes) for axes in ([0, 2], [0]))
    for mean in graph.compile(tuple(means))(x):
        np.testing.assert_allclose(mean, 0.1, rtol=1e-4)


def test_averages_of_very_long_windows_are_shared_out_without_lists():
    graph, length, window = dgo.Graph(), 32_000, 320
    diff = graph.input("diff", (1, length - window + 1, 16))
    attrs = {"strides": [1], "pads_begin": [0], "pads_end": [0], "exclude_pad": False}
    shared = dgo.ops.avg_pool_backward(diff, kernel=[window], src_shape=[1, length, 16], **attrs)
    assert not gradients.averages(shared.node)
    result = graph.compile(shared)(np.full(diff.shape, window, np.float32))
    edge = np.minimum(np.arange(1, length + 1), window)
    np.testing.assert_allclose(result[0, :, 3], np.minimum(edge, edge[::-1]), rtol=1e-5)


@pytest.mark.child
@pytest.mark.parametrize("channels", [3, 16])
def test_slopes_belong_to_zero_where_denormals_are_zeros(channels):
    program = f"""
import numpy as np, torch
import dnnl_graph_ops as dgo

assert torch.set_flush_denormal(True)
graph, shape = dgo.Graph(), (1, 4, 4, {channels})
operands = graph.input("x", shape), graph.input("slope", ({channels},)), graph.input("diff", shape)
net = graph.compile(dgo.ops.prelu_backward(*operands))
diff, _ = net(np.zeros(shape, "f"), np.full({channels}, 0.5, "f"), np.ones(shape, "f"))
assert (diff == 0.5).all(), diff.max()
"""
    done = child("-c", program)
    assert done.returncode == 0, done.stderr
