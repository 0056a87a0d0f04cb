"""Modules against the NumPy truth, and what they refuse."""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import integers
from reference.rounding import DTYPES, round_to, ulp_error, wide

import dnnl_graph_ops as dgo
from dnnl_graph_ops import nn

MODULES = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
# groups, kernel, stride, padding, output_padding, dilation of the leading spatial axes
SETTINGS = [
    (1, (4, 4, 2), 2, 1, 0, 1),
    (2, (3, 2, 3), (3, 2, 1), (1, 0, 1), (2, 1, 0), (1, 2, 2)),
    (6, 3, 2, 1, 1, 1),
]
SIZES = (4, 3, 3)


def per_rank(value, rank):
    return value[:rank] if isinstance(value, tuple) else value


def make(rank, setting, **options):
    groups, *rest = setting
    kernel, stride, padding, output_padding, dilation = (per_rank(value, rank) for value in rest)
    return MODULES[rank](6, 12, kernel, stride, padding, output_padding, dilation, groups, rng=7, name="up", **options)


def fill(module, rng):
    """Small whole numbers, whose sums are exact in float32."""
    module.weight[...] = integers(rng, module.weight.shape)
    module.bias[...] = integers(rng, module.bias.shape)


def truth(module, src, diff):
    """dst, diff_src, diff_weights (IOX) and diff_bias in float64."""
    weights = wide(module.weight).reshape(-1, *module.weight.shape[-1 - module._spatial_axes :])
    attributes = {
        "strides": module.stride,
        "pads_begin": module.padding,
        "pads_end": module.padding,
        "dilations": module.dilation,
        "output_padding": module.output_padding,
        "groups": module.groups,
        "data_format": module.data_format,
        "weights_format": "IOX",
    }
    spatial = ct.channels_first(src, module.data_format).shape[2:]
    return (
        ct.forward(src, weights, wide(module.bias).reshape(-1), **attributes),
        ct.backward_data(diff, weights, src_spatial=spatial, **attributes),
        ct.backward_weights(src, diff, module.kernel_size, **attributes),
        ct.backward_bias(diff, data_format=module.data_format),
    )


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("rank", "setting", "data_format", "dtype"),
    [
        *product(MODULES, SETTINGS, ("NCX", "NXC"), ("f32",)),
        *product((2,), SETTINGS[:2], ("NCX", "NXC"), ("bf16", "f16")),
    ],
)
@pytest.mark.parametrize("compute_mode", ["default", "float32"])
def test_forward_and_backward(rank, setting, data_format, dtype, compute_mode, seed):
    rng = np.random.default_rng(seed)
    module = make(rank, setting, data_format=data_format, dtype=dtype, compute_mode=compute_mode)
    fill(module, rng)
    src = ct.from_channels_first(integers(rng, (2, 6, *SIZES[:rank]), dtype), data_format)
    dst = module(src)
    diff = integers(rng, dst.shape, dtype)
    diff_src = module.backward(diff)

    exact = truth(module, src, diff)
    found = (dst, diff_src, module.weight_grad.reshape(exact[2].shape), module.bias_grad.reshape(-1))
    assert module.weight_grad.shape == module.weight.shape
    assert module.bias_grad.shape == module.bias.shape == (1, 12, *(1,) * rank)
    for got, want in zip(found, exact, strict=True):
        assert got.dtype == DTYPES[dtype]
        assert ulp_error(got, want, dtype) <= (dtype != "f32")


@pytest.mark.parametrize("native", [False, True])
def test_float32_mode_rounds_once(native, monkeypatch, seed):
    """Whether or not the CPU has float16 arithmetic."""
    monkeypatch.setattr("dnnl_graph_ops.runtime.cpu.computes_natively", lambda dtype, engine, ops=(): native)
    dgo.clear_caches()
    rng = np.random.default_rng(seed)
    module = nn.ConvTranspose2d(256, 2, 1, dtype="f16", compute_mode="float32", bias=False, rng=rng)
    # eighths up to 8, whose sums of products are exact in float32 and not in float16
    module.weight[...] = integers(rng, module.weight.shape, limit=64) / 8
    src = (integers(rng, (1, 256, 3, 3), limit=64) / 8).astype(np.float16)
    exact = np.einsum("nixy,io->noxy", wide(src), wide(module.weight)[:, :, 0, 0])
    try:
        got = module(src)
        assert got.dtype == np.float16
        assert (got == round_to(exact, "f16")).all()
        assert module.backward(got).dtype == module.weight_grad.dtype == np.float16
    finally:
        dgo.clear_caches()


@pytest.mark.parametrize(("groups", "shape"), [(1, (6, 12, 3, 5)), (3, (3, 2, 4, 3, 5))])
def test_initial_values(groups, shape):
    module = nn.ConvTranspose2d(6, 12, (3, 5), groups=groups, rng=3)
    assert module.weight.shape == shape
    bound = 1 / np.sqrt(12 / groups * 15)
    assert 0.8 * bound < np.abs(module.weight).max() <= bound
    assert np.abs(module.bias).max() <= bound
    again, other = (nn.ConvTranspose2d(6, 12, (3, 5), groups=groups, rng=r) for r in (np.random.default_rng(3), 4))
    assert (module.weight == again.weight).all()
    assert (module.bias == again.bias).all()
    assert (module.weight != other.weight).any()
    assert (module.weight_grad, module.bias_grad) == (None, None)


def test_parameters_are_read_at_every_call():
    module = nn.ConvTranspose1d(2, 3, 2, rng=0, bias=False)
    x = np.ones((1, 2, 4), np.float32)
    first = module(x)
    module.weight *= 2
    assert (module(x) == 2 * first).all()
    module.weight = np.zeros_like(module.weight)
    assert not module(x).any()


def test_gradients_are_new_arrays():
    module = nn.ConvTranspose1d(2, 3, 2, rng=0)
    dst = module(np.ones((1, 2, 4), np.float32))
    module.backward(dst)
    weight_grad, kept = module.weight_grad, module.weight_grad.copy()
    module.backward(2 * dst)
    assert (weight_grad == kept).all()
    assert (module.weight_grad == 2 * kept).all()


def test_strided_data(seed):
    module = nn.ConvTranspose2d(3, 2, 3, rng=0)
    fill(module, np.random.default_rng(seed))
    whole = np.arange(2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)
    view = whole[:, :, ::2, 1::3]
    assert np.array_equal(module(view), module(view.copy()))


def test_output_shape():
    module = nn.ConvTranspose2d(3, 2, 4, stride=2, padding=1, data_format="NXC")
    assert module.output_shape((None, 5, None, 3)) == (None, 10, None, 2)


def test_state_dict():
    first, second = nn.ConvTranspose2d(2, 4, 3, groups=2, rng=1), nn.ConvTranspose2d(2, 4, 3, groups=2, rng=2)
    state = first.state_dict()
    assert list(state) == ["weight", "bias"]
    second.load_state_dict(state)
    assert (second.weight == first.weight).all()
    assert (second.bias == first.bias).all()
    state["weight"][...] = 0
    assert first.weight.all()
    assert second.weight.all()
    assert list(nn.ConvTranspose1d(1, 1, 1, bias=False).state_dict()) == ["weight"]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda s: s.pop("bias"), dgo.InvalidArgumentError, "misses bias"),
        (lambda s: s.update(scale=s["bias"]), dgo.InvalidArgumentError, "no place for scale"),
        (lambda s: s.update(bias=s["bias"][0]), dgo.ShapeError, r"'bias': has shape \(4, 1\)"),
        (lambda s: s.update(bias=s["bias"].astype("f8")), dgo.InvalidArgumentError, "dtype float64"),
        (lambda s: s.update(bias=[1.0]), TypeError, "'bias': must be a NumPy array or a tensor, got list"),
    ],
)
def test_wrong_state(change, error, words):
    module = nn.ConvTranspose1d(2, 4, 3, name="up")
    before = module.state_dict()
    state = {name: array + 1 for name, array in before.items()}
    change(state)
    with pytest.raises(error, match=words) as caught:
        module.load_state_dict(state)
    assert "ConvTranspose1d 'up'.load_state_dict" in str(caught.value)
    assert all((module.state_dict()[name] == array).all() for name, array in before.items())


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"in_channels": 0}, dgo.InvalidArgumentError, "'in_channels' must be at least 1, got 0"),
        ({"in_channels": 2.0}, TypeError, "'in_channels'"),
        ({"out_channels": 5, "groups": 2}, dgo.InvalidArgumentError, "'out_channels'=5 .* groups=2"),
        ({"kernel_size": (3, 3, 3)}, dgo.ShapeError, "'kernel_size' has 3 values"),
        ({"kernel_size": 0}, dgo.InvalidArgumentError, "'kernel_size' must be at least 1, got 0"),
        ({"stride": 0}, dgo.InvalidArgumentError, "'stride'"),
        ({"padding": -1}, dgo.InvalidArgumentError, "'padding'"),
        ({"output_padding": "1"}, TypeError, "'output_padding'"),
        ({"dilation": (1, 0)}, dgo.InvalidArgumentError, "'dilation'"),
        ({"groups": 0}, dgo.InvalidArgumentError, "'groups'"),
        ({"bias": "yes"}, TypeError, "'bias'"),
        ({"conv_mode": "convolution"}, dgo.InvalidArgumentError, "cross_correlation, got 'convolution'"),
        ({"conv_mode": "winograd"}, dgo.InvalidArgumentError, "'conv_mode'"),
        ({"compute_mode": "float16"}, dgo.InvalidArgumentError, "'compute_mode'"),
        ({"data_format": "NHCW"}, dgo.InvalidArgumentError, "'data_format'"),
        ({"dtype": "s8"}, dgo.InvalidArgumentError, "'dtype' must be one of f32, bf16, f16, got s8"),
        ({"rng": "seed"}, TypeError, "'rng'"),
        ({"rng": -1}, ValueError, "'rng'"),
        ({"engine": "cpu"}, TypeError, "'engine'"),
        ({"name": 3}, TypeError, "'name'"),
    ],
)
def test_wrong_arguments(options, error, words):
    with pytest.raises(error, match=words):
        nn.ConvTranspose2d(**{"in_channels": 4, "out_channels": 4, "kernel_size": 3, **options})


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (np.zeros((1, 2, 4, 4), np.float32), dgo.ShapeError, "'src' has rank 4"),
        (np.zeros((1, 4, 2), np.float32), dgo.ShapeError, "4 channels .* needs 2"),
        (np.zeros((1, 2, 4)), dgo.InvalidArgumentError, "dtype float64"),
        ([[[1.0]]], TypeError, "needs a NumPy array"),
    ],
)
def test_wrong_data(given, error, words):
    with pytest.raises(error, match=words):
        nn.ConvTranspose1d(2, 3, 2, name="up")(given)


def test_wrong_gradient():
    module = nn.ConvTranspose1d(2, 3, 2)
    with pytest.raises(dgo.InvalidArgumentError, match="call the module before"):
        module.backward(np.zeros((1, 3, 5), np.float32))
    module(np.zeros((1, 2, 4), np.float32))
    with pytest.raises(dgo.ShapeError, match=r"\(1, 3, 6\), but the latest dst had \(1, 3, 5\)"):
        module.backward(np.zeros((1, 3, 6), np.float32))
    assert module.weight_grad is None


def test_wrong_parameters():
    module = nn.ConvTranspose1d(2, 3, 2, bias=False)
    with pytest.raises(dgo.ShapeError, match="convert_weights"):
        module.weight = np.zeros((3, 2, 2), np.float32)
    with pytest.raises(dgo.InvalidArgumentError, match="bias=False"):
        module.bias = np.zeros((1, 3, 1), np.float32)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent(duplicate):
    module = nn.ConvTranspose2d(2, 4, 3, groups=2, name="up", engine=dgo.engine("cpu"))
    x = np.ones((1, 2, 4, 4), np.float32)
    expected = module(x)
    other = duplicate(module)
    module.weight[...] = 0
    assert (other(x) == expected).all()
    assert other.engine is module.engine
    assert repr(other) == repr(module)


def test_repr():
    module = nn.ConvTranspose1d(2, 4, 3, padding=1, groups=2, bias=False, name="up")
    assert repr(module) == (
        "ConvTranspose1d(2, 4, kernel_size=(3,), stride=(1,), padding=(1,), groups=2, bias=False, name='up', "
        "dtype='f32', data_format='NCX')"
    )
