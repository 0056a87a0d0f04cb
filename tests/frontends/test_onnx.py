"""from_onnx: ONNX's own node cases, exported models, single nodes against ONNX Runtime; what is refused."""

import os

import numpy as np
import pytest
from children import child

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")
pytest.importorskip("torch", reason="exports the models")

from onnx import TensorProto, helper  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402

from .models import UNet, dcgan_generator, exported, model, parsed, reference, single  # noqa: E402
from .node_cases import node_cases, ops_of  # noqa: E402

RNG = np.random.default_rng(0)


def noise(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def agree(proto, inputs, tolerance=1e-5):
    """Compile, run, and compare all outputs with ONNX Runtime."""
    net = dgo.from_onnx(proto).compile()
    expected = reference(proto, inputs)
    found = list(net.run(inputs).values())
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    return net


# -- ONNX's own cases of ConvTranspose ---


@pytest.mark.slow
def test_node_cases():
    """In one test: the cases take seconds to generate, which must not slow down the collection of others."""
    cases, wrong = [case for case in node_cases() if ops_of(case) == "ConvTranspose"], []
    for case in cases:
        net = dgo.from_onnx(case.model).compile()
        for inputs, (expected,) in case.data_sets:
            found = net(*inputs)
            if found.shape != expected.shape or not np.allclose(found, expected, case.rtol, case.atol):
                wrong.append(case.name)
    assert not wrong
    assert {"test_convtranspose_output_shape", "test_convtranspose_autopad_same"} <= {c.name for c in cases}


# -- exported models ---


@pytest.mark.parametrize(
    "build, shape", [(UNet, (2, 3, 16, 24)), (dcgan_generator, (2, 20, 1, 1))], ids=["unet", "dcgan"]
)
def test_exported_by_pytorch(build, shape, tmp_path):
    content, x = exported(build(), *shape)
    (expected,) = reference(content, {parsed(content).graph.input[0].name: x})
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    for source in (str(path), path, content, parsed(content)):
        graph = dgo.from_onnx(source)
        assert len(graph.inputs) == 1 and len(graph.outputs) == 1
    found = graph.compile()(x)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-5


# -- single nodes ---

CONV_TRANSPOSE = [
    {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
    {"auto_pad": "SAME_UPPER", "strides": [3, 2], "dilations": [2, 1]},
    {"auto_pad": "VALID", "strides": [2, 2]},
    {"output_shape": [12, 17], "strides": [2, 3]},
    {"output_shape": [12, 13], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"pads": [1, 0, 2, 1], "output_padding": [1, 0], "strides": [2, 2], "group": 2},
    {"dilations": [2, 3], "group": 4, "pads": [0, 1, 1, 0]},
]


@pytest.mark.parametrize("attrs", CONV_TRANSPOSE, ids=lambda a: "-".join(a))
def test_conv_transpose(attrs):
    weights = noise(4, 3, 3, 4)
    bias = noise(3 * attrs.get("group", 1))
    agree(*single("ConvTranspose", noise(2, 4, 5, 6), weights, bias, known=(1, 2), **attrs), tolerance=1e-4)


IMAGE = noise(2, 4, 9, 7)
SMALL = np.abs(noise(2, 4, 5)) + 0.1
ints = np.array
NODES = {
    "conv": ("Conv", [IMAGE, noise(6, 2, 3, 3), noise(6)], {"group": 2, "pads": [1, 0, 2, 1]}),
    "conv_same_upper": ("Conv", [IMAGE, noise(3, 4, 4, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "conv_same_lower": ("Conv", [IMAGE, noise(3, 4, 4, 3)], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "conv_1d": ("Conv", [SMALL, noise(3, 4, 2)], {"dilations": [2]}),
    "conv_filter": (
        "Conv",
        [noise(9, 1, 8, 7), noise(1, 1, 3, 4), noise(1)],
        {"pads": [1, 0, 2, 1], "strides": [2, 1]},
    ),
    "conv_filter_1d": ("Conv", [noise(8, 1, 20), noise(1, 1, 3)], {"dilations": [2]}),
    "gemm": ("Gemm", [noise(3, 5), noise(4, 5), noise(4)], {"transB": 1}),
    "gemm_scaled": (
        "Gemm",
        [noise(5, 3), noise(5, 4), noise(3, 1)],
        {"transA": 1, "alpha": 0.5, "beta": 2.0},
    ),
    "matmul_batched": ("MatMul", [noise(2, 3, 4), noise(4, 5)], {}),
    "max_pool_last_dropped": ("MaxPool", [IMAGE], {"kernel_shape": [2, 2], "strides": [5, 4], "ceil_mode": 1}),
    "average_pool_last_dropped": ("AveragePool", [IMAGE], {"kernel_shape": [1, 2], "strides": [6, 4], "ceil_mode": 1}),
    "max_pool": ("MaxPool", [IMAGE], {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    "max_pool_dilated": (
        "MaxPool",
        [IMAGE],
        {"kernel_shape": [2, 2], "dilations": [2, 3], "pads": [1, 0, 1, 0]},
    ),
    "avg_pool": ("AveragePool", [IMAGE], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "avg_pool_padding": (
        "AveragePool",
        [IMAGE],
        {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "count_include_pad": 1},
    ),
    "global_avg": ("GlobalAveragePool", [IMAGE], {}),
    "global_max": ("GlobalMaxPool", [IMAGE], {}),
    "batch_norm": (
        "BatchNormalization",
        [IMAGE, noise(4), noise(4), noise(4), np.abs(noise(4))],
        {"epsilon": 1e-3},
    ),
    "layer_norm": ("LayerNormalization", [IMAGE, noise(7), noise(7)], {}),
    "layer_norm_axis": ("LayerNormalization", [IMAGE, noise(9, 7)], {"axis": 2}),
    "instance_norm": ("InstanceNormalization", [IMAGE, noise(4), noise(4)], {}),
    "leaky": ("LeakyRelu", [SMALL - 1], {"alpha": 0.3}),
    "hard_sigmoid": ("HardSigmoid", [SMALL - 1], {}),
    "elu": ("Elu", [SMALL - 1], {"alpha": 0.7}),
    "celu": ("Celu", [SMALL - 1], {"alpha": 0.7}),
    "selu": ("Selu", [SMALL - 1], {}),
    "clip": ("Clip", [SMALL - 1, np.float32(-0.2), np.float32(0.3)], {}),
    "clip_low": ("Clip", [SMALL - 1, np.float32(0.1)], {}),
    "prelu_channel": ("PRelu", [IMAGE, noise(4, 1, 1)], {}),
    "prelu_full": ("PRelu", [IMAGE, noise(9, 7)], {}),
    "softmax": ("Softmax", [SMALL], {"axis": 1}),
    "log_softmax": ("LogSoftmax", [SMALL], {}),
    "add_scalar": ("Add", [SMALL, np.float32(2.5)], {}),
    "sub_known_first": ("Sub", [SMALL, noise(4, 1)], {}),
    "max": ("Max", [SMALL, noise(5), noise(4, 1)], {}),
    "mean": ("Mean", [SMALL, noise(5), noise(4, 1)], {}),
    "square": ("Pow", [SMALL, np.float32(2)], {}),
    "power": ("Pow", [SMALL, np.float32(2.5)], {}),
    "reshape": ("Reshape", [SMALL, ints([0, -1, 2, 2, 5])], {}),
    "flatten": ("Flatten", [IMAGE], {"axis": 2}),
    "squeeze": ("Squeeze", [noise(2, 1, 3), ints([1])], {}),
    "unsqueeze": ("Unsqueeze", [SMALL, ints([0, -1])], {}),
    "transpose": ("Transpose", [IMAGE], {"perm": [0, 2, 3, 1]}),
    "depth_to_space": ("DepthToSpace", [noise(2, 12, 3, 5)], {"blocksize": 2}),
    "pixel_shuffle": ("DepthToSpace", [noise(2, 18, 3, 5)], {"blocksize": 3, "mode": "CRD"}),
    "space_to_depth": ("SpaceToDepth", [noise(2, 3, 6, 4)], {"blocksize": 2}),
    "concat": ("Concat", [SMALL, noise(2, 1, 5)], {"axis": -2}),
    "reduce_mean": ("ReduceMean", [IMAGE, ints([-1, 1])], {"keepdims": 0}),
    "reduce_l2": ("ReduceL2", [IMAGE], {}),
    "reduce_log_sum_exp": ("ReduceLogSumExp", [IMAGE * 100, ints([1, -1])], {"keepdims": 0}),
    "reduce_log_sum_exp_all": ("ReduceLogSumExp", [IMAGE], {}),
    "reduce_squares": ("ReduceSumSquare", [IMAGE, ints([2])], {}),
    "resize_nearest": (
        "Resize",
        [IMAGE, None, np.float32([1, 1, 2, 3])],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "resize_nearest_elsewhere": (
        "Resize",
        [IMAGE, None, None, ints([2, 4, 13, 3])],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "resize_nearest_elsewhere_and_by_2": (
        "Resize",
        [IMAGE, None, np.float32([1, 1, 1.5, 2])],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "resize_linear": ("Resize", [IMAGE, None, None, ints([2, 4, 13, 10])], {"mode": "linear"}),
    "resize_corners": (
        "Resize",
        [IMAGE, None, None, ints([2, 4, 17, 10])],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
}
UNARY = [
    "Abs",
    "Exp",
    "HardSwish",
    "Log",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tanh",
]
NODES |= {name.lower(): (name, [SMALL], {}) for name in UNARY}


@pytest.mark.parametrize("name", NODES)
def test_node(name):
    op_type, arrays, attrs = NODES[name]
    first = 0 if name == "sub_known_first" else None
    known = [i for i in range(len(arrays)) if (i == first if first is not None else i > 0)]
    agree(*single(op_type, *arrays, known=known, **attrs), tolerance=1e-4)


@pytest.mark.parametrize("mode", ["none", "tanh"])
def test_gelu(mode):
    agree(*single("Gelu", noise(3, 4), opset=20, approximate=mode))


def test_softmax_before_opset_13_runs_over_the_rest():
    agree(*single("Softmax", noise(2, 3, 4), opset=11, axis=1))


def test_symbolic_dims_are_known_at_the_call():
    weights = noise(4, 3, 3, 3)
    proto, _ = single("ConvTranspose", noise(1, 4, 1, 1), weights, known=(1,), strides=[2, 2], auto_pad="SAME_UPPER")
    for axis in (0, 2, 3):
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"d{axis}"
    graph = dgo.from_onnx(proto)
    assert graph.inputs[0].shape == (None, 4, None, None)
    net = graph.compile()
    for shape in ((1, 4, 5, 6), (2, 4, 3, 3)):
        x = noise(*shape)
        np.testing.assert_allclose(net(x), reference(proto, {"x0": x})[0], atol=1e-4)


def test_sizes_computed_from_shapes_are_folded():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    proto = model(nodes, {"x": (2, 3, 4)}, ["y"], {"first": ints([0]), "rest": ints([-1])})
    net = agree(proto, {"x": noise(2, 3, 4)})
    assert [node.kind for node in net.graph.nodes] == ["StaticReshape"]


def test_outputs_keep_their_names_and_order():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Dropout", ["a"], ["b"]),
        helper.make_node("Identity", ["x"], ["c"]),
    ]
    proto = model(nodes, {"x": (3,)}, ["b", "c", "a"])
    net = agree(proto, {"x": noise(3)})
    assert net.output_names == ("b", "c", "a")


# -- QDQ ---


def quantized_up():
    """Input, weights per channel, bias and output of a ConvTranspose in QDQ form."""
    pair = {"x": (np.float32(0.05), np.uint8(120)), "y": (np.float32(0.2), np.int8(3))}
    constants = {f"{n}_{p}": v for n, values in pair.items() for p, v in zip(("s", "z"), values, strict=True)}
    constants |= {
        "w": RNG.integers(-127, 128, (3, 4, 3, 3)).astype(np.int8),
        "w_s": np.linspace(0.005, 0.02, 4, dtype=np.float32),
        "w_z": np.zeros(4, np.int8),
        "b": RNG.integers(-900, 900, 4).astype(np.int32),
        "b_s": np.linspace(0.005, 0.02, 4, dtype=np.float32) * 0.05,
        "b_z": np.zeros(4, np.int32),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_s", "x_z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "x_s", "x_z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "w_s", "w_z"], ["wd"], axis=1),
        helper.make_node("DequantizeLinear", ["b", "b_s", "b_z"], ["bd"], axis=0),
        helper.make_node("ConvTranspose", ["xd", "wd", "bd"], ["up"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["up", "y_s", "y_z"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "y_s", "y_z"], ["y"]),
    ]
    return model(nodes, {"x": (1, 3, 5, 5)}, ["y"], constants)


def test_qdq():
    proto, x = quantized_up(), noise(1, 3, 5, 5)
    graph = dgo.from_onnx(proto)
    assert [n.kind for n in graph.nodes].count("Dequantize") == 3
    (expected,) = reference(proto, {"x": x})
    steps = np.round((graph.compile()(x) - expected) / np.float32(0.2))
    # sums in another order may fall on the other side of a rounding
    assert np.abs(steps).max() <= 1 and np.mean(steps != 0) < 0.02


# -- refusals ---


def test_batch_norm_behind_conv_transpose_is_one_partition():
    content, x = exported(dcgan_generator(), 2, 20, 1, 1)
    net = dgo.from_onnx(content).compile(tune="off")
    assert [len(part.kinds) for part in net.partitions] == [4, 4, 4, 2]
    (expected,) = reference(content, {net.input_names[0]: x})
    assert np.abs(net(x) - expected).max() <= 1e-5


def test_everything_unsupported_is_listed_at_once():
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Resize", ["b", "", "scales"], ["c"], mode="cubic"),
        helper.make_node("FancyOp", ["x"], ["d"], domain="com.example"),
        helper.make_node("Softmax", ["x"], ["e"], mystery=3),
        helper.make_node("Pow", ["x", "e"], ["f"]),
        helper.make_node("NonZero", ["x"], ["g"]),
    ]
    proto = model(nodes, {"x": (1, 2, 3)}, ["c", "d", "g"], {"scales": np.float32([1, 1, 2])})
    with pytest.raises(dgo.UnsupportedError) as caught:
        dgo.from_onnx(proto)
    message = str(caught.value)
    for part in ("2 parts", "com.example.FancyOp", "mystery"):
        assert part in message, message
    for part in ("RandomNormalLike", "Relu", "cubic", "NonZero"):
        assert part not in message


def test_only_causes_are_listed():
    """Shapes behind a refused node are neither needed nor wrong."""
    node = helper.make_node
    nodes = [
        node("Strange", ["x"], ["a"]),
        node("Shape", ["a"], ["s"]),
        node("Size", ["a"], ["z"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Concat", ["n", "rest"], ["t"], axis=0),
        node("Range", ["zero", "z", "one"], ["r"]),
        node("ConstantOfShape", ["s"], ["c"]),
        node("Reshape", ["a", "t"], ["b"]),
        node("Add", ["b", "c"], ["d"]),
        node("Concat", ["d"], ["y"], domain="com.example"),
    ]
    proto = model(nodes, {"x": (2, 3)}, ["y"], {"zero": ints([0]), "one": ints([1]), "rest": ints([-1])})
    with pytest.raises(dgo.UnsupportedError) as caught:
        dgo.from_onnx(proto)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3 and "no op for Strange" in lines[1] and "com.example.Concat" in lines[2]


def test_what_reads_a_refused_initializer_says_nothing():
    node = helper.make_node
    proto = model(
        [node("Conv", ["x", "w"], ["t"]), node("Shape", ["w"], ["s"]), node("Add", ["t", "s"], ["y"])],
        {"x": (1, 2, 3)},
        ["y"],
        {"w": noise(2, 2, 1)},
    )
    proto.graph.initializer[0].data_type = TensorProto.UNDEFINED
    with pytest.raises(dgo.UnsupportedError) as caught:
        dgo.from_onnx(proto)
    assert str(caught.value).splitlines()[1:] == ["  ONNX initializer 'w': element type UNDEFINED"]


@pytest.mark.filterwarnings("error")
def test_numbers_that_are_not_finite_warn_of_nothing():
    weights, below = noise(3, 2, 1), np.float32([-9, 1])
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["t"]),
        helper.make_node("BatchNormalization", ["t", "g", "g", "g", "v"], ["y"]),
    ]
    known = {"w": weights, "g": np.float32([1, 2]), "v": below}
    found = dgo.from_onnx(model(nodes, {"x": (1, 3, 2)}, ["y"], known)).compile()(noise(1, 3, 2))
    assert np.isnan(found[:, 0]).all() and np.isfinite(found[:, 1]).all()


def test_subgraphs_in_subgraphs():
    """Deeper than a parser by recursion can go; those of a model that is given as an object are not entered."""

    def field(number, content):
        size, length = b"", len(content)
        while True:
            size, length = size + bytes([(length & 127) | (128 if length > 127 else 0)]), length >> 7
            if not length:
                return bytes([number << 3 | 2]) + size + content

    graph = b""
    for _ in range(2000):
        # GraphProto.node, NodeProto.attribute, AttributeProto.g
        graph = field(1, field(5, field(6, graph)))
    with pytest.raises(dgo.InvalidArgumentError, match="not an ONNX model"):
        dgo.from_onnx(field(7, graph))
    proto = model([helper.make_node("If", ["x"], ["y"])], {"x": (2,)}, ["y"])
    below = proto.graph
    for _ in range(2000):
        attribute = below.node.add(op_type="If").attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH)
        below = attribute.g
    with pytest.raises(dgo.InvalidArgumentError, match="more than 40 deep"):
        dgo.from_onnx(proto)


def test_types_are_named_with_a_remedy():
    relu = helper.make_node("Relu", ["x"], ["y"])
    stored = helper.make_node("Mul", ["x", "w"], ["y"])
    for proto, text in (
        (model([stored], {"x": (2,)}, ["y"], {"w": np.ones(2)}), "float64 data; .* float32"),
        (model([relu], {"x": (2,)}, ["y"], value_types=99), "99, which is no"),
    ):
        with pytest.raises(dgo.UnsupportedError, match=text):
            dgo.from_onnx(proto)


def hostile():
    x = {"x": (2, 3)}
    relu = helper.make_node("Relu", ["x"], ["y"])
    yield (
        "cycle",
        model([helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])], x, ["b"]),
        dgo.InvalidArgumentError,
    )
    yield (
        "missing tensor",
        model([helper.make_node("Add", ["x", "q"], ["y"])], x, ["y"]),
        dgo.InvalidArgumentError,
    )
    yield "missing input", model([helper.make_node("Add", ["x"], ["y"])], x, ["y"]), dgo.InvalidArgumentError
    yield "missing output", model([relu], x, ["z"]), dgo.InvalidArgumentError
    yield "made twice", model([relu, relu], x, ["y"]), dgo.InvalidArgumentError
    yield "no outputs", model([relu], x, []), dgo.InvalidArgumentError
    yield "huge input", model([relu], {"x": (1 << 40, 1 << 40)}, ["y"]), dgo.ShapeError
    yield "14 axes", model([relu], {"x": (1,) * 14}, ["y"]), dgo.ShapeError
    grown = model([helper.make_node("Add", ["x", "w"], ["y"])], x, ["y"], {"w": np.zeros((2, 3), np.float32)})
    grown.graph.initializer[0].dims[:] = [1 << 20, 1 << 20]
    yield "huge initializer", grown, dgo.InvalidArgumentError
    negative = model([helper.make_node("Add", ["x", "w"], ["y"])], x, ["y"], {"w": np.zeros((2, 3), np.float32)})
    negative.graph.initializer[0].dims[:] = [2, -1]
    yield "negative initializer", negative, dgo.ShapeError
    filled = helper.make_node("ConstantOfShape", ["n"], ["c"])
    add = helper.make_node("Add", ["x", "c"], ["y"])
    yield "huge constant", model([filled, add], x, ["y"], {"n": ints([1 << 40])}), dgo.ShapeError
    resize = helper.make_node("Resize", ["x", "", "", "n"], ["y"])
    yield (
        "huge resize",
        model([resize], {"x": (1, 1, 2, 2)}, ["y"], {"n": ints([1, 1, 1 << 40, 2])}),
        dgo.ShapeError,
    )
    wrong = helper.make_node("Relu", ["x"], ["y"])
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape="two")
    yield "wrong attribute type", model([pool], {"x": (1, 1, 4, 4)}, ["y"]), dgo.InvalidArgumentError
    zero = helper.make_node("Conv", ["x", "w"], ["y"], strides=[0, 1])
    yield (
        "stride 0",
        model([zero], {"x": (1, 1, 4, 4)}, ["y"], {"w": np.ones((1, 1, 2, 2), np.float32)}),
        dgo.Error,
    )
    far = helper.make_node("Softmax", ["x"], ["y"], axis=1 << 62)
    yield "axis", model([far], x, ["y"]), dgo.ShapeError
    yield "strings", model([wrong], x, ["y"], value_types=TensorProto.STRING), dgo.UnsupportedError
    doubled = [helper.make_node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(60)]
    doubled.append(helper.make_node("Add", ["x", "c60"], ["y"]))
    yield "doubling", model(doubled, x, ["y"], {"c0": np.ones(1 << 10, np.float32)}), dgo.UnsupportedError
    outer = [
        helper.make_node("Unsqueeze", ["c0", "a"], ["c1"]),
        helper.make_node("Mul", ["c0", "c1"], ["c2"]),
    ]
    outer.append(helper.make_node("Gather", ["c2", "x"], ["y"]))
    axis = {"c0": np.ones(1 << 14, np.float32), "a": ints([1])}
    yield "outer product", model(outer, x, ["y"], axis), dgo.UnsupportedError
    numbers = {"a": np.float32(0), "b": np.float32(9), "z": np.float32(0)}
    steps = helper.make_node("Range", ["a", "b", "z"], ["q"])
    yield "step 0", model([steps, relu], x, ["q"], numbers), dgo.InvalidArgumentError
    padded = helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_shape=[1 << 50, 2])
    ones = np.ones((1, 1, 2, 2), np.float32)
    yield "huge output_shape", model([padded], {"x": (1, 1, 4, 4)}, ["y"], {"w": ones}), dgo.InvalidArgumentError


@pytest.mark.slow
@pytest.mark.parametrize("proto, error", [pytest.param(p, e, id=n) for n, p, e in hostile()])
@pytest.mark.timeout(60)
def test_hostile(proto, error):
    with pytest.raises(error):
        dgo.from_onnx(proto)


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"not a model", b"\x3a\x05abcde"])
def test_no_model(content):
    with pytest.raises(dgo.InvalidArgumentError):
        dgo.from_onnx(content)


def test_only_ordinary_files_are_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, "/dev/zero"):
        with pytest.raises(dgo.InvalidArgumentError, match="ordinary file"):
            dgo.from_onnx(path)


def test_cut_and_damaged_files(seed):
    rng = np.random.default_rng(seed)
    content = quantized_up().SerializeToString()
    for _ in range(150):
        damaged = bytearray(content[: int(rng.integers(1, len(content)))] if rng.random() < 0.3 else content)
        for _ in range(int(rng.integers(1, 6))):
            damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
        try:
            dgo.from_onnx(bytes(damaged))
        except dgo.Error:
            pass
        except Exception as error:
            raise AssertionError(f"--seed={seed}: {type(error).__name__} for {damaged.hex()}") from error


def test_data_in_another_file(tmp_path):
    x, weights = noise(2, 3), noise(3, 40)
    proto, inputs = single("MatMul", x, weights, known=(1,))
    (expected,) = reference(proto, inputs)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    np.testing.assert_allclose(dgo.from_onnx(path).compile()(x), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(dgo.InvalidArgumentError, match="another file"):
        dgo.from_onnx(path.read_bytes())
    outside = tmp_path.parent / "outside.bin"
    outside.write_bytes(weights.tobytes())
    stored = onnx.load(path, load_external_data=False)
    for location in ("../outside.bin", str(outside), "absent.bin"):
        stored.graph.initializer[0].external_data[0].value = location
        path.write_bytes(stored.SerializeToString())
        with pytest.raises(dgo.InvalidArgumentError):
            dgo.from_onnx(path)


@pytest.mark.slow
def test_long_chains_are_read_in_linear_time():
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(3000)]
    graph = dgo.from_onnx(model(nodes[::-1], {"t0": (2,)}, ["t3000"]))
    assert len(graph.nodes) == 3000


def test_wrong_python_types():
    with pytest.raises(TypeError, match="ModelProto"):
        dgo.from_onnx(3)
    with pytest.raises(FileNotFoundError):
        dgo.from_onnx("no such file.onnx")


@pytest.mark.child
def test_without_the_package():
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import dnnl_graph_ops as dgo\n"
        "try: dgo.from_onnx('model.onnx')\n"
        "except dgo.RuntimeUnavailableError as error: print(error)"
    )
    done = child("-c", code)
    assert "pip install 'onnx" in done.stdout, done.stderr
