"""One-shot functions of ordinary convolutions against PyTorch: every combination of formats, and what they refuse."""

import os
import sys
from itertools import product

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import integers, strided, unwritten
from reference.rounding import DTYPES, ulp_error

import dnnl_graph_ops as dgo

peer = pytest.importorskip("reference.peer", reason="needs PyTorch")

WEIGHTS = ("OIX", "XIO", "IOX", "XOI")
LAYOUTS = ("NXC", "NCX")
# groups: (IC, OC)
CHANNELS = {1: (4, 6), 2: (4, 6), 8: (8, 8)}
SPATIAL, KERNEL = (7, 8), (3, 2)
ATTRIBUTES = {"strides": (2, 3), "dilations": (1, 2), "pads_begin": (1, 0), "pads_end": (0, 2)}
OTHER_RANKS = {
    "1-D": ((3, 6, 11), (4, 6, 3), {"strides": 2, "pads_begin": 1, "pads_end": 2}),
    "1-D, two per channel": ((2, 5, 9), (10, 1, 4), {"groups": 5, "dilations": 2}),
    "3-D": ((1, 4, 5, 4, 6), (6, 4, 2, 3, 3), {"strides": (1, 2, 1), "pads_begin": 1, "dilations": (1, 1, 2)}),
    "3-D, groups": ((1, 6, 5, 4, 6), (4, 3, 3, 1, 2), {"groups": 2, "strides": 3, "auto_pad": "SAME_LOWER"}),
    "a point, stride": ((2, 8, 7, 5), (16, 8, 1, 1), {"strides": 2}),
    "as large as src": ((2, 8, 4, 4), (16, 8, 4, 4), {}),
    "few channels": ((1, 3, 14, 12), (16, 3, 7, 7), {"strides": 2, "pads_begin": 3, "pads_end": 3}),
    "wider than it needs": ((1, 4, 8), (4, 4, 3), {"strides": 4}),
}


def in_format(oix: np.ndarray, weights_format: str) -> np.ndarray:
    letters = {"O": (0,), "I": (1,), "X": range(2, oix.ndim)}
    return np.ascontiguousarray(oix.transpose([axis for letter in weights_format for axis in letters[letter]]))


def agrees(actual: np.ndarray, exact: np.ndarray, dtype: str) -> None:
    assert (actual.dtype, actual.shape) == (DTYPES[dtype], exact.shape)
    assert ulp_error(actual, exact, dtype) <= (dtype != "f32")


def check(rng, source, shape, dtype, data_format, weights_format, with_bias, attributes):
    """All directions of src (NCX) and weights (OIX)."""
    src, oix = integers(rng, source, dtype, 2), integers(rng, shape, dtype, 2)
    bias = integers(rng, shape[:1], dtype) if with_bias else None
    laid = np.ascontiguousarray(ct.from_channels_first(src, data_format))
    weights = in_format(oix, weights_format)
    keywords = {"data_format": data_format, "weights_format": weights_format, **attributes}
    dst = dgo.convolution(laid, weights, bias, **keywords)
    assert dgo.convolution_output_shape(laid.shape, weights.shape, **keywords) == dst.shape
    diff = integers(rng, dst.shape, dtype, 2)
    exact = peer.convolution(src, oix, bias, ct.channels_first(diff, data_format), **attributes)
    agrees(ct.channels_first(dst, data_format), exact.dst, dtype)
    diff_src = dgo.convolution_backward_data(diff, weights, src_shape=laid.shape, **keywords)
    agrees(ct.channels_first(diff_src, data_format), exact.diff_src, dtype)
    diff_weights = dgo.convolution_backward_weights(laid, diff, weights.shape, **keywords)
    agrees(diff_weights, in_format(exact.diff_weights, weights_format), dtype)
    agrees(dgo.convolution_backward_bias(diff, data_format=data_format), exact.diff_bias, dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(("data_format", "weights_format"), list(product(LAYOUTS, WEIGHTS)))
@pytest.mark.parametrize("auto_pad", ["none", "valid", "same_upper", "Same_Lower"])
@pytest.mark.parametrize("groups", CHANNELS)
def test_formats(dtype, data_format, weights_format, auto_pad, groups, seed):
    ic, oc = CHANNELS[groups]
    attributes = {**ATTRIBUTES, "groups": groups, "auto_pad": auto_pad}
    shapes = (2, ic, *SPATIAL), (oc, ic // groups, *KERNEL)
    with_bias = weights_format in ("OIX", "XOI")
    check(np.random.default_rng(seed), *shapes, dtype, data_format, weights_format, with_bias, attributes)


@pytest.mark.parametrize(("data_format", "weights_format"), [("NCX", "OIX"), ("NXC", "XIO"), ("NCX", "XOI")])
@pytest.mark.parametrize("name", OTHER_RANKS)
def test_ranks(name, data_format, weights_format, seed):
    source, shape, attributes = OTHER_RANKS[name]
    check(np.random.default_rng(seed), source, shape, "f32", data_format, weights_format, True, attributes)


# -- arguments that may be left out ---


def test_derived_shapes(seed):
    """weights_shape where src and diff_dst determine it; the smallest src_shape, and output_padding more."""
    rng = np.random.default_rng(seed)
    src, weights = integers(rng, (2, 9, 4)), integers(rng, (3, 4, 6))
    dst = dgo.convolution(src, weights, pads_begin=1)
    derived = dgo.convolution_backward_weights(src, dst, pads_begin=1)
    assert np.array_equal(derived, dgo.convolution_backward_weights(src, dst, np.array([3, 4, 6]), pads_begin=1))
    assert derived.shape == (3, 4, 6)
    sizes = [dgo.convolution_backward_data(dst, weights, strides=2, output_padding=extra).shape[1] for extra in (0, 1)]
    assert sizes == [17, 18]


def test_attributes_as_lists_and_arrays(seed):
    rng = np.random.default_rng(seed)
    src, weights = integers(rng, (1, 6, 5, 3)), integers(rng, (2, 2, 3, 4))
    expected = dgo.convolution(src, weights, strides=(2, 1))
    for strides in ([2, 1], np.array([2, 1]), (np.int32(2), 1)):
        assert np.array_equal(dgo.convolution(src, weights, strides=strides), expected)


# -- views, out, no images ---


def arguments(rng, data_format="NXC", batch=2):
    """Of each function: its arrays, its keywords, the shape of its result."""
    shape = (batch, 7, 6, 8) if data_format == "NXC" else (batch, 8, 7, 6)
    src, weights = integers(rng, shape), integers(rng, (3, 2, 4, 6))
    keywords = {"strides": (1, 2), "pads_begin": 1, "groups": 2, "data_format": data_format}
    dst_shape = dgo.convolution_output_shape(shape, weights.shape, **keywords)
    diff, bias = integers(rng, dst_shape), integers(rng, (6,))
    return {
        "convolution": ((src, weights, bias), keywords, dst_shape),
        "convolution_backward_data": ((diff, weights), {"src_shape": shape, **keywords}, shape),
        "convolution_backward_weights": ((src, diff), {"weights_shape": weights.shape, **keywords}, weights.shape),
        "convolution_backward_bias": ((diff,), {"data_format": data_format}, (6,)),
    }


FUNCTIONS = tuple(arguments(np.random.default_rng(0)))


@pytest.mark.parametrize("data_format", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_out(name, data_format, seed):
    """Dense, and as a view whose surroundings stay as they are."""
    given, keywords, shape = arguments(np.random.default_rng(seed), data_format)[name]
    function = getattr(dgo, name)
    expected = function(*given, **keywords)
    assert expected.shape == shape
    dense = unwritten(shape)
    assert function(*given, **keywords, out=dense) is dense
    assert np.array_equal(dense, expected)
    buffer = unwritten([2 * size + 1 for size in shape])
    view = buffer[tuple(slice(1, None, 2) for _ in shape)]
    assert function(*given, **keywords, out=view) is view
    assert np.array_equal(view, expected)
    view[...] = np.nan
    assert np.isnan(buffer).all()


@pytest.mark.parametrize("data_format", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_strided_arguments(name, data_format, seed):
    rng = np.random.default_rng(seed)
    given, keywords, _ = arguments(rng, data_format)[name]
    function = getattr(dgo, name)
    expected = function(*given, **keywords)
    for gap in (0, 3):
        views = [strided(a, [int(axis) for axis in rng.permutation(a.ndim)], gap) for a in given]
        assert np.array_equal(function(*views, **keywords), expected)
    broadcast = [np.broadcast_to(a[:1], a.shape) for a in given]
    assert np.array_equal(function(*broadcast, **keywords), function(*map(np.ascontiguousarray, broadcast), **keywords))


@pytest.mark.parametrize("data_format", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_images(name, data_format):
    """Results without elements, gradients of zeros."""
    given, keywords, shape = arguments(np.random.default_rng(0), data_format, batch=0)[name]
    result = getattr(dgo, name)(*given, **keywords)
    assert result.shape == shape
    assert not result.any()


def test_no_channels():
    """A sum without terms is the bias."""
    src, weights = np.ones((1, 5, 0), np.float32), np.ones((3, 0, 2), np.float32)
    assert np.array_equal(dgo.convolution(src, weights, np.arange(2, dtype=np.float32)), [[[0, 1]] * 3])
    assert not dgo.convolution_backward_data(np.ones((1, 3, 0), np.float32), np.ones((3, 2, 0), np.float32)).any()


def test_tensors():
    torch = pytest.importorskip("torch")
    src, weights = torch.ones(1, 2, 5), torch.ones(3, 2, 2)
    found = dgo.convolution(src, weights, data_format="NCX", weights_format="OIX")
    assert np.array_equal(found, torch.nn.functional.conv1d(src, weights).numpy())


# -- the cache ---


@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_are_cached(name, seed):
    """The second call enters no Python but the function itself; new values, the same plan."""
    given, keywords, _ = arguments(np.random.default_rng(seed))[name]
    function, folder = getattr(dgo, name), os.path.dirname(dgo.errors.__file__)
    function(*given, **keywords)
    plans = dgo.cache_info()["size"]
    entered = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            entered.append(frame.f_code.co_name)

    changed = [2 * a for a in given]
    sys.setprofile(note)
    try:
        result = function(*changed, **keywords)
    finally:
        sys.setprofile(None)
    assert entered == [name]
    assert dgo.cache_info()["size"] == plans
    dgo.clear_caches()
    assert np.array_equal(result, function(*changed, **keywords))


def test_functions_have_plans_of_their_own():
    """Equal arrays and attributes of another function, or of the other family, are another call."""
    x, w = np.ones((1, 5, 3), np.float32), np.ones((2, 3, 3), np.float32)
    w[0] = 3
    results = [
        function(x, w, weights_format="XIO")
        for function in (dgo.convolution, dgo.conv_transpose, dgo.convolution_backward_data)
    ]
    assert [r.shape[1] for r in results] == [4, 6, 6]
    again = [
        function(x, w, weights_format="XIO")
        for function in (dgo.convolution, dgo.conv_transpose, dgo.convolution_backward_data)
    ]
    assert all(map(np.array_equal, results, again))


# -- what is refused ---

X, W, D = (np.zeros(shape, np.float32) for shape in ((1, 7, 7, 4), (3, 3, 4, 6), (1, 5, 5, 6)))
NOT_THE_KERNEL = r"weights_shape is needed; src \(1, 7, 7, 4\) and diff_dst .* give it as"
REFUSED = [
    ("", (X, W[:, :, :3]), {}, dgo.ShapeError, "src has 4 channels, weights of shape .* take 3 per group"),
    ("", (X, W[:, :, :2, :5]), {"groups": 2}, dgo.ShapeError, "5 output channels of weights .* groups = 2"),
    ("", (X, W), {"groups": 3}, dgo.ShapeError, "take 4 per group in 3 groups, 12 together"),
    ("", (X, W[0]), {}, dgo.ShapeError, r"weights has 3 axes \(3, 4, 6\), the data has 4"),
    ("", (X[0, 0], W), {}, dgo.ShapeError, "'src' must have rank 3 to 5"),
    ("", (X, W, np.zeros(5, np.float32)), {}, dgo.ShapeError, r"bias has shape \(5,\), .* give it the shape \(6,\)"),
    (
        "",
        (X, W, np.zeros(6, np.float16)),
        {},
        dgo.InvalidArgumentError,
        "'src' has dtype f32, but 'bias' has f16",
    ),
    ("", (X.astype(np.float64), W), {}, dgo.InvalidArgumentError, "'src': dtype float64 .*astype"),
    ("", (X.astype(np.int8), W), {}, dgo.InvalidArgumentError, "'src' has dtype s8; takes f32, bf16, f16"),
    ("", (X, W), {"strides": 0}, dgo.InvalidArgumentError, "'strides' must be at least 1, got 0"),
    ("", (X, W), {"strides": (1, 2, 3)}, dgo.ShapeError, "'strides' has 3 values .* 2 spatial axes; pass one"),
    ("", (X, W), {"dilations": 1.5}, TypeError, "'dilations' must be an int, got 1.5"),
    ("", (X, W), {"dilations": 4}, dgo.ShapeError, "reaches over 9 elements, but src has 7 .* use a smaller kernel"),
    ("", (X, W), {"pads_begin": -1}, dgo.InvalidArgumentError, "'pads_begin' must be at least 0, got -1"),
    ("", (X, W), {"pads_end": 2**31}, dgo.InvalidArgumentError, "'pads_end' must be at most 2147483647"),
    ("", (X, W), {"auto_pad": "some"}, dgo.InvalidArgumentError, "'auto_pad' must be one of .* got 'some'"),
    ("", (X, W), {"data_format": "NHCW"}, dgo.InvalidArgumentError, "did you mean 'NCW'"),
    ("", (X, W), {"weights_format": "OIHX"}, dgo.InvalidArgumentError, "did you mean 'OIX'"),
    ("", (X, W), {"output_padding": 1}, TypeError, "no argument 'output_padding'"),
    ("", (X, W), {"pads": 1}, TypeError, "no argument 'pads'; it is 'pads_begin' and 'pads_end' here"),
    ("", (X[:, ::-1], W), {}, dgo.InvalidArgumentError, "'src': has the negative strides .*ascontiguousarray"),
    ("", ([1.0], W), {}, TypeError, "'src': needs a NumPy array"),
    ("", (X, None), {}, TypeError, "'weights': needs a NumPy array"),
    ("", (X, W), {"engine": "cpu"}, TypeError, "'engine' must come from"),
    ("", (X, W), {"out": D[:, :4]}, dgo.ShapeError, r"'out': has shape .* expected \(1, 5, 5, 6\)"),
    (
        "",
        (X, W),
        {"out": D.astype(np.float16)},
        dgo.InvalidArgumentError,
        "'out': has dtype f16, and the result is f32",
    ),
    ("_backward_data", (D, W), {"src_shape": (1, 8, 7, 4)}, dgo.ShapeError, r"\(1, 8, 7, 4\) .* \(1, 5, 5, 6\)"),
    ("_backward_data", (D, W), {"src_shape": (1, 7, 7, 5)}, dgo.ShapeError, "src has 5 channels"),
    ("_backward_data", (D, W), {"src_shape": (1, 7, 4)}, dgo.ShapeError, r"\(1, 7, 4\) with 3 axes; 4 axes"),
    ("_backward_data", (D, W), {"src_shape": 7}, TypeError, "'src_shape' must be a sequence of ints"),
    ("_backward_data", (D, W), {"src_shape": (1, 7.0, 7, 4)}, TypeError, "'src_shape' must be an int, got 7.0"),
    ("_backward_data", (D[..., :5], W), {}, dgo.ShapeError, "diff_dst has 5 channels, .* 6 output channels"),
    ("_backward_data", (D, W), {"pads_begin": 9}, dgo.ShapeError, "diff_src would have the size -2 .* pads of 9"),
    ("_backward_data", (X, W), {"out": X}, dgo.ShapeError, "diff_dst has 4 channels"),
    (
        "_backward_weights",
        (X, D, (3, 3, 4, 5)),
        {},
        dgo.ShapeError,
        r"\(1, 5, 5, 5\), diff_dst has shape \(1, 5, 5, 6\)",
    ),
    ("_backward_weights", (X, D, (3, 3, 5, 6)), {}, dgo.ShapeError, "src has 4 channels, weights of shape"),
    ("_backward_weights", (X, D), {"strides": 2}, dgo.InvalidArgumentError, NOT_THE_KERNEL),
    ("_backward_weights", (X, D), {"auto_pad": "same_upper"}, dgo.InvalidArgumentError, NOT_THE_KERNEL),
    ("_backward_weights", (X, D, "3346"), {}, TypeError, "'weights_shape' must be a sequence of ints"),
    ("_backward_weights", (X, D), {"groups": 4}, dgo.ShapeError, "6 output channels of weights_shape .* groups = 4"),
    ("_backward_bias", (D[0, 0],), {}, dgo.ShapeError, "'diff_dst' must have rank 3 to 5"),
    ("_backward_bias", (D,), {"data_format": "C"}, dgo.InvalidArgumentError, "'data_format' must be one of NXC, NCX"),
]


@pytest.mark.parametrize(("tail", "given", "keywords", "error", "words"), REFUSED)
def test_refused(tail, given, keywords, error, words):
    with pytest.raises(error, match=words) as caught:
        getattr(dgo, f"convolution{tail}")(*given, **keywords)
    assert str(caught.value).startswith(f"convolution{tail}: ")


def test_out_may_not_overlap():
    src = np.zeros((1, 6, 4), np.float32)
    weights = np.zeros((1, 4, 4), np.float32)
    with pytest.raises(dgo.InvalidArgumentError, match=r"'out'.*'src'"):
        dgo.convolution(src, weights, out=src)
