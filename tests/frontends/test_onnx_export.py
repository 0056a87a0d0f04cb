"""Graphs written as ONNX models, which ONNX Runtime, OpenVINO and `from_onnx` read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.frontends.onnx.export import RULES, to_onnx
from dnnl_graph_ops.quantize import calibrate

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
runtime = pytest.importorskip("onnxruntime", reason="the reference")

V = dgo.Value
RNG = np.random.default_rng(7)


def some(*shape: int) -> np.ndarray:
    return RNG.uniform(0.25, 1.5, shape).astype(np.float32)


def by_runtime(model, *arrays: np.ndarray) -> list[np.ndarray]:
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {one.name: array for one, array in zip(session.get_inputs(), arrays, strict=True)})


WINDOW = {"strides": (2, 1), "pads_begin": (1, 0), "pads_end": (1, 1)}
CHANNELS = some(4), some(4), some(4), some(4)
# of data of 2 x 4 x 6 x 5, and x 4 with channels last; several forms of a kind
FIRST: dict[str, list[Callable[[V], V]]] = {
    "Abs": [ops.abs],
    "Add": [lambda x: x + some(4, 1, 1)],
    "AvgPool": [
        partial(ops.avg_pool, kernel=(3, 2), exclude_pad=e, rounding_type=r, data_format="NCX", **WINDOW)
        for e, r in ((True, "floor"), (False, "floor"))
    ],
    "BatchNormInference": [lambda x: ops.batch_norm_inference(x, *CHANNELS, epsilon=1e-3, data_format="NCX")],
    "BiasAdd": [lambda x: ops.bias_add(x, CHANNELS[0], data_format="NCX")],
    "Clamp": [lambda x: ops.clamp(x, min=-0.25, max=0.5)],
    "Concat": [lambda x: ops.concat(x, ops.relu(x), axis=-1)],
    "ConvTranspose": [
        lambda x: ops.conv_transpose(
            x, some(4, 3, 3, 2), some(6), groups=2, output_padding=(1, 0), dilations=(1, 2), data_format="NCX",
            weights_format="IOX", **WINDOW,
        ),
        lambda x: ops.conv_transpose(x, some(3, 2, 6, 4), data_format="NCX", weights_format="XOI"),
    ],
    "Convolution": [
        lambda x: ops.convolution(
            x, some(6, 2, 3, 2), some(6), groups=2, data_format="NCX", weights_format="OIX", **WINDOW
        ),
        lambda x: ops.convolution(x, some(3, 2, 4, 6), data_format="NCX", weights_format="XIO"),
    ],
    "Cos": [ops.cos],
    "Dequantize": [
        lambda x: ops.dequantize(
            ops.quantize(x, scales=[0.1, 0.2, 0.3, 0.4], zps=[3] * 4, qtype="per_channel", axis=1, dtype="u8"),
            scales=[0.1, 0.2, 0.3, 0.4], zps=[3] * 4, qtype="per_channel", axis=1,
        )
    ],
    "Divide": [lambda x: x / some(1)],
    "Elu": [lambda x: ops.elu(x, alpha=0.5)],
    "Erf": [ops.erf],
    "Exp": [ops.exp],
    "GELU": [ops.gelu, lambda x: ops.gelu(x, mode="gelu_tanh")],
    "Gather": [lambda x: ops.gather(x, np.array([2, 0, 1], np.int32), axis=1)],
    "GreaterEqual": [lambda x: ops.select(x >= some(1), x, ops.abs(x))],
    "GroupNorm": [
        lambda x: ops.group_norm(x, *CHANNELS[:2], groups=2, keep_stats=False, data_format="NCX"),
        lambda x: ops.group_norm(x, groups=4, keep_stats=False, use_affine=False, data_format="NCX"),
    ],
    "HardSigmoid": [lambda x: ops.hard_sigmoid(x, alpha=0.3, beta=0.4)],
    "HardSwish": [ops.hard_swish],
    "Interpolate": [
        lambda x: ops.interpolate(x, sizes=(9, 10), mode="nearest", data_format="NCX"),
        lambda x: ops.interpolate(x, sizes=(9, 10), mode="bilinear", data_format="NCX"),
        lambda x: ops.interpolate(
            x, sizes=(9, 4), mode="bilinear", data_format="NCX", coordinate_transformation_mode="align_corners"
        ),
    ],
    "LayerNorm": [
        lambda x: ops.layer_norm(x, some(5), some(5), keep_stats=False),
        lambda x: ops.layer_norm(x, begin_norm_axis=2, keep_stats=False, use_affine=False),
    ],
    "LeakyReLU": [lambda x: ops.leaky_relu(x, alpha=0.1)],
    "Log": [lambda x: ops.log(ops.abs(x))],
    "LogSoftmax": [lambda x: ops.log_softmax(x, axis=1)],
    "MatMul": [
        lambda x: ops.matmul(x, some(5, 3), some(3)),
        lambda x: ops.matmul(x, some(3, 6), transpose_a=True, transpose_b=True),
    ],
    "MaxPool": [
        partial(ops.max_pool, kernel=(3, 2), rounding_type=r, dilations=(1, 2), data_format="NCX", **WINDOW)
        for r in ("floor", "ceil")
    ],
    "Maximum": [lambda x: ops.maximum(x, some(5))],
    "Minimum": [lambda x: ops.minimum(x, some(5))],
    "Mish": [ops.mish],
    "Multiply": [lambda x: x * some(5)],
    "PReLU": [lambda x: ops.prelu(x, CHANNELS[0], data_format="NCX")],
    "Pad": [partial(ops.pad, pads_begin=(0, 0, 1, 2), pads_end=(0, 1, 0, 2), mode=m) for m in ("edge", "constant")],
    "Pow": [lambda x: ops.pow(ops.abs(x), beta=1.5)],
    "Quantize": [lambda x: ops.dequantize(ops.quantize(x, scales=[0.1], zps=[-3], dtype="s8"), scales=[0.1], zps=[-3])],
    "ReLU": [ops.relu],
    "Reciprocal": [lambda x: ops.reciprocal(ops.abs(x) + 1.0)],
    **{
        f"Reduce{name}": [
            partial(getattr(ops, f"reduce_{name.lower()}"), axes=(1, -1), keep_dims=keep) for keep in (False, True)
        ]
        for name in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum")
    },
    "Round": [lambda x: ops.round(x * 3.0)],
    "Select": [lambda x: ops.select(x >= 0.0, x, ops.exp(x))],
    "Sigmoid": [ops.sigmoid],
    "Sin": [ops.sin],
    "Slice": [lambda x: ops.slice(x, starts=(1, 3), ends=(6, 0), axes=(2, 3), steps=(2, -1)), lambda x: x[:, 1:3]],
    "SoftMax": [lambda x: ops.softmax(x, axis=1)],
    "SoftPlus": [ops.softplus, lambda x: ops.softplus(x, beta=2.0)],
    "Sqrt": [lambda x: ops.sqrt(ops.abs(x))],
    "Square": [ops.square],
    "SquaredDifference": [lambda x: ops.squared_difference(x, ops.relu(x))],
    "StaticReshape": [lambda x: x.reshape(2, -1), lambda x: ops.static_reshape(x, shape=(0, 0, -1), special_zero=True)],
    "StaticTranspose": [lambda x: ops.static_transpose(x, order=(3, 0, 2, 1))],
    "Subtract": [lambda x: x - some(4, 1, 1)],
    "Tanh": [ops.tanh],
    "TypeCast": [lambda x: ops.type_cast(ops.type_cast(x, dtype="f16"), dtype="f32")],
}  # fmt: skip
LAST: dict[str, list[Callable[[V], V]]] = {
    "AvgPool": [lambda x: ops.avg_pool(x, kernel=(3, 2), exclude_pad=True, **WINDOW)],
    "BatchNormInference": [lambda x: ops.batch_norm_inference(x, *CHANNELS, epsilon=1e-3)],
    "BiasAdd": [lambda x: ops.bias_add(x, CHANNELS[0])],
    "ConvTranspose": [lambda x: ops.conv_transpose(x, some(3, 2, 6, 4), **WINDOW)],
    "Convolution": [lambda x: ops.convolution(x, some(3, 2, 4, 6), some(6), **WINDOW)],
    "GroupNorm": [lambda x: ops.group_norm(x, *CHANNELS[:2], groups=2, keep_stats=False)],
    "Interpolate": [lambda x: ops.interpolate(x, sizes=(12, 15), mode="nearest")],
    "MaxPool": [lambda x: ops.max_pool(x, kernel=(2, 2), **WINDOW)],
    "PReLU": [lambda x: ops.prelu(x, CHANNELS[0])],
}
CASES = [(kind, form, last) for last, table in enumerate((FIRST, LAST)) for kind in table for form in table[kind]]


def test_every_op_that_is_written_is_a_case() -> None:
    assert set(FIRST) == set(RULES)


@pytest.mark.parametrize(("kind", "form", "last"), CASES, ids=[f"{kind} {'NXC' * last}" for kind, _, last in CASES])
def test_one_op(kind: str, form: Callable[[V], V], last: bool) -> None:
    g = dgo.Graph()
    x = RNG.standard_normal((2, 6, 5, 4) if last else (2, 4, 6, 5)).astype(np.float32)
    y = form(g.input("x", x.shape))
    assert kind in {node.kind for node in g.nodes}
    want = g.compile(y)(x)
    (got,) = by_runtime(to_onnx(g, {"y": y}), x)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_names_unknown_sizes_and_outputs_that_are_no_ops() -> None:
    g = dgo.Graph(name="named")
    x = g.input("relu", (None, 3))
    w = g.constant(some(3, 3), "number")
    y = ops.matmul(ops.relu(x), w, name="product")
    outputs = {"first": y, "product": y, "relu_again": x, "weights": w, "other": ops.abs(y)}
    model = to_onnx(g, outputs)
    data = RNG.standard_normal((4, 3)).astype(np.float32)
    got = dict(zip(outputs, by_runtime(model, data), strict=True))
    want = g.compile(outputs).run({"relu": data})
    for name in outputs:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5)
    again = dgo.from_onnx(model).compile()
    assert again.input_names == ("relu",) and again.output_names == tuple(outputs)


def test_what_is_not_written_is_listed() -> None:
    g = dgo.Graph()
    x = g.input("x", (1, 3, 6, 4))
    y = ops.convolution(x, g.constant(some(3, 3, 4, 4)), auto_pad="same_upper", name="conv")
    z = ops.relu_backward(ops.square(y), y, name="gradient")
    with pytest.raises(dgo.UnsupportedError, match=r"(?s)'conv': pads that depend on sizes.*'gradient': no operator"):
        to_onnx(g, {"z": z})


def quantized_net(fmt: str) -> tuple[dgo.Graph, np.ndarray]:
    """A convolution with bias, a sum, groups, a ConvTranspose and a MatMul behind each other."""
    g = dgo.Graph(name="several")
    x = g.input("x", (2, 8, 6, 5) if fmt == "NCX" else (2, 6, 5, 8))
    normal = np.random.default_rng(20260101).standard_normal  # not of numbers that other tests draw before
    w = [normal(shape).astype(np.float32) for shape in ((16, 8, 3, 3), (16, 8, 1, 1), (16, 8, 2, 2), (20, 24))]
    bias = normal(16).astype(np.float32)
    y = ops.convolution(x, w[0], bias, pads_begin=1, pads_end=1, data_format=fmt, weights_format="OIX")
    y = ops.convolution(ops.relu(y), w[1], bias, groups=2, data_format=fmt, weights_format="OIX") + y
    y = ops.conv_transpose(y, w[2], normal(8).astype(np.float32), strides=2, data_format=fmt, weights_format="IOX")
    y = y.reshape(2, -1, 20) if fmt == "NCX" else ops.static_transpose(y, order=(0, 3, 1, 2)).reshape(2, -1, 20)
    g.outputs["y"] = ops.matmul(y, w[3], normal(24).astype(np.float32))
    return g, normal(g.inputs[0].shape).astype(np.float32)


@pytest.mark.parametrize("ranges", ["minmax", "mse"])
@pytest.mark.parametrize("fmt", ["NCX", "NXC"])
def test_quantized_graphs_give_the_same_numbers(fmt: str, ranges, tmp_path) -> None:
    """Read again they are bit-equal; ONNX Runtime rounds what lies between, and ends within one quantum."""
    graph, x = quantized_net(fmt)
    found = calibrate(graph, [x], ranges=ranges)
    assert len(found.layers) == 4 and found.errors[0].signal_to_noise_db > 25
    model = found.to_onnx(tmp_path / "net.onnx")
    want = found.compile()(x)
    np.testing.assert_array_equal(dgo.from_onnx(tmp_path / "net.onnx").compile()(x), want)
    (got,) = by_runtime(model, x)
    last = found.layers[-1]
    quantum = last.src_scale * max(last.weight_scales) * 127
    assert np.abs(got - want).max() <= quantum


def test_a_saved_net_is_the_same(tmp_path) -> None:
    graph, x = quantized_net("NCX")
    net = calibrate(graph, [x]).compile()
    net.save(tmp_path / "net.dgo")
    np.testing.assert_array_equal(dgo.load(tmp_path / "net.dgo")(x), net(x))


@pytest.mark.slow
def test_openvino_reads_it() -> None:
    openvino = pytest.importorskip("openvino", reason="a reader")
    graph, x = quantized_net("NCX")
    found = calibrate(graph, [x])
    core = openvino.Core()
    model = core.read_model(found.to_onnx().SerializeToString())
    got = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]
    want = found.compile()(x)
    # its quantized layers may round twice
    assert 10 * np.log10(np.square(want).sum() / np.square(got - want).sum()) > 30
