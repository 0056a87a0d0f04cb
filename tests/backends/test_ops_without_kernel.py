"""Ops without a kernel in the loaded library: builtin kernels, equal ops and NumPy steps against the evaluation."""

import ml_dtypes
import numpy as np
import pytest
from reference.data import with_strides
from reference.ops import Slot, evaluate

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops, schema
from dnnl_graph_ops.reports import supported

RNG = np.random.default_rng(20)
BF16 = ml_dtypes.bfloat16


def f(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def p(*shape, dtype=np.float32):
    return (np.abs(f(*shape)) + np.float32(0.5)).astype(dtype)


POOL = {"kernel": 2, "strides": 2, "pads_begin": 0, "pads_end": 0, "data_format": "NCX"}
NORM = {"epsilon": 1e-3, "data_format": "NCX"}
RESIZE = {"mode": "linear", "coordinate_transformation_mode": "align_corners", "data_format": "NCX"}
CONV = {
    "strides": 2,
    "pads_begin": 1,
    "pads_end": 0,
    "dilations": 1,
    "data_format": "NCX",
    "weights_format": "OIX",
}
SEED = [np.array([5]), np.array([7]), np.array([0.3], np.float32)]
GROUPS = {"qtype": "per_group", "group_shape": (2, 1)}

# kind, inputs, attributes
CASES = [
    ("StaticReshape", [f(2, 3, 4)], {"shape": (4, -1), "special_zero": False}),
    ("StaticReshape", [f(2, 3, 4)[:, ::2]], {"shape": (0, 8), "special_zero": True}),
    ("StaticTranspose", [f(2, 3, 4)], {"order": (2, 0, 1)}),
    ("Select", [RNG.random((2, 3)) < 0.5, f(2, 3), f(1, 3)], {}),
    ("BiasAddBackward", [f(2, 3, 4)], {"data_format": "NCX"}),
    ("BiasAddBackward", [f(2, 3, 4, dtype=BF16)], {}),
    ("BiasAddBackward", [f(0, 3, 4)], {}),
    ("Reciprocal", [p(2, 3)], {}),
    ("Reciprocal", [p(2, 3, dtype=np.float16)], {}),
    ("Pow", [p(2, 3)], {"beta": 1.5}),
    ("Pow", [f(2, 3)], {"beta": 2.0}),
    ("Pow", [p(2, 3, dtype=BF16)], {"beta": -0.5}),
    ("GreaterEqual", [f(2, 3), f(1, 3)], {}),
    ("GenIndex", [f(2, 3, 4)], {"axis": -2}),
    ("GroupNorm", [f(2, 4, 5), f(4), f(4)], {"groups": 2, "data_format": "NCX"}),
    ("GroupNorm", [f(2, 5, 4)], {"groups": 4, "use_affine": False, "keep_stats": False}),
    ("RMSNorm", [f(2, 4), f(4)], {}),
    ("SoftMax", [np.where(f(2, 4) > 9, f(2, 4), -np.inf)], {"mode": "inf_as_zero", "outputs": 2}),
    ("SoftMax", [f(2, 4, dtype=BF16)], {"dtype": "f32"}),
    ("GELU", [f(2, 4)], {"mode": "gelu_tanh"}),
    ("GELUBackward", [f(2, 4), f(2, 4)], {"mode": "gelu_tanh"}),
    ("Add", [f(2, 4), f(2, 4, dtype=BF16)], {"dtype": "f32"}),
    ("LayerNorm", [f(2, 4, 3), f(4, 3), f(4, 3)], {"begin_norm_axis": 1}),
    ("LayerNormBackward", [f(2, 4, 3), f(2, 4, 3), f(2), p(2), f(4, 3), f(4, 3)], {"begin_norm_axis": 1}),
    ("BatchNormForwardTraining", [f(2, 3, 4), f(3), p(3), f(3), f(3)], NORM),
    ("BatchNormForwardTraining", [f(2, 3, 4, 4), f(3), p(3), f(3)], NORM | {"momentum": 0.25}),
    ("BatchNormTrainingBackward", [f(2, 3, 4), f(2, 3, 4), f(3), p(3), f(3)], NORM | {"outputs": 2}),
    ("BatchNormTrainingBackward", [f(2, 3, 4, 4), f(2, 3, 4, 4), f(3), p(3)], NORM),
    ("BatchNormTrainingBackward", [f(2, 3, 4), f(2, 3, 4), f(3), p(3), f(3)], NORM | {"outputs": 1}),
    ("BatchNormTrainingBackward", [f(4, 5), f(4, 5), f(5), p(5), f(5)], NORM | {"data_format": "NXC"}),
    ("BatchNormInference", [f(2, 3, 4), *[p(3)] * 4], NORM),
    ("AvgPool", [f(1, 2, 7)], POOL | {"exclude_pad": False, "rounding_type": "ceil"}),
    ("AvgPool", [f(1, 7, 2)], POOL | {"exclude_pad": True, "pads_begin": 2, "data_format": "NXC"}),
    ("AvgPoolBackward", [f(1, 2, 3)], POOL | {"exclude_pad": True, "src_shape": (1, 2, 7)}),
    ("Interpolate", [f(1, 2, 5)], RESIZE | {"sizes": (8,)}),
    ("InterpolateBackward", [f(1, 2, 5), f(1, 2, 8)], RESIZE | {"sizes": (8,)}),
    ("MatMul", [f(2, 0), f(0, 3), f(3)], {}),
    ("MatMul", [f(2, 4), f(3, 4), f(2, 3)], {"transpose_b": True}),
    ("Round", [f(2, 3, dtype=BF16)], {}),
    ("ReduceSum", [f(2, 3, 4)], {"axes": (0, 1, 2)}),
    ("ReduceMax", [f(2, 3, 1)], {"axes": (2,)}),
    ("ReduceSum", [f(0, 3)], {"axes": (0,)}),
    ("Concat", [f(2, 3), f(2, 0), f(2, 1)], {"axis": 1}),
    (
        "Quantize",
        [f(2, 3)],
        {"scales": (0.1, 0.2, 0.5), "zps": (1, 2, 3), "qtype": "per_channel", "dtype": "u8"},
    ),
    ("Quantize", [f(2, 3)], {"scales": (0.1,), "dtype": "f8_e4m3"}),
    ("Dequantize", [f(2, 3, dtype=ml_dtypes.float8_e5m2)], {"scales": (0.5,)}),
    ("DynamicDequantize", [RNG.integers(-8, 8, (4, 3)).astype(ml_dtypes.int4), f(2, 3)], GROUPS),
    ("DynamicQuantize", [f(2, 3), p(1)], {"dtype": "s8"}),
    ("Dropout", [f(20, 30), *SEED], {"outputs": 2}),
    ("Dropout", [f(7), *SEED], {}),
    ("ConvolutionBackwardData", [f(1, 4, 6), f(4, 2, 3)], CONV | {"groups": 2, "output_padding": 1}),
    ("ConvolutionBackwardWeights", [f(0, 4, 9), f(0, 4, 4)], CONV | {"weights_shape": (4, 4, 3)}),
    ("ReLU", [f(0, 3)], {}),
    ("Tanh", [f()], {}),
    ("TypeCast", [f(2, 3)], {"dtype": "bf16"}),
    ("Reorder", [f(2, 3, dtype=BF16)], {}),
    ("PReLUBackward", [f(2, 3, 2), f(2, 3, 1), f(2, 3, 2)], {"data_format": "NCX"}),
    ("PReLU", [f(3), f(3)], {}),
    ("PReLU", [f(3), f(3)], {"data_format": "NCX"}),
    ("PReLU", [f(3), f(1)], {}),
    ("PReLU", [f(2, 2, 2, 2, 2, 3), f(3)], {}),
    ("PReLUBackward", [f(3, dtype=BF16), f(3, dtype=BF16), f(3, dtype=BF16)], {}),
]


def gaps(array):
    """The same values at every other place."""
    return with_strides(array, [2 * stride // array.itemsize for stride in array.strides])


LAYOUTS = {"C": lambda a: a, "F": lambda a: np.asfortranarray(a) if a.ndim else a, "gaps": gaps}


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("kind", "inputs", "attrs"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_as_evaluated(kind, inputs, attrs, layout):
    graph = dgo.Graph()
    values = [graph.input(f"in{i}", a.shape, a.dtype) for i, a in enumerate(inputs)]
    made = getattr(ops, schema.OPS[kind].builder)(*values, **attrs)
    outputs = made if isinstance(made, tuple) else (made,)
    net = graph.compile(list(outputs))
    results = net(*map(LAYOUTS[layout], inputs))
    slots = [Slot(v.dtype, v.shape) for v in outputs]
    expected = evaluate(kind, inputs, outputs[0].node.attrs, slots)
    for actual, exact in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
        assert (actual.dtype, actual.shape) == (exact.dtype, exact.shape)
        limit = 3e-6 if exact.dtype == np.float32 else 1e-2 if exact.dtype in (BF16, np.float16) else 0
        wide = exact.astype(np.float64)
        scale = max(np.abs(wide[np.isfinite(wide)]).max(initial=0), 1)
        np.testing.assert_allclose(actual.astype(np.float64), wide, rtol=0, atol=limit * scale)


def test_sums_over_no_channels():
    graph = dgo.Graph()
    shapes = {"x": (2, 0, 5), "w": (3, 0, 2), "b": (3,)}
    made = ops.convolution(*(graph.input(name, shape) for name, shape in shapes.items()), **CONV)
    y = graph.compile(made)(f(2, 0, 5), f(3, 0, 2), np.float32([1, 2, 3]))
    np.testing.assert_array_equal(y, np.broadcast_to(np.float32([1, 2, 3])[:, None], made.shape))


def test_results_of_nothing_are_known_at_once():
    graph = dgo.Graph()
    sums = ops.reduce_sum(ops.exp(graph.input("x", (0, 2))), axes=[0, 1])
    assert graph.compile(ops.exp(sums))(np.ones((0, 2), np.float32)) == 1


def test_constant_sizes_count_as_attributes():
    graph = dgo.Graph()
    x = graph.input("x", (2, 3, 4))
    assert ops.reduce_sum(x, np.array([0, 2], np.int32)).shape == (3,)
    with pytest.raises(dgo.UnsupportedError, match=r"ReduceSum takes axes when it is built.*'axes'"):
        ops.reduce_sum(x, graph.input("axes", (1,), "s32"))


def test_a_wildcard_ends_what_can_be_computed():
    graph = dgo.Graph()
    x = graph.input("x", (2, 3))
    (unknown,) = ops.wildcard(ops.relu(x), shapes=[(2, 5)], name="theirs")
    with pytest.raises(dgo.UnsupportedError, match="Wildcard 'theirs': it stands for an op outside of oneDNN"):
        graph.compile(ops.relu(unknown))
    assert graph.compile(graph.nodes[0].outputs[0])(np.float32([[1, -1, 0]] * 2)).max() == 1


def test_end_gives_nothing():
    graph = dgo.Graph()
    y = ops.relu(graph.input("x", (2,)))
    assert ops.end(y) is None
    assert graph.compile(y)(np.float32([-1, 1])).tolist() == [0, 1]


def test_more_arrays_than_the_fast_path_takes():
    graph = dgo.Graph()
    inputs = [graph.input(f"x{i}", (3,)) for i in range(40)]
    net = graph.compile({f"y{i}": ops.relu(x) for i, x in enumerate(inputs)})
    arrays = [np.full(3, i - 20, np.float32) for i in range(40)]
    for _ in range(2):
        assert [int(y[0]) for y in net(*arrays)] == [max(i - 20, 0) for i in range(40)]


def test_the_same_value_under_two_names():
    graph = dgo.Graph()
    y = ops.relu(graph.input("x", (3,)))
    first, second = graph.compile({"a": y, "b": y})(np.float32([-1, 0, 1]))
    assert first.tolist() == second.tolist() == [0, 0, 1]
    assert not np.shares_memory(first, second)


def test_results_of_constants_alone_are_written_every_time():
    graph = dgo.Graph()
    a, b = (graph.constant(np.full((2, 2), n, np.float32)) for n in (2, 3))
    net = graph.compile({"product": ops.matmul(a, b), "sum": ops.add(ops.relu(graph.input("x", (2, 2))), a)})
    for _ in range(3):
        product, total = net(np.ones((2, 2), np.float32))
        assert (product == 12).all()
        assert (total == 3).all()


def test_unknown_dims_through_every_kind_of_step():
    graph = dgo.Graph()
    x = graph.input("x", (None, 4, 6))
    y = ops.static_transpose(ops.softmax(x, axis=2), order=(0, 2, 1))
    net = graph.compile(ops.pow(ops.layer_norm(y, use_affine=False, keep_stats=False), beta=2.0))
    for batch in (1, 3, 0):
        assert net(np.ones((batch, 4, 6), np.float32)).shape == (batch, 6, 4)


def test_status_names_every_op():
    table = supported.rows()
    assert {row.kind for row in table} == set(schema.OPS)
    assert [row.kind for row in table if "not supported" in row.how] == ["Wildcard"]
    by_kind = {row.kind: row.how for row in table}
    assert by_kind["StaticTranspose"] == ("builtin kernel", "library")
    assert by_kind["Dropout"] == ("NumPy", "NumPy")
