"""Ops that oneDNN does not have: what they mean, where they are views, and how they are stored."""

import pickle
from random import Random

import ml_dtypes
import numpy as np
import pytest
from reference.ops import Slot, evaluate
from shapes.generate import GENERATORS, inside

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops, schema
from dnnl_graph_ops.program.program import HostStep

OWN = sorted(kind for kind, op in schema.OPS.items() if op.own)
CASES = 40


def drawn(rng, meta):
    array = rng.standard_normal(meta.shape) * 4
    return array > 0 if meta.dtype == "boolean" else np.asarray(array).astype(dtypes.numpy_dtype(meta.dtype))


@pytest.mark.parametrize("kind", OWN)
def test_as_evaluated(kind, seed):
    for number in range(CASES):
        rng = Random(f"{seed} {kind} own {number}")
        case = GENERATORS[kind](rng)
        print(f"reproduce: --seed {seed}, case {number}\n{case}")
        graph = dgo.Graph()
        inputs = [graph.input(f"x{i}", meta.shape, meta.dtype) for i, meta in enumerate(case.metas)]
        result = getattr(ops, schema.OPS[kind].builder)(*inputs, **case.attrs)
        draw = np.random.default_rng(rng.randrange(2**32))
        arrays = inside(kind, case.attrs, [drawn(draw, meta) for meta in case.metas])
        out = np.empty(result.shape, dtypes.numpy_dtype(result.dtype))
        out.reshape(-1).view(np.uint8)[...] = 0xFF
        found = graph.compile(result)(*arrays, out=out)
        (expected,) = evaluate(kind, arrays, result.node.attrs, [Slot(result.dtype, result.shape)])
        assert found.dtype == expected.dtype
        limit = {"f32": 1e-6, "bf16": 1e-2, "f16": 1e-3}.get(result.dtype, 0) if kind in ("Cos", "Erf", "Sin") else 0
        wide = [np.asarray(array, np.float64) for array in (found, expected)]
        np.testing.assert_allclose(*wide, rtol=limit, atol=limit)


@pytest.mark.parametrize("kind", OWN)
def test_documents_say_whose_they_are(kind):
    text = getattr(ops, schema.OPS[kind].builder).__doc__
    assert text.startswith(f"{kind}: ") and text.endswith("Source: this package; oneDNN does not have this op.")
    assert schema.OPS[kind].own and "dev_guide" not in text
    answer = dgo.supported(kind)
    assert answer.how == "on the host" and "op of this package" in answer.reason


def steps_of(net):
    return net._latest().lowering.program.steps


def test_slices_between_other_ops_are_views():
    graph = dgo.Graph()
    x = graph.input("x", (2, 8, 6, 7))
    left, right = (ops.slice(ops.relu(x), starts=[begin], ends=[begin + 4], axes=[1]) for begin in (0, 4))
    inner = ops.slice(right, starts=[1, -1], ends=[-1, 0], axes=[2, 3])
    outer = ops.slice(left, starts=[0, -1], ends=[4, 10**9], axes=[2, 3])
    every = ops.slice(x, starts=[0, 1], ends=[2, 8], steps=[1, 2])
    every = ops.slice(every, starts=[0, 0], ends=[4, 6], axes=[2, 3], steps=[2, 3])
    net = graph.compile([ops.exp(outer), ops.exp(left), ops.exp(every)])
    array = np.random.default_rng(0).standard_normal(x.shape).astype(np.float32)
    found = net(array)
    positive = np.maximum(array, 0)
    for one, want in zip(found, (positive[:, :4, :4, -1:], positive[:, :4], array[:, 1:8:2, :4:2, :6:3]), strict=True):
        np.testing.assert_allclose(one, np.exp(want), rtol=1e-6)
    assert inner.shape == (2, 4, 4, 0)
    assert not [step for step in steps_of(net) if "Slice" in step.label]
    taken = [part for part in net.explain().partitions if part.kinds == ("Slice",)]
    assert len(taken) == 4 and {part.formulation for part in taken} == {"view"}


def test_slices_of_convolutions_are_read_in_place():
    graph = dgo.Graph()
    x = graph.input("x", (1, 6, 9))
    w = np.random.default_rng(1).standard_normal((4, 3, 3)).astype(np.float32)
    window = {"strides": 1, "pads_begin": 1, "pads_end": 1, "dilations": 1, "weights_format": "OIX"}
    parts = [ops.slice(x, starts=[i], ends=[i + 3], axes=[1]) for i in (0, 3)]
    made = [ops.convolution(part, w, **window, data_format="NCX") for part in parts]
    array = np.random.default_rng(2).standard_normal(x.shape).astype(np.float32)
    net = graph.compile(made)
    for i, found in enumerate(net(array)):
        alone = dgo.Graph()
        src = alone.input("x", (1, 3, 9))
        want = alone.compile(ops.convolution(src, w, **window, data_format="NCX"))(array[:, 3 * i : 3 * i + 3])
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    assert not [step for step in steps_of(net) if step.label == "Slice"]


def test_movement_runs_in_no_numpy():
    graph = dgo.Graph()
    x = graph.input("x", (2, 5, 6), "s32")
    turned = ops.slice(x, starts=[-1, -1], ends=[-(10**6)] * 2, axes=[1, 2], steps=[-1, -2])
    padded = ops.pad(turned, pads_begin=[0, 4, 2], pads_end=[1, 0, 2], mode="reflect")
    array = np.arange(60, dtype=np.int32).reshape(2, 5, 6)
    net = graph.compile([padded, turned])
    found = net(array)
    np.testing.assert_array_equal(found[1], array[:, ::-1, ::-2])
    np.testing.assert_array_equal(found[0], np.pad(array[:, ::-1, ::-2], [(0, 1), (4, 0), (2, 2)], mode="reflect"))
    assert not [step for step in steps_of(net) if isinstance(step, HostStep)]


def test_unknown_sizes_are_sliced_at_the_call():
    graph = dgo.Graph()
    x = graph.input("x", (None, 3, None))
    y = ops.pad(
        ops.slice(x, starts=[-4], ends=[2**62], axes=[2]), pads_begin=[0, 0, 1], pads_end=[0, 0, 1], mode="edge"
    )
    assert y.shape == (None, 3, None)
    net = graph.compile(y)
    for size in (2, 5, 9):
        array = np.arange(6 * size, dtype=np.float32).reshape(2, 3, size)
        np.testing.assert_array_equal(net(array), np.pad(array[:, :, -4:], [(0, 0), (0, 0), (1, 1)], mode="edge"))


def test_json_names_them_and_reads_them_again():
    graph = dgo.Graph()
    x = graph.input("x", (2, 5, 6), "bf16")
    part = ops.slice(x, starts=[1], ends=[-1], axes=[2])
    graph.outputs = {"y": ops.sin(ops.pad(part, pads_begin=[0, 1, 0], pads_end=[0, 0, 0]))}
    with pytest.warns(UserWarning, match="Pad, Sin, Slice: ops that oneDNN does not have"):
        text = graph.to_json()
    assert '"own_ops": "Pad Sin Slice"' in text
    again = dgo.Graph.from_json(text)
    assert [(node.kind, node.attrs) for node in again.nodes] == [(node.kind, node.attrs) for node in graph.nodes]
    assert again.to_json() == text
    array = np.random.default_rng(3).standard_normal(x.shape).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(*(one.compile()(array) for one in (graph, again)))


def test_pickled_nets_have_them():
    graph = dgo.Graph()
    net = graph.compile(ops.erf(ops.slice(graph.input("x", (4, 6)), starts=[1, 1], ends=[3, 6], steps=[1, 2])))
    array = np.random.default_rng(4).standard_normal((4, 6)).astype(np.float32)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(net))(array), net(array))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: ops.slice(x, starts=[0], ends=[1, 2]), "the numbers of values differ: starts 1, ends 2"),
        (lambda x: ops.slice(x, starts=[0], ends=[1], steps=[0]), "a step of 0"),
        (lambda x: ops.slice(x, starts=[0], ends=[1], axes=[5]), "axes = 5 is outside of a tensor with 3 axes"),
        (lambda x: ops.slice(x, starts=[0, 0], ends=[1, 1], axes=[1, -2]), "names axis 1"),
        (lambda x: ops.slice(x, starts=[0] * 4, ends=[1] * 4), "4 axes to slice"),
        (lambda x: ops.pad(x, pads_begin=[0, 0], pads_end=[0] * 3), "pads_begin has 2 values for 3 axes"),
        (lambda x: ops.pad(x, pads_begin=[0, -1, 0], pads_end=[0] * 3), "at least 0"),
        (lambda x: ops.pad(x, pads_begin=[0, 3, 0], pads_end=[0] * 3, mode="reflect"), "at most 2 are possible"),
        (lambda x: ops.pad(x, pads_begin=[0, 4, 0], pads_end=[0] * 3, mode="wrap"), "at most 3 are possible"),
        (lambda x: ops.gather(x, np.zeros(2, np.int32), axis=3), "axis = 3 is outside"),
    ],
)
def test_mistakes_are_named(build, message):
    with pytest.raises(dgo.InvalidArgumentError, match=message):
        build(dgo.Graph().input("x", (2, 3, 4)))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_pads_between_normalizations_and_convolutions(dtype):
    """A kernel that takes its operands row-major only, beside values that lie channels last."""
    rng = np.random.default_rng(5)
    weights = [(rng.standard_normal((16, 16, 3, 3)) / 12).astype(dtypes.numpy_dtype(dtype)) for _ in range(2)]
    array = rng.standard_normal((1, 16, 12, 12)).astype(dtypes.numpy_dtype(dtype))
    window = {"strides": 1, "pads_begin": 1, "pads_end": 1, "dilations": 1, "data_format": "NCX"}
    graph = dgo.Graph()
    y = ops.convolution(graph.input("x", array.shape, dtype), weights[0], **window, weights_format="OIX")
    y = ops.static_reshape(y, shape=(1, 16, 144), special_zero=False)
    y = ops.layer_norm(y, use_affine=False, keep_stats=False)
    y = ops.relu(ops.static_reshape(y, shape=(1, 16, 12, 12), special_zero=False))
    y = ops.pad(y, pads_begin=[0, 0, 2, 2], pads_end=[0, 0, 2, 2], mode="reflect")
    y = ops.convolution(y, weights[1], **window, weights_format="OIX")
    found, want = (graph.compile(y, tune=tune)(array).astype(np.float64) for tune in ("heuristic", "off"))
    np.testing.assert_allclose(found, want, rtol=0, atol={"f32": 1e-4, "bf16": 0.1}[dtype] * np.abs(want).max())


def test_what_is_padded_is_computed_in_its_place():
    graph = dgo.Graph()
    x = graph.input("x", (1, 4, 10))
    weights = np.random.default_rng(6).standard_normal((4, 4, 3)).astype(np.float32)
    window = {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1, "data_format": "NCX"}
    inner = ops.convolution(x, weights, **window, weights_format="OIX")
    y = ops.pad(inner, pads_begin=[0, 0, 2], pads_end=[0, 0, 1], mode="edge")
    y = ops.pad(y, pads_begin=[0, 0, 1], pads_end=[0, 0, 0], mode="wrap")
    results = [ops.convolution(y, weights, **window, weights_format="OIX"), ops.relu(inner)]
    array = np.random.default_rng(7).standard_normal(x.shape).astype(np.float32)
    net = graph.compile(results)
    for found, want in zip(net(array), graph.compile(results, tune="off")(array), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    assert not [step for step in steps_of(net) if step.label == "Pad"]
