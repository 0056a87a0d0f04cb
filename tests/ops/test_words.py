"""Other packages' words are understood wherever ours are expected; both spellings of one argument raise."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.dtypes import canonical
from dnnl_graph_ops.words import DTYPES, OPS

X = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3) % 5
W = np.arange(60, dtype=np.float32).reshape(2, 2, 5, 3) % 3
ORDINARY = np.ascontiguousarray(W.swapaxes(2, 3))
STRIDED = {"strides": 2, "pads_begin": 1, "pads_end": 1}


@pytest.fixture
def x():
    return dgo.Graph().input("x", X.shape)


def same(ours, theirs):
    assert ours.shape == theirs.shape
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(("name", "weights"), [("conv_transpose", W), ("convolution", ORDINARY)])
def test_arguments(name, weights, x):
    call = getattr(dgo, name)
    expected = call(X, weights, **STRIDED)
    same(expected, call(X, weights, stride=2, padding=1))
    same(
        expected, call(X, weights, stride=(2, 2), padding=(1, 1), dilation=1, out=np.full(expected.shape, np.nan, "f4"))
    )
    built = getattr(ops, name)(x, weights, stride=2, padding=1)
    same(expected, x.graph.compile(built)(X))
    shape = getattr(dgo, f"{name}_output_shape")
    assert shape(X.shape, weights.shape, stride=2, padding=1) == expected.shape
    spread = call(X, weights, dilations=2, pads_begin=(1, 2), pads_end=(1, 2))
    same(spread, call(X, weights, dilation=2, padding=(1, 2)))


def test_gradients():
    dst = dgo.conv_transpose(X, W, **STRIDED)
    for tail, given in (("data", (dst, W)), ("weights", (X, dst, W.shape))):
        call = getattr(dgo, f"conv_transpose_backward_{tail}")
        same(call(*given, **STRIDED), call(*given, stride=2, padding=1))
    older = dgo.conv_transpose_backprop_filters
    same(
        older(X, dst, (2, 2, 3, 5), **STRIDED, dilations=1),
        older(X, dst, (2, 2, 3, 5), stride=2, padding=1, dilation=1),
    )
    with pytest.raises(TypeError, match="conv_transpose_backprop_filters: dilations must be given"):
        older(X, dst, (2, 2, 3, 5), stride=2, padding=1)


def test_pooling(x):
    ours = ops.max_pool(x, strides=2, pads_begin=1, pads_end=1, kernel=2)
    theirs = ops.max_pool(x, stride=2, padding=1, kernel=2, auto_pad=None, data_format="NHWC")
    same(*x.graph.compile([ours, theirs])(X))


@pytest.mark.parametrize("home", [dgo, ops])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stride": 2, "strides": 2}, "'strides' and 'stride' say the same; give it once, as 'strides'"),
        # also where ours has the default's value
        ({"stride": 2, "strides": 1}, "'strides' and 'stride' say the same"),
        ({"padding": 1, "pads_end": 0}, "'pads_end' and 'padding' say the same; give it once, as 'pads_end'"),
        ({"dilation": 1, "dilations": 1}, "'dilations' and 'dilation' say the same"),
        ({"padding": "causal"}, "'padding' must be an int, .* got 'causal'; pad the front of the axis alone"),
        ({"padding": "vaild"}, "'auto_pad' must be one of .* got 'vaild'; did you mean 'valid'"),
        ({"stride": 0}, "'strides' must be at least 1, got 0"),
    ],
)
def test_refused(home, given, words, x):
    with pytest.raises((TypeError, dgo.InvalidArgumentError), match=f"conv_transpose: {words}"):
        home.conv_transpose(X if home is dgo else x, W, **given)


@pytest.mark.parametrize(
    ("ours", "word"),
    [
        *(("NXC", word) for word in ("NHWC", "nwc", "NDHWC", "channels_last")),
        *(("NCX", word) for word in ("NCHW", "ncw", "NCDHW", "Channels_First")),
    ],
)
def test_data_formats(ours, word):
    given = X if ours == "NXC" else X.transpose(0, 3, 1, 2)
    same(dgo.conv_transpose(given, W, data_format=ours), dgo.conv_transpose(given, W, data_format=word))
    bias = dgo.conv_transpose_backward_bias
    same(bias(given, data_format=ours), bias(given, data_format=word))


@pytest.mark.parametrize(
    ("name", "weights", "orders"),
    [
        ("conv_transpose", W, {"torch": "IOX", "onnx": "IOX", "IOHW": "IOX", "keras": "XOI", "HWOI": "XOI"}),
        (
            "convolution",
            ORDINARY,
            {"torch": "OIX", "pytorch": "OIX", "OIHW": "OIX", "tensorflow": "XIO", "HWIO": "XIO"},
        ),
    ],
)
def test_orders_of_weights(name, weights, orders):
    default = "XOI" if name == "conv_transpose" else "XIO"
    for word, order in orders.items():
        given = dgo.convert_weights(weights, default, order, op=name)
        same(given, dgo.convert_weights(weights, default, word, op=name))
        expected = getattr(dgo, name)(X, weights)
        same(expected, getattr(dgo, name)(X, given, weights_format=word))
        same(expected, dgo_net(getattr(ops, name), given, word)(X))


def dgo_net(build, weights, order):
    graph = dgo.Graph()
    return graph.compile(build(graph.input("x", X.shape), weights, weights_format=order))


@pytest.mark.parametrize("word", ["pytorch", "onnx", "keras"])
def test_the_older_op_has_no_framework_s_order(word):
    with pytest.raises(dgo.InvalidArgumentError, match=f"'filter_format' must be one of XIO, OIX, got '{word}'"):
        dgo.conv_transpose_backprop_filters(X, X, stride=1, padding=0, dilation=1, filter_format=word)


def test_no_padding():
    same(dgo.conv_transpose(X, W), dgo.conv_transpose(X, W, auto_pad=None))


def test_data_types():
    for word, ours in DTYPES.items():
        assert canonical(word.upper()) == canonical(f"torch.{word}") == ours
    assert canonical("torch.bfloat16") == "bf16"


def test_data_types_of_pytorch():
    torch = pytest.importorskip("torch", reason="needs the extra 'torch'")
    for name, ours in (("half", "f16"), ("bfloat16", "bf16"), ("float32", "f32"), ("int8", "s8"), ("bool", "boolean")):
        assert dgo.Graph().input("x", (2,), getattr(torch, name)).dtype == ours
    with pytest.raises(dgo.InvalidArgumentError, match=r"dtype 'torch.float64' is not .* use 'f32'"):
        dgo.Graph().input("x", (2,), torch.double)


def test_hints_are_ops():
    for word, ours in OPS.items():
        assert word not in dgo.ops.__all__
        assert ours in dgo.ops.__all__ or " " in ours
