"""Whole models in sessions with the provider, beside sessions of the CPU provider."""

import numpy as np
import onnx
import pytest

from dnnl_graph_ops.onnxruntime import gains

from .sessions import CPU, cpu, dgr, executed, helper, model, numpy_helper, onnxruntime, ours

NAME = dgr.get_ep_name()


def close(results, expected):
    for one, other in zip(results, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=3e-4 * max(1.0, float(np.abs(other).max())))


@pytest.mark.slow
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("name", ["pix2pix_in", "unet", "erfnet", "hifigan", "fsrcnn", "convnext", "mobilenet"])
def test_models_of_the_zoo(name, unknown, tmp_path, monkeypatch):
    """Small ones, which are claimed although that wins nothing."""
    pytest.importorskip("torch", reason="writes the models")
    from dnnl_graph_ops.bench.zoo import ENTRIES, export

    if unknown and not ENTRIES[name].step:
        pytest.skip("its sizes are known")
    for bound in ("_CALL", "_CROSSING", "_UNSURE"):
        monkeypatch.setattr(gains, bound, 0)
    path = str(export.path(name, small=True, unknown=unknown))
    expected = cpu(path)
    names = [info.name for info in expected.get_inputs()]
    feeds = dict(zip(names, export.inputs(name, small=True), strict=True))
    results, ran = executed(path, feeds, tmp_path)
    close(results, expected.run(None, feeds))
    assert ran[NAME]


@pytest.mark.parametrize("functions", [0, 4])
def test_products_are_claimed_for_what_is_fused_with_them(functions, rng, tmp_path):
    """A depthwise convolution and a large product: with functions behind it they are a group, alone they are not."""
    arrays = {
        "w": rng.integers(-2, 3, (64, 1, 3, 3)).astype(np.float32),
        "v": (rng.integers(-2, 3, (64, 256)) / 64).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4, group=64),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["b", "v"], ["c0"]),
        *(helper.make_node("Sigmoid", [f"c{i}"], [f"c{i + 1}"]) for i in range(functions)),
        helper.make_node("ReduceMean", [f"c{functions}"], ["y"], axes=[1, 2], keepdims=0),
    ]
    source = model(nodes, {"x": (1, 64, 64, 64)}, ["y"], arrays)
    feeds = {"x": rng.integers(-2, 3, (1, 64, 64, 64)).astype(np.float32)}
    results, ran = executed(source, feeds, tmp_path)
    close(results, cpu(source).run(None, feeds))
    assert ("MatMul" in ran[CPU[0]]) == (not functions)


def quantized(rng, channels=40):
    """A convolution between DequantizeLinear and QuantizeLinear, and one whose result is not quantized."""
    arrays = {"scale": np.float32(0.125), "zero": np.uint8(128), "fine": np.float32(2**-6), "none": np.int8(0)}
    arrays["w"] = rng.integers(-20, 20, (channels, channels, 3, 3)).astype(np.int8)
    make = helper.make_node
    nodes = [
        make("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        make("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        make("DequantizeLinear", ["w", "fine", "none"], ["wd"]),
        make("Conv", ["d", "wd"], ["c"], pads=[1, 1, 1, 1]),
        make("Relu", ["c"], ["r"]),
        make("QuantizeLinear", ["r", "scale", "zero"], ["rq"]),
        make("DequantizeLinear", ["rq", "scale", "zero"], ["rd"]),
        make("Conv", ["rd", "wd"], ["y"], pads=[1, 1, 1, 1]),
    ]
    return model(nodes, {"x": (1, channels, 24, 24)}, ["y"], arrays)


def test_quantized_operators_are_claimed_whole(rng, tmp_path):
    """No operator is separated from its DequantizeLinear and QuantizeLinear nodes."""
    source, feeds = quantized(rng), {"x": rng.standard_normal((1, 40, 24, 24), np.float32)}
    results, ran = executed(source, feeds, tmp_path)
    (expected,) = cpu(source).run(None, feeds)
    # a value halfway between two steps may become either
    assert np.abs(results[0] - expected).max() <= 0.125 * 20 * 2**-6 * 4
    assert len(ran[NAME]) == 1
    assert not ran[CPU[0]]


def test_two_nodes_share_a_weight(rng):
    w, x = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((32, 32, 3, 3), (1, 32, 16, 16)))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    source = model(nodes, {"x": x.shape}, ["y"], {"w": w})
    np.testing.assert_array_equal(ours(source).run(None, {"x": x})[0], cpu(source).run(None, {"x": x})[0])


def test_attributes_and_types(rng, tmp_path, monkeypatch):
    """Attributes of all types that native code reads: numbers, lists of them, texts, tensors."""
    monkeypatch.setenv("DNNL_GRAPH_OPS_EP", "all")
    make = helper.make_node
    nodes = [
        make("Constant", [], ["k"], value=numpy_helper.from_array(np.float32([[1, 2], [3, 4]]))),
        make("Constant", [], ["many"], value_floats=[0.5, 2.0]),
        make("Conv", ["x", "w"], ["c"], auto_pad="SAME_UPPER", strides=[1, 1]),
        make("LeakyRelu", ["c"], ["l"], alpha=0.25),
        make("Add", ["l", "k"], ["s"]),
        make("Mul", ["s", "many"], ["m"]),
        make("Shape", ["x"], ["size"]),
        make("ConstantOfShape", ["size"], ["ones"], value=numpy_helper.from_array(np.float32([1.5]))),
        make("Sub", ["m", "ones"], ["y"]),
    ]
    source = model(nodes, {"x": ("n", 2, 2, 2)}, ["y"], {"w": rng.integers(-2, 3, (2, 2, 3, 3)).astype(np.float32)})
    feeds = {"x": rng.integers(-2, 3, (3, 2, 2, 2)).astype(np.float32)}
    results, ran = executed(source, feeds, tmp_path)
    np.testing.assert_array_equal(results[0], cpu(source).run(None, feeds)[0])
    assert len(ran[NAME]) >= 4


def test_a_model_that_onnxruntime_refuses(rng):
    """The error is ONNX Runtime's, and no claim remains of it."""
    proto = onnx.load_from_string(model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 8)}, ["y"], {}))
    proto.graph.node[0].op_type = "Conv"
    with pytest.raises(Exception, match="Conv"):
        ours(proto.SerializeToString())
    assert onnxruntime.get_ep_devices()
