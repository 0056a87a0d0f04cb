"""Operators that NumPy computes, and those in parts, against ONNX Runtime: with all inputs of the call, and with the
first one only."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402

from . import one_node  # noqa: E402
from .models import reference  # noqa: E402

GENERATOR = np.random.default_rng(5)


def f32(*shape):
    return GENERATOR.standard_normal(shape).astype(np.float32)


def ints(high, *shape, low=0):
    return GENERATOR.integers(low, high, shape)


def u8(*shape):
    return ints(255, *shape).astype(np.uint8)


def i64(*numbers):
    return np.asarray(numbers, np.int64)


def cells(gates, directions=1, size=5, length=7, batch=3, inside=4):
    """X, W, R, B of a recurrent operator."""
    shapes = (length, batch, inside), (directions, gates * size, inside), (directions, gates * size, size)
    return [f32(*shape) * 0.5 for shape in (*shapes, (directions, 2 * gates * size))]


def states(directions=1, batch=3, size=5):
    return f32(directions, batch, size)


LENGTHS = np.asarray([7, 2, 5], np.int32)
TRUTH = GENERATOR.random((2, 3, 4)) < 0.5
BOXES = np.sort(GENERATOR.random((2, 20, 2, 2)), 2).reshape(2, 20, 4).astype(np.float32)
ROI = np.asarray([0, 0, 0.1, 0.3, 1, 1, 0.8, 0.6], np.float32)

# operator: inputs (None: left out), the number of outputs, the opset, attributes
CASES = {
    "lstm": ("LSTM", cells(4), 3, 22, {"hidden_size": 5}),
    "lstm lengths": ("LSTM", [*cells(4, 2), LENGTHS, states(2), states(2), f32(2, 15)], 3, 22,
                     {"hidden_size": 5, "direction": "bidirectional"}),
    "lstm reverse": ("LSTM", [*cells(4), LENGTHS], 3, 22, {"hidden_size": 5, "direction": "reverse"}),
    "gru": ("GRU", cells(3), 2, 22, {"hidden_size": 5}),
    "gru after": ("GRU", [*cells(3, 2), LENGTHS, states(2)], 2, 22,
                  {"hidden_size": 5, "direction": "bidirectional", "linear_before_reset": 1}),
    "rnn": ("RNN", [*cells(1), None, states()], 2, 22, {"hidden_size": 5, "activations": ["Relu"]}),
    "rnn others": ("RNN", cells(1, 2), 2, 22,
                   {"hidden_size": 5, "direction": "bidirectional", "activations": ["LeakyRelu", "Affine"],
                    "activation_alpha": [0.2, 0.5], "activation_beta": [0.1]}),
    **{
        f"resize {mode} {where}": ("Resize", [f32(1, 2, 5, 7), None, np.asarray([1, 1, 1.6, 0.7], np.float32)], 1, 19,
                                   {"mode": mode, "coordinate_transformation_mode": where})
        for mode in ("nearest", "linear", "cubic")
        for where in ("half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")
    },
    **{
        f"resize {mode} sizes": ("Resize", [f32(1, 2, 5, 7), None, None, i64(1, 2, 8, 4)], 1, 19,
                                 {"mode": mode, "coordinate_transformation_mode": "align_corners"})
        for mode in ("nearest", "linear", "cubic")
    },
    "resize cubic inside": ("Resize", [f32(1, 2, 5, 7), None, np.asarray([1, 1, 1.6, 0.8], np.float32)], 1, 19,
                            {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}),
    "resize antialias": ("Resize", [f32(1, 2, 9, 11), None, np.asarray([1, 1, 0.6, 0.4], np.float32)], 1, 19,
                         {"mode": "linear", "antialias": 1, "exclude_outside": 1}),
    "resize crop": ("Resize", [f32(1, 2, 5, 7), ROI, None, i64(1, 2, 8, 4)], 1, 19,
                    {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize",
                     "extrapolation_value": 9.0}),
    "resize batch": ("Resize", [f32(2, 3), None, np.asarray([2, 1.5], np.float32)], 1, 19, {"mode": "linear"}),
    **{
        f"sample {mode} {padding} {align}": ("GridSample", [f32(2, 3, 5, 6), f32(2, 4, 3, 2) * 0.9], 1, 20,
                                             {"mode": mode, "padding_mode": padding, "align_corners": align})
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for align in (0, 1)
    },
    "sample space": ("GridSample", [f32(1, 2, 4, 5, 6), f32(1, 3, 2, 4, 3)], 1, 20, {}),
    "affine": ("AffineGrid", [f32(2, 2, 3), i64(2, 3, 4, 5)], 1, 20, {}),
    "affine in 64 bits": ("AffineGrid", [f32(2, 2, 3).astype(np.float64), i64(2, 3, 4, 5)], 1, 20, {}),
    "affine space": ("AffineGrid", [f32(1, 3, 4), i64(1, 2, 3, 4, 5)], 1, 20, {"align_corners": 1}),
    "roi": ("RoiAlign", [f32(2, 3, 9, 8), f32(4, 4) * 9, ints(2, 4)], 1, 16,
            {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.7}),
    "roi max": ("RoiAlign", [f32(2, 3, 9, 8), np.abs(f32(4, 4)) * 5, ints(2, 4)], 1, 16,
                {"output_height": 2, "output_width": 2, "sampling_ratio": 3, "mode": "max"}),
    "deformed": ("DeformConv", [f32(2, 6, 7, 8), f32(4, 3, 3, 2), f32(2, 24, 4, 7), f32(4), f32(2, 12, 4, 7)], 1, 19,
                 {"group": 2, "offset_group": 2, "kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 0]}),
    "boxes": ("NonMaxSuppression", [BOXES, f32(2, 3, 20), i64(7), np.float32([0.2]), np.float32([0.1])], 1, 11, {}),
    "boxes by centres": ("NonMaxSuppression", [BOXES, f32(2, 3, 20), i64(7), np.float32([0.3])], 1, 11,
                         {"center_point_box": 1}),
    "scatter": ("ScatterElements", [f32(4, 5), ints(4, 2, 5, low=-4), f32(2, 5)], 1, 18, {"reduction": "add"}),
    "scatter max": ("ScatterElements", [f32(4, 5), ints(5, 4, 3), f32(4, 3)], 1, 18, {"reduction": "max", "axis": 1}),
    "scatter rows": ("ScatterND", [f32(4, 5, 2), ints(4, 3, 2), f32(3, 2)], 1, 18, {"reduction": "mul"}),
    "scatter once": ("ScatterND", [f32(4, 5), i64([1], [3]), f32(2, 5)], 1, 18, {}),
    "gather rows": ("GatherND", [f32(2, 4, 5), ints(4, 2, 3, 1, low=-4)], 1, 13, {"batch_dims": 1}),
    "gather rows far": ("GatherND", [f32(2, 3, 4, 5), ints(4, 2, 3, 2, 1)], 1, 13, {"batch_dims": 2}),
    "one hot": ("OneHot", [ints(9, 3, 2, low=-9), i64(6), np.float32([2, 5])], 1, 11, {"axis": 1}),
    "unique": ("Unique", [np.round(f32(20) * 2)], 4, 11, {"sorted": 0}),
    "unique rows": ("Unique", [np.round(f32(12, 2))], 4, 11, {"axis": 0}),
    "fourier": ("DFT", [f32(2, 10, 3, 1)], 1, 20, {"onesided": 1, "axis": None}),
    "fourier back": ("DFT", [f32(2, 10, 2), i64(8).reshape(()), i64(1).reshape(())], 1, 20, {"inverse": 1}),
    "frames": ("STFT", [f32(2, 40, 1), i64(5).reshape(()), np.abs(f32(12))], 1, 17, {}),
    "mel": ("MelWeightMatrix", [*map(np.asarray, (8, 64, 8192)), np.float32(100), np.float32(3000)], 1, 17, {}),
    "window": ("HammingWindow", [i64(13).reshape(())], 1, 17, {"periodic": 0}),
    "columns": ("Col2Im", [f32(1, 12, 9), i64(5, 7), i64(2, 3)], 1, 18,
                {"pads": [0, 1, 0, 0], "strides": [1, 2], "dilations": [2, 1]}),
    "powers": ("LpPool", [f32(1, 2, 8, 9)], 1, 18, {"kernel_shape": [3, 2], "strides": [2, 1], "p": 3}),
    "places": ("MaxPool", [f32(2, 2, 8, 9)], 2, 12, {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "means": ("AveragePool", [f32(1, 2, 9, 9)], 1, 19,
              {"kernel_shape": [3, 3], "strides": [2, 3], "dilations": [2, 1], "pads": [1] * 4, "ceil_mode": 1}),
    "bytes": ("MatMulInteger", [u8(3, 4), ints(99, 4, 5).astype(np.int8), np.uint8(7)], 1, 10, {}),
    "byte windows": ("ConvInteger", [u8(1, 4, 6, 5), u8(6, 2, 3, 3), np.uint8(7)], 1, 10,
                     {"group": 2, "pads": [1, 0, 0, 1]}),
    "ranged": ("DynamicQuantizeLinear", [f32(5, 6)], 3, 11, {}),
    "reversed": ("ReverseSequence", [f32(4, 3, 2), i64(1, 4, 2)], 1, 10, {}),
    "pad": ("Pad", [f32(3, 4), i64(1, -1, 0, 2), np.float32(3)], 1, 18, {}),
    "pad some": ("Pad", [f32(3, 4), i64(2, 1), None, i64(-1)], 1, 18, {"mode": "reflect"}),
    "split": ("Split", [f32(3, 7), i64(2, 0, 5)], 3, 18, {"axis": -1}),
    "sums of exponentials": ("ReduceLogSumExp", [f32(3, 4).astype(np.float64) * 400, i64(1)], 1, 18, {}),
    "einsum": ("Einsum", [f32(3, 3).astype(np.float64)], 1, 12, {"equation": "ii->i"}),
    "sizes": ("Shape", [f32(2, 3, 4).astype(np.float64)], 1, 15, {"start": -2}),
    "some sizes": ("Shape", [f32(2, 3, 4).astype(np.float64)], 1, 15, {"start": 1, "end": -1}),
    "hard": ("Hardmax", [np.round(f32(3, 4, 2))], 1, 13, {"axis": 1}),
    "layers": ("LayerNormalization", [f32(2, 3, 4), f32(3, 4), f32(3, 4)], 3, 17, {"axis": 1}),
    "one layer": ("LayerNormalization", [f32(3, 4), f32(3, 4)], 3, 17, {"axis": 0}),
    "instances": ("InstanceNormalization", [f32(2, 3, 4), f32(3), f32(3)], 1, 6, {}),
    "losses": ("SoftmaxCrossEntropyLoss", [f32(3, 5, 2), ints(5, 3, 2), np.abs(f32(5))], 2, 13, {"ignore_index": 2}),
    "likelihood": ("NegativeLogLikelihoodLoss", [f32(3, 5), ints(5, 3)], 1, 13, {"reduction": "sum"}),
    "neighbours": ("LRN", [f32(2, 7, 3, 2)], 1, 13, {"size": 5, "alpha": 0.5}),
    "layers in 64 bits": ("LayerNormalization", [f32(3, 4).astype(np.float64), f32(4).astype(np.float64)], 1, 17, {}),
    "sum of one exponential": ("ReduceLogSumExp", [np.array(4.0)], 1, 18, {}),
    "celu": ("Celu", [f32(3, 4) * 3], 1, 12, {"alpha": 0.4}),
    "middle": ("CenterCropPad", [f32(5, 4, 3), i64(2, 7)], 1, 18, {"axes": [0, 2]}),
    "determinants": ("Det", [f32(2, 3, 3)], 1, 11, {}),
    "attention": ("Attention", [f32(2, 5, 12), f32(2, 7, 6), f32(2, 7, 6)], 4, 23,
                  {"q_num_heads": 4, "kv_num_heads": 2, "softcap": 2.0, "is_causal": 1}),
    "attention goes on": ("Attention", [*(f32(2, 3, n, 4) for n in (5, 6, 6)), f32(5, 10), f32(2, 3, 4, 4),
                                        f32(2, 3, 4, 4)], 4, 23, {"scale": 0.3, "qk_matmul_output_mode": 3}),
    "attention shown": ("Attention", [f32(2, 3, 5, 4), f32(2, 3, 6, 4), f32(2, 3, 6, 2), ints(2, 5, 6) == 0], 4, 23,
                        {"qk_matmul_output_mode": 1}),
    "attention lengths": ("Attention", [f32(2, 3, 5, 4), f32(2, 3, 6, 4), f32(2, 3, 6, 4), None, None, None, i64(6, 5)],
                          1, 24, {"is_causal": 1}),
    **{
        f"linear attention {rule}": ("LinearAttention", [f32(2, 5, 12), f32(2, 5, 6), f32(2, 5, 8), f32(2, 2, 3, 4),
                                                         -np.abs(f32(2, 5, 6)) if "gated" in rule else None,
                                                         np.abs(f32(2, 5, 2)) if "delta" in rule else None], 2, 27,
                                     {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule})
        for rule in ("linear", "gated", "delta", "gated_delta")
    },
    "causal windows": ("CausalConvWithState", [f32(2, 3, 7), f32(3, 1, 4), f32(3), f32(2, 3, 3)], 2, 27,
                       {"activation": "silu"}),
    "causal windows from zeros": ("CausalConvWithState", [f32(2, 3, 7), f32(3, 1, 4)], 2, 27, {}),
    "last largest": ("ArgMax", [ints(3, 4, 5).astype(np.float64)], 1, 13, {"axis": 1, "select_last_index": 1}),
    "first least": ("ArgMin", [ints(3, 4, 5).astype(np.float64)], 1, 13, {"axis": -1, "keepdims": 0}),
    "sums from behind": ("CumSum", [f32(3, 5).astype(np.float64), i64(1).reshape(())], 1, 14,
                         {"reverse": 1, "exclusive": 1}),
    "quotients": ("Div", [ints(9, 3, 4, low=-9), ints(5, 3, 4, low=1)], 1, 14, {}),
    "remainders": ("Mod", [f32(3, 4).astype(np.float64), np.abs(f32(3, 4)).astype(np.float64) + 1], 1, 13, {"fmod": 1}),
    "infinite": ("IsInf", [np.float32([np.inf, 1, -np.inf])], 1, 20, {"detect_negative": 0}),
    "largest truth": ("ReduceMax", [TRUTH, i64(1)], 1, 20, {"keepdims": 0}),
    "least of bytes": ("ReduceMin", [u8(3, 4), i64(0)], 1, 20, {}),
    "as it is": ("ReduceSum", [f32(3, 4).astype(np.float64), i64()], 1, 13, {"noop_with_empty_axes": 1}),
    "halves": ("Split", [f32(3, 7).astype(np.float64)], 2, 18, {"axis": 1, "num_outputs": 2}),
    "edges": ("Pad", [f32(3, 4).astype(np.float64), i64(1, 0, 0, 2)], 1, 18, {"mode": "edge"}),
    "depth": ("SpaceToDepth", [f32(1, 2, 4, 6).astype(np.float64)], 1, 13, {"blocksize": 2}),
    "ones": ("EyeLike", [f32(3, 4)], 1, 22, {"k": 1, "dtype": 7}),
    "turned": ("RotaryEmbedding", [f32(2, 3, 4, 8), f32(9, 3), f32(9, 3), ints(9, 2, 4)], 1, 23,
               {"rotary_embedding_dim": 6}),
    "turned pairs": ("RotaryEmbedding", [f32(2, 4, 24), f32(9, 4), f32(9, 4), ints(9, 2, 4)], 1, 23,
                     {"num_heads": 3, "interleaved": 1}),
    "stretched": ("Expand", [TRUTH[:, :1], i64(2, 2, 3, 1)], 1, 13, {}),
    # what makes masks and places
    "counted": ("Cast", [ints(9, 3, 4, low=-9)], 1, 19, {"to": 1}),
    "shown": ("Cast", [TRUTH], 1, 19, {"to": 7}),
    "any": ("Cast", [np.float32([0, -0.0, 2, np.nan])], 1, 19, {"to": 9}),
    "both": ("And", [TRUTH, TRUTH[:1, :, ::2].repeat(2, 2)], 1, 7, {}),
    "one of two": ("Xor", [TRUTH, ~TRUTH[0, :, :1]], 1, 7, {}),
    "neither": ("Not", [TRUTH], 1, 1, {}),
    "same": ("Equal", [ints(3, 2, 3, 4), ints(3, 3, 1)], 1, 19, {}),
    "beyond": ("Greater", [f32(2, 3, 4), f32(4)], 1, 13, {}),
    "up to": ("LessOrEqual", [ints(4, 5), ints(4, 3, 1)], 1, 16, {}),
    "added": ("Add", [ints(9, 3, 1), ints(9, 4)], 1, 14, {}),
    "least": ("Min", [ints(9, 3, 1), ints(9, 4), ints(9, 2, 1, 1)], 1, 13, {}),
    "not a number": ("IsNaN", [np.float32([[1, np.nan], [-np.inf, 0]])], 1, 13, {}),
    "chosen": ("Where", [TRUTH, np.float32(0), np.float32(-np.inf)], 1, 16, {}),
    "chosen counts": ("Where", [TRUTH, ints(9, 2, 1, 4), ints(9, 3, 1)], 1, 16, {}),
    "turned counts": ("Transpose", [ints(9, 2, 3, 4)], 1, 13, {"perm": [2, 0, 1]}),
    "joined counts": ("Concat", [ints(9, 2, 3), ints(9, 2, 1)], 1, 13, {"axis": -1}),
    "taken counts": ("Gather", [ints(9, 2, 5), ints(5, 3, 2, low=-5)], 1, 13, {"axis": 1}),
    "words": ("Gather", [f32(9, 4), ints(9, 2, 3)], 1, 13, {}),
}  # fmt: skip
# ONNX Runtime's sums of bytes saturate on CPUs without VNNI; it has no kernels of the others
BY_ONNX = {"MatMulInteger", "ConvInteger", "LinearAttention", "CausalConvWithState"}
# those that no step of NumPy computes
OWN = (*list(CASES)[list(CASES).index("counted") :], "gather rows", "gather rows far")


def built(case, first_only):
    op_type, arrays, outputs, opset, attrs = case
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(arrays)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(
        op_type, names, results, **{key: value for key, value in attrs.items() if value is not None}
    )
    pairs = [(name, np.asarray(array)) for name, array in zip(names, arrays, strict=True) if name]
    given = dict(pairs[: 1 if first_only else None])
    code = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [node],
        "step",
        [helper.make_tensor_value_info(name, code(array.dtype), array.shape) for name, array in given.items()],
        [onnx.ValueInfoProto(name=name) for name in results],
        [numpy_helper.from_array(array, name) for name, array in pairs if name not in given],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made), given


@pytest.mark.sweep(1)
@pytest.mark.parametrize("first_only", [False, True], ids=["call", "first"])
@pytest.mark.parametrize("name", CASES)
def test_agrees(name, first_only):
    proto, given = built(CASES[name], first_only)
    by_onnx = CASES[name][0] in BY_ONNX
    expected = ReferenceEvaluator(proto).run(None, given) if by_onnx else reference(proto, given)
    found = list(dgo.from_onnx(proto).compile().run(given).values())
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)


def test_cubic_samples_outside_are_zeros():
    """Not zero times the pixel at the edge, which may be infinite."""
    torch = pytest.importorskip("torch")
    src = np.ones((1, 1, 4, 4), np.float32)
    src[0, 0, 0, 0], src[0, 0, 3, 3] = np.inf, np.nan
    axis = np.float32([-3, -1.6, -1.2, -0.9, 0.1, 0.8, 1.2, 2.6])
    grid = np.stack(np.meshgrid(axis, axis), -1)[None]
    proto, given = built(("GridSample", [src, grid], 1, 20, {"mode": "cubic"}), False)
    (result,) = dgo.from_onnx(proto).compile().run(given).values()
    wanted = torch.nn.functional.grid_sample(*map(torch.tensor, (src, grid)), "bicubic", "zeros", False).numpy()
    assert np.isfinite(result[0, 0, 0, 0])
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", OWN)
def test_by_own_code(name):
    proto, _ = built(CASES[name], False)
    net = dgo.from_onnx(proto).compile()
    assert {step.implementation.partition(",")[0] for step in net.explain().steps} <= {"builtin"}


def test_places_outside_are_refused():
    proto, given = built(CASES["gather rows"], False)
    given["x1"] = given["x1"] + 9
    with pytest.raises(dgo.ShapeError, match="of 4 elements"):
        dgo.from_onnx(proto).compile().run(given)


@pytest.mark.parametrize(("axis", "kinds"), [(-1, ["RMSNorm"]), (1, ["RMSNorm"]), (0, ["Square", "ReduceMean"])])
def test_rms_normalization_of_the_last_axis_is_one_op(axis, kinds):
    x, scale = f32(3, 8), f32(8) if axis else f32(3, 8)
    node = helper.make_node("RMSNormalization", ["x", "scale"], ["y"], axis=axis)
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("x", "y")]
    infos[0] = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)
    graph = helper.make_graph([node], "norm", infos[:1], infos[1:], [numpy_helper.from_array(scale, "scale")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    found = dgo.from_onnx(model)
    assert [each.kind for each in found.nodes][: len(kinds)] == kinds
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(found.compile()(x), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_a_clip_of_0_clips_nothing(kind, gates):
    """As in onnx's reference implementation; ONNX Runtime refuses it. A negative one is refused."""
    feeds = dict(zip(("x", "w", "r", "b"), cells(gates), strict=True))
    for way in one_node.WAYS:
        results = []
        for clip in ({}, {"clip": 0.0}):
            nodes = [one_node.node(kind, "x w r b", "y h", hidden_size=5, **clip)]
            results.append(one_node.run(one_node.proto_of(nodes, feeds, way=way), {} if way == "folded" else feeds))
        assert np.abs(results[0][0]).min() > 0
        for one, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(dgo.Error, match=r"clip=-1\.0, only above 0"):
        nodes = [one_node.node(kind, "x w r b", "y h", hidden_size=5, clip=-1.0)]
        one_node.run(one_node.proto_of(nodes, feeds), feeds)


def by_one_node(kind, *inputs, **attrs):
    feeds = {f"x{i}": array for i, array in enumerate(inputs)}
    (result,) = one_node.run(one_node.proto_of([one_node.node(kind, " ".join(feeds), **attrs)], feeds), feeds)
    return result


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_windows_that_run_over_the_end_hold_what_is_there(dtype):
    x = np.arange(8, dtype=dtype).reshape(1, 1, 8)
    y = by_one_node("LpPool", x, kernel_shape=[3], strides=[2], ceil_mode=1, p=2)
    np.testing.assert_allclose(y[0, 0], [5**0.5, 29**0.5, 77**0.5, 85**0.5], rtol=1e-6)


def test_a_loss_of_large_scores_is_finite():
    scores, labels = np.float32([[200, 0], [0, 0]]), np.array([1, 0])
    loss = by_one_node("SoftmaxCrossEntropyLoss", scores, labels, reduction="none")
    np.testing.assert_allclose(loss, [200, np.log(2)], rtol=1e-6)
    with pytest.raises(dgo.Error):
        by_one_node("SoftmaxCrossEntropyLoss", scores, np.array([-1, 0]))


def test_the_least_integer_is_divided():
    a, b = np.int8([-128, -128, 127, -7, 7]), np.int8([3, -3, -3, 2, -2])
    np.testing.assert_array_equal(by_one_node("Div", a, b), [-42, 42, -42, -3, -3])
