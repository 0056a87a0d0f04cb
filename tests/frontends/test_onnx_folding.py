"""Nodes that are computed as a model is read: the values of ONNX Runtime, within the bytes that were counted before."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from onnx import helper  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402
from dnnl_graph_ops.frontends.reading.node import OnnxNode  # noqa: E402
from dnnl_graph_ops.frontends.reading.numpy_steps import ROWS  # noqa: E402

from .hostile_models import model, whole  # noqa: E402
from .models import reference  # noqa: E402

COLUMN, ROW = np.float32([[1], [-2], [3]]), np.float32([[4, -5, 6, 0.5]])
SIZES, FEW = whole(-7, 7, 9), whole(2, -2, -4)
VIEWS = {"Identity", "Slice", "Squeeze", "Transpose", "Unsqueeze", "Reshape"}
# op: lists of inputs, and attributes
CASES = {
    "Abs": [([FEW], {})],
    "Add": [([COLUMN, ROW], {})],
    "Cast": [([ROW], {"to": 7}), ([FEW], {"to": 1}), ([FEW], {"to": 11})],
    "And": [([COLUMN > 0, ROW > 0], {})],
    "Ceil": [([ROW], {})],
    "Clip": [([ROW, ROW[0, 3], ROW[0, 0]], {}), ([COLUMN, ROW[0, 3]], {}), ([ROW], {})],
    "Concat": [([FEW, SIZES, FEW], {"axis": 0})],
    "ConstantOfShape": [([whole(2, 3)], {}), ([whole(2, 0)], {"value": onnx.numpy_helper.from_array(whole(5))})],
    "Div": [([COLUMN, ROW], {}), ([SIZES, FEW], {}), ([np.uint8([[200], [7]]), np.uint8([3, 9])], {})],
    "Equal": [([SIZES, FEW], {}), ([COLUMN, ROW], {})],
    "Expand": [([COLUMN, whole(2, 1, 4)], {}), ([ROW, whole(1)], {})],
    "Floor": [([ROW], {})],
    "Gather": [([ROW, whole(0, -1, 2)], {"axis": 1}), ([SIZES, whole(1)[0]], {}), ([ROW, np.int64([[0, 0]])], {})],
    "Greater": [([COLUMN, ROW], {})],
    "GreaterOrEqual": [([COLUMN, ROW], {}), ([SIZES, FEW], {})],
    "Identity": [([ROW], {})],
    "Less": [([COLUMN, ROW], {})],
    "LessOrEqual": [([COLUMN, ROW], {})],
    "Log": [([np.exp2(np.float32([[0, 1, 2, 3, 4, -3]]))], {}), ([COLUMN], {})],
    "Max": [([COLUMN, ROW, COLUMN], {}), ([FEW], {})],
    "Min": [([COLUMN, ROW, COLUMN], {}), ([FEW, SIZES], {})],
    "Mod": [([SIZES, FEW], {}), ([SIZES, FEW], {"fmod": 1}), ([COLUMN, ROW], {"fmod": 1})],
    "Mul": [([COLUMN, ROW], {}), ([SIZES, FEW], {})],
    "Neg": [([FEW], {})],
    "Not": [([np.array([True, False])], {})],
    "Or": [([COLUMN > 0, ROW > 0], {})],
    "Range": [
        ([whole(3)[0], whole(12)[0], whole(4)[0]], {}),
        ([whole(3)[0], whole(-12)[0], whole(-5)[0]], {}),
        ([whole(3)[0], whole(3)[0], whole(1)[0]], {}),
        ([np.float32(0.5), np.float32(4), np.float32(0.75)], {}),
        ([np.int32(5), np.int32(-1), np.int32(1)], {}),
    ],
    "ReduceProd": [([ROW, whole(1)], {"keepdims": 0}), ([SIZES], {})],
    "Reshape": [([ROW, whole(2, -1)], {}), ([COLUMN, whole(0, 1, 1)], {})],
    "Slice": [([ROW, whole(-1), whole(-9), whole(1), whole(-2)], {}), ([SIZES, whole(1), whole(1 << 62)], {})],
    "Sqrt": [([np.abs(ROW)], {})],
    "Squeeze": [([COLUMN, whole(1)], {}), ([ROW], {})],
    "Tile": [([ROW, whole(2, 3)], {})],
    "Sub": [([COLUMN, ROW], {})],
    "Transpose": [([ROW], {}), ([ROW], {"perm": [1, 0]})],
    "Unsqueeze": [([ROW, whole(0, -1)], {})],
    "Where": [([COLUMN > 0, COLUMN, ROW], {}), ([COLUMN > 0, SIZES, FEW], {})],
}


def test_every_folded_op_has_cases():
    assert set(CASES) == {name for name, row in ROWS.items() if row.folds}


@pytest.mark.parametrize("kind", CASES)
def test_folded(kind):
    for arrays, attrs in CASES[kind]:
        names = [f"c{i}" for i in range(len(arrays))]
        proto = model([helper.make_node(kind, names, ["z"], **attrs)], dict(zip(names, arrays, strict=True)))
        node = helper.make_node(kind, names, ["z"], **attrs)
        given = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        given = {n: onnx.numpy_helper.to_array(v) if n == "value" else v for n, v in given.items()}
        read = OnnxNode("z", kind, "", "", 18, tuple(names), ("z",), given)
        result = np.asarray(ROWS[kind].run(read, arrays))
        proto.graph.output.append(helper.make_empty_tensor_value_info("z"))
        expected = reference(proto, {"x": np.zeros((2, 3), np.float32)})[1]
        assert result.dtype == expected.dtype and result.shape == expected.shape
        np.testing.assert_array_equal(result, expected)
        assert kind in VIEWS or ROWS[kind].size(read, arrays) >= result.nbytes


def test_clip_has_bounds_as_attributes_before_opset_11():
    node = OnnxNode("z", "Clip", "", "", 6, ("a",), ("z",), {"min": 0.0, "max": 4.0})
    result = ROWS["Clip"].run(node, [ROW])
    assert result.dtype == ROW.dtype
    np.testing.assert_array_equal(result, np.clip(ROW, 0, 4))


def test_pads_computed_by_clip_from_sizes_are_constants():
    """As TensorFlow's "same" padding is exported."""
    nodes = [
        helper.make_node("Clip", ["most", "zero", ""], ["clipped"]),
        helper.make_node("Cast", ["clipped"], ["pads"], to=7),
        helper.make_node("Pad", ["x", "pads"], ["y"]),
    ]
    proto = model(nodes, {"most": np.float32([-1, 0, 1, -3]), "zero": np.float32(0)})
    assert [node.kind for node in dgo.from_onnx(proto).nodes] == ["Pad"]


def test_views_that_must_be_copied_are_counted():
    wide = np.broadcast_to(np.float32(1), (64, 64))
    node = OnnxNode("z", "Reshape", "", "", 18, ("a", "s"), ("z",), {})
    assert ROWS["Reshape"].size(node, [wide, whole(-1)]) == wide.nbytes
    assert ROWS["Reshape"].size(node, [wide.copy(), whole(-1)]) == 0


@pytest.mark.slow
def test_weights_may_be_cast_and_turned():
    """More than the budget of a small file, because the model holds half of it."""
    half = np.zeros((1 << 13, 1 << 13), np.float16)
    nodes = [
        helper.make_node("Cast", ["w"], ["a"], to=1),
        helper.make_node("Transpose", ["a"], ["b"]),
        helper.make_node("MatMul", ["x", "b"], ["y"]),
    ]
    graph = dgo.from_onnx(model(nodes, {"w": half}, shape=(1, 1 << 13)))
    assert [node.kind for node in graph.nodes] == ["MatMul"]


@pytest.mark.parametrize("kind", ["Exp", "QuantizeLinear"])
def test_one_result_of_constants_is_given_and_another_is_read(kind):
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["m"]),
        helper.make_node("TopK", ["m", "k"], ["v", "places"], axis=0),
        helper.make_node(kind, ["v"] if kind == "Exp" else ["v", "s", "z"], ["z0"]),
        helper.make_node("Unsqueeze", ["z0", "k"], ["z1"]),
    ]
    known = {"a": COLUMN.T, "b": COLUMN, "k": whole(1), "s": np.float32(2), "z": np.int8(0)}
    proto = model(nodes, known)
    proto.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in ("z1", "places"))
    x = np.zeros((2, 3), np.float32)
    found = dgo.from_onnx(proto).compile().run({"x": x})
    for result, expected in zip(found.values(), reference(proto, {"x": x}), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_weights_that_a_batch_norm_in_training_standardizes_are_ops():
    """As ops they are folded, and the layer's weights are a constant; NumPy's function would be unknown to passes."""
    rng = np.random.default_rng(2)
    constants = {
        "w": rng.standard_normal((1, 8, 27)).astype(np.float32),
        "shape": whole(8, 3, 3, 3),
        "axes": whole(0, 2),
        **{name: rng.uniform(0.5, 2, 8).astype(np.float32) for name in ("scale", "shift", "old_variance")},
    }
    results = ["n", "mean", "variance"]
    normalized = ["w", "scale", "shift", "old_mean", "old_variance"]
    nodes = [
        helper.make_node("ReduceMean", ["w", "axes"], ["old_mean"], keepdims=0),
        helper.make_node("BatchNormalization", normalized, results, training_mode=1, momentum=0.75, epsilon=1e-3),
        helper.make_node("Reshape", ["n", "shape"], ["k"]),
        helper.make_node("Conv", ["x", "k"], ["y"]),
    ]
    proto = model(nodes, constants, outputs=("y", "mean", "variance"), shape=(1, 3, 6, 6))
    graph = dgo.from_onnx(proto)
    assert "Wildcard" not in {node.kind for node in graph.nodes}
    x = rng.standard_normal((1, 3, 6, 6)).astype(np.float32)
    statistics = graph.compile().run({"x": x})
    data = constants["w"].astype(np.float64)
    mean, variance = data.mean((0, 2), keepdims=True), data.var((0, 2), keepdims=True)
    np.testing.assert_allclose(statistics["mean"], mean.reshape(-1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        statistics["variance"], 0.75 * constants["old_variance"] + 0.25 * variance.reshape(-1), rtol=1e-5
    )
    scale, shift = constants["scale"].reshape(1, -1, 1), constants["shift"].reshape(1, -1, 1)
    constants["k"] = ((data - mean) / np.sqrt(variance + 1e-3) * scale + shift).reshape(8, 3, 3, 3).astype(np.float32)
    (expected,) = reference(model(nodes[-1:], {"k": constants["k"]}, shape=(1, 3, 6, 6)), {"x": x})
    np.testing.assert_allclose(statistics["y"], expected, rtol=1e-4, atol=1e-4)
