"""Ordinary convolutions as modules: against PyTorch, and where they differ from the transposed ones."""

import pickle
from itertools import product

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import integers
from reference.rounding import DTYPES, ulp_error, wide

import dnnl_graph_ops as dgo
from dnnl_graph_ops import nn

peer = pytest.importorskip("reference.peer", reason="needs PyTorch")

MODULES = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
# groups, kernel, stride, padding, dilation of the leading spatial axes
SETTINGS = [
    (1, 3, 1, 1, 1),
    (1, (4, 3, 2), 2, (1, 0, 1), 1),
    (2, (3, 2, 3), (3, 1, 2), (2, 0, 3), (2, 1, 2)),
    (6, 3, (1, 2, 1), 1, 1),
    (1, 1, (2, 1, 3), 0, 1),
]
SIZES = (9, 8, 7)


def make(rank, setting, **options):
    groups, *rest = setting
    kernel, stride, padding, dilation = (value[:rank] if isinstance(value, tuple) else value for value in rest)
    return MODULES[rank](6, 12, kernel, stride, padding, dilation, groups, rng=7, name="down", **options)


def fill(module, rng):
    """Small whole numbers, whose sums are exact in float32."""
    module.weight[...] = integers(rng, module.weight.shape)
    module.bias[...] = integers(rng, module.bias.shape)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("rank", "setting", "data_format", "dtype"),
    [
        *product(MODULES, SETTINGS, ("NCX", "NXC"), ("f32",)),
        *product((2,), SETTINGS[1:4], ("NCX", "NXC"), ("bf16", "f16")),
    ],
)
@pytest.mark.parametrize("compute_mode", ["default", "float32"])
def test_forward_and_backward(rank, setting, data_format, dtype, compute_mode, seed):
    rng = np.random.default_rng(seed)
    module = make(rank, setting, data_format=data_format, dtype=dtype, compute_mode=compute_mode)
    fill(module, rng)
    src = ct.from_channels_first(integers(rng, (2, 6, *SIZES[:rank]), dtype), data_format)
    dst = module(src)
    assert module.output_shape(src.shape) == dst.shape
    diff = integers(rng, dst.shape, dtype)
    diff_src = module.backward(diff)

    weights = module.weight.reshape(12, -1, *module.kernel_size)
    attributes = {"strides": module.stride, "dilations": module.dilation, "groups": module.groups}
    exact = peer.convolution(
        ct.channels_first(src, data_format),
        weights,
        module.bias.reshape(-1),
        ct.channels_first(diff, data_format),
        pads_begin=module.padding,
        pads_end=module.padding,
        **attributes,
    )
    assert module.weight_grad.shape == module.weight.shape
    assert module.bias_grad.shape == module.bias.shape == (1, 12, *(1,) * rank)
    found = (
        ct.channels_first(dst, data_format),
        ct.channels_first(diff_src, data_format),
        module.weight_grad.reshape(weights.shape),
        module.bias_grad.reshape(-1),
    )
    for got, want in zip(found, exact, strict=True):
        assert (got.dtype, got.shape) == (DTYPES[dtype], want.shape)
        assert ulp_error(got, want, dtype) <= (dtype != "f32")


@pytest.mark.parametrize("native", [False, True])
def test_float32_mode_rounds_once(native, monkeypatch, seed):
    monkeypatch.setattr("dnnl_graph_ops.runtime.cpu.computes_natively", lambda dtype, engine, ops=(): native)
    dgo.clear_caches()
    rng = np.random.default_rng(seed)
    module = nn.Conv2d(256, 2, 1, dtype="f16", compute_mode="float32", bias=False, rng=rng)
    # eighths up to 8, whose sums of products are exact in float32 and not in float16
    module.weight[...] = integers(rng, module.weight.shape, limit=64) / 8
    src = (integers(rng, (1, 256, 3, 3), limit=64) / 8).astype(np.float16)
    exact = np.einsum("nixy,oi->noxy", wide(src), wide(module.weight)[:, :, 0, 0])
    try:
        got = module(src)
        assert got.dtype == np.float16
        assert (got == exact.astype(np.float16)).all()
        assert module.backward(got).dtype == module.weight_grad.dtype == np.float16
    finally:
        dgo.clear_caches()


@pytest.mark.parametrize(("groups", "shape"), [(1, (12, 6, 3, 5)), (3, (3, 4, 2, 3, 5))])
def test_initial_values(groups, shape):
    module = nn.Conv2d(6, 12, (3, 5), groups=groups, rng=3)
    assert module.weight.shape == shape
    bound = 1 / np.sqrt(6 / groups * 15)
    assert 0.8 * bound < np.abs(module.weight).max() <= bound
    assert np.abs(module.bias).max() <= bound


def test_transposed_module_goes_back(seed):
    """It computes the gradient of the ordinary one with the same weights."""
    rng = np.random.default_rng(seed)
    down = nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, bias=False)
    up = nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, groups=2, bias=False)
    down.weight[...] = integers(rng, down.weight.shape)
    up.load_state_dict(down.state_dict())
    src = integers(rng, (2, 4, 7, 9))
    diff = integers(rng, down(src).shape)
    assert np.array_equal(up(diff), down.backward(diff))


def test_no_images():
    module = nn.Conv2d(3, 4, 3, padding=1)
    dst = module(np.ones((0, 3, 5, 5), np.float32))
    assert dst.shape == (0, 4, 5, 5)
    assert module.backward(dst).shape == (0, 3, 5, 5)
    assert not module.weight_grad.any() and not module.bias_grad.any()


def test_strided_data(seed):
    module = nn.Conv2d(3, 2, 3, rng=0)
    fill(module, np.random.default_rng(seed))
    view = np.arange(2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)[:, :, ::2, 1::2]
    assert np.array_equal(module(view), module(view.copy()))


def test_output_shape():
    module = nn.Conv2d(3, 2, 4, stride=2, padding=1, data_format="NXC")
    assert module.output_shape((None, 10, None, 3)) == (None, 5, None, 2)
    with pytest.raises(dgo.ShapeError, match="src has 4 channels"):
        module.output_shape((1, 10, 10, 4))


def test_parameters_are_read_at_every_call():
    module = nn.Conv1d(2, 3, 2, rng=0, bias=False)
    x = np.ones((1, 2, 4), np.float32)
    first = module(x)
    module.weight *= 2
    assert (module(x) == 2 * first).all()
    module.weight = np.zeros_like(module.weight)
    assert not module(x).any()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"output_padding": 1}, TypeError, "output_padding"),
        ({"in_channels": 5, "groups": 2}, dgo.InvalidArgumentError, "Conv2d: 'in_channels'=5 .* groups=2"),
        ({"kernel_size": (3, 3, 3)}, dgo.ShapeError, "Conv2d: 'kernel_size' has 3 values"),
        ({"padding": -1}, dgo.InvalidArgumentError, "'padding' must be at least 0, got -1"),
        ({"conv_mode": "convolution"}, dgo.InvalidArgumentError, "cross_correlation, got 'convolution'"),
        ({"compute_mode": "float16"}, dgo.InvalidArgumentError, "'compute_mode'"),
        ({"dtype": "s8"}, dgo.InvalidArgumentError, "'dtype' must be one of f32, bf16, f16, got s8"),
        ({"rng": "seed"}, TypeError, "'rng'"),
    ],
)
def test_wrong_arguments(options, error, words):
    with pytest.raises(error, match=words):
        nn.Conv2d(**{"in_channels": 4, "out_channels": 4, "kernel_size": 3, **options})


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (np.zeros((1, 2, 4, 4), np.float32), dgo.ShapeError, "'src' has rank 4"),
        (np.zeros((1, 4, 2), np.float32), dgo.ShapeError, "4 channels .* needs 2"),
        (np.zeros((1, 2, 4)), dgo.InvalidArgumentError, "dtype float64"),
        (np.zeros((1, 2, 1), np.float32), dgo.ShapeError, "spatial axis 0"),
    ],
)
def test_wrong_data(given, error, words):
    module = nn.Conv1d(2, 3, 2, name="down")
    with pytest.raises(error, match=words):
        module(given)
    with pytest.raises(dgo.InvalidArgumentError, match=r"Conv1d 'down'\.backward: call the module before"):
        module.backward(given)


def test_wrong_weight():
    module = nn.Conv1d(2, 3, 2)
    with pytest.raises(dgo.ShapeError, match=r"needs \(3, 2, 2\); dgo.convert_weights\(.*op='convolution'\)"):
        module.weight = np.zeros((2, 3, 2), np.float32)


def test_copies_are_independent():
    module = nn.Conv2d(2, 4, 3, groups=2, name="down", engine=dgo.engine("cpu"))
    x = np.ones((1, 2, 4, 4), np.float32)
    expected = module(x)
    other = pickle.loads(pickle.dumps(module))
    module.weight[...] = 0
    assert (other(x) == expected).all()
    assert repr(other) == repr(module)


def test_repr():
    module = nn.Conv1d(2, 4, 3, dilation=2, groups=2, bias=False, name="down")
    assert repr(module) == (
        "Conv1d(2, 4, kernel_size=(3,), stride=(1,), dilation=(2,), groups=2, bias=False, name='down', "
        "dtype='f32', data_format='NCX')"
    )
