"""What is said of arguments written as other packages write them."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

X = np.ones((1, 4, 4, 3), np.float32)
W = np.ones((2, 2, 5, 3), np.float32)
WIDE = np.ones(5)


@pytest.fixture
def x():
    return dgo.Graph(name="one").input("x", X.shape)


@pytest.mark.parametrize("call", [dgo.conv_transpose, lambda a, w, **k: ops.conv_transpose(a_value(a), w, **k)])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pads": 1}, r"conv_transpose: has no argument 'pads'; it is 'pads_begin' and 'pads_end' here"),
        ({"group": 1}, r"has no argument 'group'; it is 'groups' here"),
        ({"weight_format": "IOX"}, r"has no argument 'weight_format'; did you mean 'weights_format'\?"),
        ({"data_format": "NHCW"}, r"one of NXC, NCX, got 'NHCW'; did you mean 'NCW'\?"),
        ({"weights_format": "OHWI"}, r"move its axes: weights.transpose\(1, 2, 3, 0\) is XIO"),
    ],
)
def test_words_of_other_packages(call, given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call(X, W, **given)


def a_value(array):
    return dgo.Graph().input("x", array.shape)


def test_every_one_shot_function_names_the_right_keyword():
    for name in ("conv_transpose", "conv_transpose_backward_data", "conv_transpose_backward_weights"):
        for home in (dgo, ops):
            with pytest.raises(TypeError, match=f"{name}: has no argument 'group'; it is 'groups' here"):
                getattr(home, name)(X, W, group=2)


def test_builders_from_the_table(x):
    with pytest.raises(TypeError, match=r"max_pool: has no argument 'kernel_size'; it is 'kernel' here"):
        ops.max_pool(x, kernel_size=2)
    with pytest.raises(TypeError, match=r"softmax: has no argument 'dim'; it is 'axis' here"):
        ops.softmax(x, dim=1)
    with pytest.raises(TypeError, match=r"softmax: has no argument 'axes'; did you mean 'axis'\?"):
        ops.softmax(x, axes=1)
    with pytest.raises(TypeError, match=r"concat: takes the tensors one by one, concat\(a, b, ...\), got a list of 2"):
        ops.concat([x, x])


def refused(call, *given, **attributes):
    with pytest.raises(dgo.ShapeError) as error:
        call(*given, **attributes)
    return str(error.value)


def test_weights_in_the_order_of_another_package():
    words = "; all shapes fit with weights_format='IOX' (PyTorch's order of weights)"
    assert refused(dgo.conv_transpose, X, np.ones((3, 5, 2, 2), np.float32)).endswith(words)
    assert "fit with" not in refused(dgo.conv_transpose, X, np.ones((2, 2, 5, 7), np.float32))


def test_weights_of_a_convolution_in_the_order_of_another_package():
    words = "; all shapes fit with weights_format='OIX' (PyTorch's order of weights)"
    assert refused(dgo.convolution, X, np.ones((5, 3, 2, 2), np.float32)).endswith(words)
    assert "fit with" not in refused(dgo.convolution, X, np.ones((2, 2, 5, 7), np.float32))


@pytest.mark.parametrize(("name", "shape"), [("conv_transpose", (9, 5, 2, 2)), ("convolution", (5, 9, 2, 2))])
def test_data_and_weights_as_pytorch_has_them(name, shape):
    given = np.ones((1, 9, 4, 4), np.float32), np.ones(shape, np.float32)
    order = "IOX" if name == "conv_transpose" else "OIX"
    words = f"; all shapes fit with data_format='NCX', weights_format='{order}' (PyTorch's order)"
    assert refused(getattr(dgo, name), *given).endswith(words)
    assert getattr(dgo, name)(*given, data_format="NCX", weights_format=order).shape[1] == 5


# x and w of PyTorch, for which another order of the weights alone would do as well, with other numbers
CHANNELS_FIRST = np.ones((1, 32, 16, 16), np.float32)
KERNELS = {"conv_transpose": np.ones((32, 16, 4, 4), np.float32), "convolution": np.ones((16, 32, 4, 4), np.float32)}
ORDERS = {"conv_transpose": ("IOX", "OIX"), "convolution": ("OIX", "IOX")}


@pytest.mark.parametrize("name", KERNELS)
def test_where_several_orders_fit_pytorch_s_is_first(name):
    meant, other = ORDERS[name]
    pytorch = f"; all shapes fit with data_format='NCX', weights_format='{meant}' (PyTorch's order)"
    call, given = getattr(dgo, name), (CHANNELS_FIRST, KERNELS[name])
    assert refused(call, *given).endswith(f"{pytorch}, or with data_format='NXC', weights_format='{other}'")
    graph = dgo.Graph()
    assert pytorch in refused(getattr(ops, name), graph.input("x", given[0].shape), given[1])
    assert pytorch in refused(getattr(dgo, f"{name}_output_shape"), *(array.shape for array in given))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("weights_format", [{}, {"weights_format": "other"}])
def test_bias_and_out_tell_orders_apart(name, weights_format):
    meant, other = ORDERS[name]
    attributes = dict.fromkeys(weights_format, other)
    pytorch = f"; all shapes fit with data_format='NCX', weights_format='{meant}' (PyTorch's order)"
    call, given = getattr(dgo, name), (CHANNELS_FIRST, KERNELS[name])
    assert refused(call, *given, np.ones(16, np.float32), **attributes).endswith(pytorch)
    out = np.empty((1, 16, 19, 19) if name == "conv_transpose" else (1, 16, 13, 13), np.float32)
    assert refused(call, *given, out=out, **attributes).endswith(pytorch)
    call(*given, np.ones(16, np.float32), data_format="NCX", weights_format=meant, out=out)


def test_gradients_are_told_the_order_of_their_shapes():
    src, weights, diff_dst = CHANNELS_FIRST, KERNELS["conv_transpose"], np.ones((1, 16, 19, 19), np.float32)
    words = "; all shapes fit with data_format='NCX', weights_format='IOX' (PyTorch's order)"
    assert refused(dgo.conv_transpose_backward_data, diff_dst, weights).endswith(words)
    assert refused(dgo.conv_transpose_backward_weights, src, diff_dst, weights.shape).endswith(words)
    assert words in refused(dgo.conv_transpose_backward_weights, src, diff_dst)
    once = dict.fromkeys(("strides", "dilations"), 1) | dict.fromkeys(("pads_begin", "pads_end"), 0)
    said = refused(dgo.conv_transpose_backprop_filters, src, diff_dst, (4, 4, 32, 16), **once)
    assert said.endswith("; all shapes fit with data_format='NCX', filter_format='XIO'")


@pytest.mark.parametrize(
    ("name", "meant"), [("float", "f32"), ("torch.double", "f32"), ("float64", "f32"), ("int", "s32"), ("long", "s64")]
)
def test_dtypes_by_the_names_of_other_packages(name, meant):
    with pytest.raises(dgo.InvalidArgumentError, match=rf"Graph.input 'y': dtype '{name}' is not .*; use '{meant}'"):
        dgo.Graph().input("y", (2,), name)


@pytest.mark.parametrize("name", ["bfloat16", "BFloat16", "bf16"])
def test_a_precision_by_numpy_s_name(name, x):
    assert x.graph.compile(ops.relu(x), precision=name)(X).dtype == np.float32
    with pytest.raises(TypeError, match="'precision' must be a string, one of bf16, f16, auto, got <class"):
        x.graph.compile(ops.relu(x), precision=np.float16)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("float32", "leave it out, f32 ops are computed in f32 then"),
        ("int8", "int8 needs scales from samples: dgo.quantize.calibrate"),
        ("INT8", "int8 needs scales"),
        ("u8", "int8 needs scales"),
        ("int4", ""),
    ],
)
def test_another_precision_is_told_what_to_do(name, instead, x):
    words = f"'precision' must be one of bf16, f16, auto, got '{name}'" + (f"; {instead}" if instead else "$")
    with pytest.raises(dgo.InvalidArgumentError, match=words):
        x.graph.compile(ops.relu(x), precision=name)


def test_attributes_by_position_are_told_their_names(x):
    words = r"static_reshape: too many positional arguments; its arguments are src, shape, special_zero, name, attr"
    with pytest.raises(TypeError, match=words):
        ops.static_reshape(x, (3, 16))
    with pytest.raises(TypeError, match=r"missing a required argument: 'special_zero'; its arguments are src, shape"):
        ops.static_reshape(x, shape=(3, 16))


@pytest.mark.parametrize(("size", "shown"), [(-1, "-1"), ("batch", "'batch'")])
def test_a_size_that_is_not_known_is_none_here(size, shown):
    words = rf"Graph.input 'y': 'shape' has a size {shown}; a size that is known at the call only is None"
    with pytest.raises(dgo.ShapeError, match=words):
        dgo.Graph().input("y", (size, 4))


def test_a_prompt_shows_what_explain_prints(x):
    explained = x.graph.compile(ops.relu(x)).explain()
    assert repr(explained) == str(explained)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: dgo.conv_transpose(X.astype(float), W), r"conv_transpose: 'src': dtype float64 is not"),
        (lambda x: dgo.conv_transpose(X, W, WIDE), r"conv_transpose: 'bias': dtype float64 is not"),
        (lambda x: ops.conv_transpose(x, W, WIDE, name="up"), r"conv_transpose 'up': 'bias': dtype float64"),
        (lambda x: ops.add(x, np.ones((1, 1, 1, 3))), r"add: 'src_1': dtype float64"),
        (lambda x: x.graph.constant(WIDE, name="b"), r"Graph.constant 'b': dtype float64"),
        (lambda x: dgo.Graph().input("y", (2,), np.float64), r"Graph.input 'y': dtype float64"),
    ],
)
def test_float64_is_named_with_its_argument_and_remedy(call, words, x):
    with pytest.raises(dgo.InvalidArgumentError, match=rf"{words}.*array\.astype\(np\.float32\)"):
        call(x)


def test_float64_at_a_call(x):
    net = x.graph.compile(ops.relu(x))
    convert = r"input 'x': has dtype float64, expected f32; convert it with array\.astype\(np\.float32\)"
    with pytest.raises(dgo.InvalidArgumentError, match=convert):
        net(X.astype(float))
    # a converted array would be a copy
    empty = r"'out': has dtype float64, and the result is f32; pass np\.empty\(\(.*\), np\.float32\)"
    with pytest.raises(dgo.InvalidArgumentError, match=empty):
        net(X, out=X.astype(float))
    with pytest.raises(dgo.InvalidArgumentError, match=f"conv_transpose: {empty}"):
        dgo.conv_transpose(X, W, out=np.empty((1, 5, 5, 5)))


def test_a_value_of_another_graph_is_told_apart(x):
    other = dgo.Graph(name="one").input("y", (7,))
    words = r"add: value 'y' of shape \(7,\) belongs to another graph \(Graph\('one', 1 in.*two objects of one name"
    with pytest.raises(dgo.InvalidArgumentError, match=words):
        ops.add(x, other)
    with pytest.raises(dgo.InvalidArgumentError, match=r"\(Graph\('graph'.*, not Graph\('one'.* 0 ops\)\)"):
        ops.add(x, dgo.Graph().input("z", (7,)))
