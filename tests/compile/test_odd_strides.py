"""Views whose axes interleave in memory: NumPy has them, the library has no words for them."""

import numpy as np
import pytest
from reference import conv_transpose as truth
from reference.data import integers
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, ops
from dnnl_graph_ops.dtypes import CODES, numpy_dtype
from dnnl_graph_ops.onednn.partition import fresh_id, native_op
from dnnl_graph_ops.program.program import Buffer, Place, View, describable
from dnnl_graph_ops.runtime.engines import KINDS, default_engine
from dnnl_graph_ops.strides import dense_strides


def columns(rng):
    """Columns 0 and 3 of 5: one column step is more than half a row."""
    return integers(rng, (2, 5, 5, 3), "f32")[:, ::2, ::3, :]


def window(rng):
    """Every row starts one element later."""
    flat = integers(rng, (64,), "f32")
    return np.lib.stride_tricks.as_strided(flat, (1, 6, 5, 3), (0, 16, 4, 4), writeable=False)


def stack(rng):
    """Every second row of images with an odd number of rows."""
    return integers(rng, (3, 5, 4, 3), "f32")[:, ::2]


ATTRIBUTES = {"strides": [2, 2], "data_format": "NXC", "weights_format": "XOI"}
VIEWS = pytest.mark.parametrize("view", [columns, window, stack])


def check(build, *arrays, dtype="f32", **options):
    """What an op makes of the arrays as they lie, against the evaluation."""
    graph = dgo.Graph()
    inputs = [graph.input(f"x{i}", array.shape, array.dtype) for i, array in enumerate(arrays)]
    y = build(*inputs)
    exact = evaluate_built(graph, dict(zip(inputs, arrays, strict=True)))[y].astype(np.float64)
    limit = {"f32": 1e-6, "bf16": 1e-2}[dtype] * max(np.abs(exact).max(), 1)
    np.testing.assert_allclose(graph.compile(y, **options)(*arrays).astype(np.float64), exact, rtol=0, atol=limit)


@VIEWS
@pytest.mark.parametrize("build", [ops.relu, lambda v: ops.softmax(v, axis=1), lambda v: ops.add(v, v) * 2])
def test_inputs(view, build, rng):
    check(build, view(rng))


SPREAD = [
    (ops.relu, []),
    (ops.gelu, []),
    (lambda x: ops.clamp(x, min=0.0, max=1.0), []),
    (ops.prelu, [(3,)]),
    (lambda x, *v: ops.batch_norm_inference(x, *v, epsilon=1e-5), [(3,)] * 4),
    (ops.relu_backward, [(4, 5, 5, 3)]),
    (lambda x: ops.softmax(x, axis=1), []),
    (lambda x, y: ops.relu(ops.add(x, y)), [(3,)]),
]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("build", "others"), SPREAD)
def test_one_element_for_all(build, others, dtype, rng):
    """What np.broadcast_to makes of a number: the first gradient, say."""
    if dtype == "bf16" and others == [(3,)] * 4:
        pytest.skip("parameters are f32")
    number = np.ones((), numpy_dtype(dtype))
    rest = [integers(rng, shape, "f32").astype(number.dtype) ** 2 for shape in others]
    check(build, np.broadcast_to(number, (4, 5, 5, 3)), *rest, dtype=dtype)


@VIEWS
@pytest.mark.parametrize("tune", ["off", "heuristic"])
def test_conv_transpose(view, tune, rng):
    x, w = view(rng), integers(rng, (2, 2, 4, 3), "f32")
    check(lambda v: ops.relu(ops.conv_transpose(v, w, strides=2)), x, tune=tune)
    np.testing.assert_array_equal(dgo.conv_transpose(x, w, strides=2), truth.forward(x, w, **ATTRIBUTES))


def test_gradients(rng):
    x, w = columns(rng), integers(rng, (2, 2, 4, 3), "f32")
    diff = integers(rng, (2, 11, 11, 4), "f32")[:, ::2, ::3][:, :6, :4]
    assert not describable(View(Buffer(Place.INPUT, "f32", 0), diff.shape, tuple(s // 4 for s in diff.strides)))
    np.testing.assert_array_equal(
        dgo.conv_transpose_backward_data(diff, w, strides=2),
        truth.backward_data(diff, w, src_spatial=x.shape[1:3], **ATTRIBUTES),
    )
    np.testing.assert_array_equal(
        dgo.conv_transpose_backward_weights(x, diff, w.shape, strides=2),
        truth.backward_weights(x, diff, w.shape[:2], **ATTRIBUTES),
    )


@pytest.mark.parametrize("build", [ops.square, lambda v: ops.softmax(v, axis=1)])
def test_results(build, rng):
    x = integers(rng, (2, 3), "f32")
    graph = dgo.Graph()
    net = graph.compile(build(graph.input("x", x.shape)))
    whole = np.full((2, 7), np.nan, np.float32)
    net(x, out=whole[:, ::3])
    # another layout may be served by another kernel
    np.testing.assert_allclose(whole[:, ::3], net(x), rtol=1e-6)
    assert np.isnan(whole[:, 1::3]).all()


@pytest.mark.parametrize("case", range(20))
def test_the_rule_is_the_library_s(case, seed):
    rng = np.random.default_rng([seed, case])
    for _ in range(10):
        rank = int(rng.integers(1, 5))
        shape = tuple(map(int, rng.integers(1, 5, rank)))
        strides = tuple(map(int, rng.choice([0, 1, 1, 2, 3, 4, 6, 8, 12, 24], rank)))
        x, y = (
            _core.LogicalTensor(fresh_id(), CODES["f32"], list(shape), list(s)) for s in (strides, dense_strides(shape))
        )
        engine = default_engine()
        partition = _core.Partition.create_with_op(native_op(engine, "Abs", {}, "abs", [x], [y]), KINDS[engine.kind])
        try:
            partition.compile([x], [y], engine._native)
            taken = True
        except dgo.Error as error:
            assert "strides" in str(error)
            taken = False
        assert describable(View(Buffer(Place.INPUT, "f32", 0), shape, strides)) == taken, (shape, strides)


@pytest.mark.sweep
@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize(
    "build",
    [
        *(
            lambda x, kind=kind: getattr(ops, kind)(x, axes=(1, 2))
            for kind in ("reduce_sum", "reduce_max", "reduce_l2")
        ),
        lambda x: ops.relu(ops.reduce_mean(x, axes=(0, 3), keep_dims=True)),
        ops.bias_add_backward,
    ],
    ids=["sum", "max", "l2", "mean, relu", "gradient of a bias"],
)
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_reductions_of_repeated_elements(axis, build, tune, rng):
    whole = integers(rng, (2, 4, 3, 6))
    check(build, np.broadcast_to(whole.take([0], axis), whole.shape), tune=tune)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_bias_gradient_of_repeated_elements(axis, data_format, dtype, rng):
    whole = integers(rng, (2, 4, 3, 6), dtype)
    view = np.broadcast_to(whole.take([0], axis), whole.shape)
    found = dgo.conv_transpose_backward_bias(view, data_format=data_format)
    assert np.array_equal(found, truth.backward_bias(view, data_format=data_format).astype(view.dtype))
