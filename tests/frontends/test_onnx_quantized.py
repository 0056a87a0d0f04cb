"""What ONNX Runtime's own quantizer writes, against ONNX Runtime."""

import numpy as np
import pytest
from children import check_right_cases

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the quantizer and the reference")

from onnx import TensorProto, helper  # noqa: E402
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402

from .models import model, reference  # noqa: E402

RNG = np.random.default_rng(2)
SHAPE = (1, 3, 8, 8)


def noise(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def floats():
    """Convolution, ConvTranspose and Gemm, with what lies between them in a small net."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], name="conv"),
        node("Relu", ["c1"], ["r1"], name="relu"),
        node("ConvTranspose", ["r1", "w2", "b2"], ["c2"], strides=[2, 2], name="up"),
        node("MaxPool", ["c2"], ["p"], kernel_shape=[2, 2], strides=[2, 2], name="pool"),
        node("GlobalAveragePool", ["p"], ["g"], name="mean"),
        node("Flatten", ["g"], ["f"], name="flat"),
        node("Gemm", ["f", "w3", "b3"], ["y"], transB=1, name="gemm"),
    ]
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 6, 2, 2), "b2": (6,), "w3": (5, 6), "b3": (5,)}
    proto = model(nodes, {"x": SHAPE}, ["y"], {name: noise(*shape) for name, shape in shapes.items()}, opset=17)
    # the quantizer infers shapes
    proto.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, (1, 5)))
    return proto


class Samples(CalibrationDataReader):
    def __init__(self):
        self.rest = iter([{"x": noise(*SHAPE)} for _ in range(4)])

    def get_next(self):
        return next(self.rest, None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"per_channel": True},
        {"activation_type": QuantType.QUInt8},
        {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8},
        {"extra_options": {"ActivationSymmetric": True}},
    ],
    ids=["defaults", "per_channel", "u8", "u8 weights", "symmetric"],
)
def test_quantize_static(options, tmp_path):
    onnx.save(floats(), tmp_path / "float.onnx")
    quantize_static(tmp_path / "float.onnx", tmp_path / "int8.onnx", Samples(), **options)
    proto = onnx.load(tmp_path / "int8.onnx")
    shapes = {item.name: tuple(item.dims) for item in proto.graph.initializer}
    if not options.get("per_channel"):
        assert shapes["b1_quantized_scale"] == (1,) and shapes["b1_quantized_zero_point"] == ()
    x = noise(*SHAPE)
    net = dgo.from_onnx(proto).compile()
    (expected,) = reference(proto, {"x": x}, literal=True)
    (scale,) = (onnx.numpy_helper.to_array(item) for item in proto.graph.initializer if item.name == "y_scale")
    # sums in another order may fall on the other side of a rounding
    assert np.abs((net(x) - expected) / scale).max() <= 1.01


def joined():
    """Layers whose operators on quantized tensors ONNX Runtime has contributed."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], name="conv"),
        node("LeakyRelu", ["c1"], ["r1"], alpha=0.2, name="leaky"),
        node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], group=2, name="grouped"),
        node("Add", ["c2", "r1"], ["a"], name="add"),
        node("Sigmoid", ["a"], ["s"], name="sigmoid"),
        node("Mul", ["a", "s"], ["m"], name="product"),
        node("Concat", ["m", "r1"], ["j"], axis=1, name="join"),
        node("AveragePool", ["j"], ["p"], kernel_shape=[2, 2], strides=[2, 2], name="pool"),
        node("GlobalAveragePool", ["p"], ["g"], name="mean"),
        node("Flatten", ["g"], ["f"], name="flat"),
        node("MatMul", ["f", "w3"], ["h"], name="matmul"),
        node("Gemm", ["h", "w4", "b4"], ["y"], transB=1, name="gemm"),
    ]
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 4, 3, 3), "w3": (16, 6), "w4": (5, 6), "b4": (5,)}
    proto = model(nodes, {"x": SHAPE}, ["y"], {name: noise(*shape) for name, shape in shapes.items()}, opset=17)
    proto.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, (1, 5)))
    return proto


@pytest.mark.parametrize("per_channel", [False, True])
def test_operators_on_quantized_tensors(per_channel, tmp_path):
    onnx.save(joined(), tmp_path / "float.onnx")
    arguments = (tmp_path / "float.onnx", tmp_path / "int8.onnx", Samples())
    quantize_static(*arguments, quant_format=QuantFormat.QOperator, per_channel=per_channel)
    proto = onnx.load(tmp_path / "int8.onnx")
    kinds = {node.op_type for node in proto.graph.node}
    assert {"QLinearConv", "QLinearAdd", "QLinearConcat", "QLinearGlobalAveragePool"} <= kinds
    x = noise(*SHAPE)
    net = dgo.from_onnx(proto).compile()
    (expected,) = reference(proto, {"x": x})
    scales = {
        item.name: float(np.ravel(onnx.numpy_helper.to_array(item))[0])
        for item in proto.graph.initializer
        if item.name.endswith("_scale")
    }
    assert np.abs(net(x) - expected).max() <= 1.5 * max(scales["h_scale"], scales.get("y_scale", 0.0))
    # nothing is left to NumPy
    assert not any("NumPy" in step.implementation or "onnx" in step.implementation for step in net.explain().steps)


@pytest.mark.parametrize("shapes", [((1,), ()), ((), (1,)), ((1,), (1,)), ((), ()), ((1, 1), (1,))])
@pytest.mark.parametrize("kind", ["QuantizeLinear", "DequantizeLinear"])
def test_one_scale_and_one_zero_point_of_any_shape(kind, shapes):
    first, second = np.full(shapes[0], 0.5, np.float32), np.full(shapes[1], 3, np.uint8)
    pair = {"s": first, "z": second}
    there = helper.make_node("QuantizeLinear", ["x", *(["s", "z"] if kind == "QuantizeLinear" else ["t", "u"])], ["q"])
    back = helper.make_node(
        "DequantizeLinear", ["q", *(["s", "z"] if kind == "DequantizeLinear" else ["t", "u"])], ["y"]
    )
    proto = model([there, back], {"x": (2, 3)}, ["y"], {**pair, "t": np.float32(0.5), "u": np.uint8(3)})
    x = np.float32([[0, 1, 2], [-1, 4, 8]])
    np.testing.assert_array_equal(dgo.from_onnx(proto).compile()(x), np.clip(x, -1.5, 126))


def test_scales_and_zero_points_of_unlike_sizes_are_refused():
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=1)
    for scales, points in ((3, 1), (1, 3), (3, 2)):
        proto = model([node], {"x": (2, 3)}, ["y"], {"s": np.ones(scales, np.float32), "z": np.zeros(points, np.uint8)})
        with pytest.raises(dgo.ShapeError, match="zero point"):
            dgo.from_onnx(proto)


def test_a_type_that_has_no_op_is_named():
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    proto = model([node], {"x": (2, 3)}, ["y"], {"s": np.float32(1), "z": np.int16(0)})
    with pytest.raises(dgo.UnsupportedError, match="int16"):
        dgo.from_onnx(proto)


EACH = 50


@pytest.mark.child
@pytest.mark.cases(50, 100, 10_000, each=EACH)
@pytest.mark.parametrize("limit", ["DEFAULT", "AVX2"])
def test_random_models_on_integers(seed, start, limit):
    check_right_cases("frontends.quantized_models", seed, start, start + EACH, limit)
