"""The NumPy truth of the family against PyTorch in float64."""

import numpy as np
import pytest

from . import conv_transpose as ct
from . import convolution
from .rounding import DTYPES, round_to, ulp_error, wide

torch = pytest.importorskip("torch")
F = torch.nn.functional
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
PLAIN = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}

# rank, N, IC, OC, groups, spatial, kernel, stride, dilation, pad, output padding
SETTINGS = [
    (1, 2, 4, 6, 1, (7,), (3,), 2, 1, 1, 1),
    (1, 1, 3, 2, 1, (5,), (2,), 3, 1, 0, 2),
    (2, 2, 4, 6, 2, (5, 4), (3, 4), (2, 3), (2, 1), (1, 0), (1, 2)),
    (2, 1, 6, 6, 6, (4, 4), (4, 4), 2, 1, 1, 0),
    (2, 3, 5, 1, 1, (1, 1), (4, 3), 1, 1, 0, 0),
    (3, 1, 4, 2, 2, (3, 2, 4), (2, 3, 3), (1, 2, 2), (1, 1, 2), (0, 1, 2), (0, 1, 0)),
]


@pytest.fixture(params=SETTINGS, ids=str)
def problem(request):
    rank, n, ic, oc, groups, spatial, kernel, stride, dilation, pad, extra = request.param
    rng = np.random.default_rng(7)
    src = rng.standard_normal((n, ic, *spatial))
    weights = rng.standard_normal((ic, oc // groups, *kernel))
    bias = rng.standard_normal(oc)
    ours = {
        "strides": stride,
        "pads_begin": pad,
        "pads_end": pad,
        "dilations": dilation,
        "output_padding": extra,
        "groups": groups,
    }
    theirs = {
        "stride": stride,
        "padding": pad,
        "dilation": dilation,
        "output_padding": extra,
        "groups": groups,
    }
    tensors = [torch.tensor(a, requires_grad=True) for a in (src, weights, bias)]
    dst = TRANSPOSED[rank](*tensors, **theirs)
    diff = torch.tensor(rng.standard_normal(dst.shape))
    dst.backward(diff)
    return src, weights, bias, ours, dst.detach().numpy(), diff.numpy(), [t.grad.numpy() for t in tensors]


@pytest.mark.sweep
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("weights_format", ["IOX", "XOI", "OIX", "XIO"])
def test_all_directions(problem, data_format, weights_format):
    src, weights, bias, attributes, dst, diff, (diff_src, diff_weights, diff_bias) = problem
    kernel = weights.shape[2:]
    formats = {"data_format": data_format, "weights_format": weights_format}

    def data(a):
        return ct.from_channels_first(a, data_format)

    w = ct.from_iox(weights, weights_format)
    close = {"rtol": 1e-12, "atol": 1e-11}
    np.testing.assert_allclose(ct.forward(data(src), w, bias, **formats, **attributes), data(dst), **close)
    got = ct.backward_data(data(diff), w, src_spatial=src.shape[2:], **formats, **attributes)
    np.testing.assert_allclose(got, data(diff_src), **close)
    np.testing.assert_allclose(ct.backward_data(data(diff), w, **formats, **attributes), got)
    got = ct.backward_weights(data(src), data(diff), kernel, **formats, **attributes)
    np.testing.assert_allclose(got, ct.from_iox(diff_weights, weights_format), **close)
    np.testing.assert_allclose(ct.backward_bias(data(diff), data_format=data_format), diff_bias, **close)


def test_output_padding_beyond_stride_adds_zero_rows():
    dst = ct.forward(np.ones((1, 2, 1)), np.ones((1, 1, 1)), strides=1, output_padding=3)
    np.testing.assert_array_equal(dst[0, :, 0], [1, 1, 0, 0, 0])


@pytest.mark.parametrize(
    ("kernel", "stride", "mode", "pads"),
    [
        (3, 2, "same_upper", (0, 1)),
        (3, 2, "SAME_LOWER", (1, 0)),
        (4, 1, "same_upper", (1, 2)),
        (2, 3, "same_upper", (0, 0)),
        (3, 2, "valid", (0, 0)),
    ],
)
def test_auto_pad(kernel, stride, mode, pads):
    s = ct.setting((kernel,), strides=stride, pads_begin=9, pads_end=9, auto_pad=mode)
    assert (s.pads_begin, s.pads_end) == ((pads[0],), (pads[1],))


def test_documented_shape_pairs_the_same_channels():
    groups, ic, oc = 2, 4, 6
    weights = np.arange(ic * oc // groups * 3).reshape(ic, oc // groups, 3)
    shown = ct.documented(weights, "IOX", groups)
    assert shown.shape == (ic // groups, oc, 3)
    for g in range(groups):
        for i in range(ic // groups):
            for o in range(oc // groups):
                np.testing.assert_array_equal(shown[i, g * oc // groups + o], weights[g * ic // groups + i, o])


# pads of a 7x6 source, 3x2 kernel, strides 2 and 1, dilations 1 and 2
PADS = {
    "none": ((1, 0), (0, 2)),
    "same_upper": ((1, 1), (1, 1)),
    "same_lower": ((1, 1), (1, 1)),
    "valid": ((0, 0), (0, 0)),
}


@pytest.mark.parametrize("auto_pad", PADS)
def test_convolution(auto_pad):
    rng = np.random.default_rng(3)
    src, weights, bias = (rng.standard_normal(s) for s in ((2, 4, 7, 6), (6, 2, 3, 2), (6,)))
    attributes = {"strides": (2, 1), "dilations": (1, 2), "groups": 2, "auto_pad": auto_pad}
    begin, end = PADS[auto_pad]
    padded = np.pad(src, [(0, 0), (0, 0), *zip(begin, end, strict=True)])
    tensors = [torch.tensor(a, requires_grad=True) for a in (padded, weights, bias)]
    dst = PLAIN[2](*tensors, stride=(2, 1), dilation=(1, 2), groups=2)
    diff = rng.standard_normal(dst.shape)
    dst.backward(torch.tensor(diff))
    window = tuple(slice(b, b + i) for b, i in zip(begin, (7, 6), strict=True))
    all_attributes = {**attributes, "pads_begin": (1, 0), "pads_end": (0, 2)}
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    got = convolution.forward(src, weights, bias, **formats, **all_attributes)
    np.testing.assert_allclose(got, dst.detach().numpy(), atol=1e-12)
    got = convolution.backward_data(diff, weights, (7, 6), **formats, **all_attributes)
    np.testing.assert_allclose(got, tensors[0].grad.numpy()[(..., *window)], atol=1e-12)
    got = convolution.backward_weights(src, diff, (3, 2), **formats, **all_attributes)
    np.testing.assert_allclose(got, tensors[1].grad.numpy(), atol=1e-12)


@pytest.mark.parametrize(("name", "theirs"), [("bf16", "bfloat16"), ("f16", "float16")])
def test_rounding_is_to_nearest_even(name, theirs):
    rng = np.random.default_rng(5)
    values = rng.standard_normal(20000).astype(np.float32)
    expected = torch.tensor(values).to(getattr(torch, theirs)).float().numpy()
    np.testing.assert_array_equal(wide(round_to(values, name)), expected)


def test_rounding_happens_once():
    # just above half way between two bf16 values, by less than float32 can tell
    value = 1 + 2.0**-8 + 2.0**-40
    assert float(round_to(np.float64(value), "bf16")) == 1 + 2.0**-7
    assert float(round_to(np.float64(value - 2.0**-39), "bf16")) == 1.0
    assert ulp_error(np.array([1.0], DTYPES["bf16"]), np.array([1 + 2.0**-8]), "bf16") == 0.5
    np.testing.assert_array_equal(round_to(np.array([-1.5, 2.5, 300, -300]), "s8"), [-2, 2, 127, -128])
