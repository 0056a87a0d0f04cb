"""Parameters of both kinds of modules from PyTorch: tensors, shapes, and what does not fit."""

from collections import OrderedDict

import numpy as np
import pytest
from reference.data import integers

import dnnl_graph_ops as dgo
from dnnl_graph_ops import nn

torch = pytest.importorskip("torch", reason="the reference")

KINDS = ["Conv", "ConvTranspose"]
TORCH = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def pair(kind, rank=2, groups=1, dtype="f32", bias=True):
    """A module and PyTorch's, with other parameters; small whole numbers in the latter."""
    arguments = (6, 12, (3, 2, 2)[:rank], 2)
    ours = getattr(nn, f"{kind}{rank}d")(*arguments, groups=groups, bias=bias, dtype=dtype, name="x", rng=1)
    theirs = getattr(torch.nn, f"{kind}{rank}d")(*arguments, groups=groups, bias=bias, dtype=TORCH[dtype])
    rng = np.random.default_rng(5)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.tensor(integers(rng, parameter.shape)))
    return ours, theirs


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_state_of_pytorch(kind, rank, groups, seed):
    ours, theirs = pair(kind, rank, groups)
    ours.load_state_dict(theirs.state_dict())
    src = integers(np.random.default_rng(seed), (2, 6, 7, 6, 5)[: rank + 2])
    with torch.no_grad():
        assert np.array_equal(ours(src), theirs(torch.tensor(src)).numpy())


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("kind", KINDS)
def test_dtypes(kind, dtype):
    ours, theirs = pair(kind, groups=2, dtype=dtype)
    ours.load_state_dict(theirs.state_dict())
    exact = theirs.weight.detach().float().numpy()
    assert np.array_equal(ours.weight.astype(np.float32).reshape(exact.shape), exact)


class Holder:
    """What only has `__array__`."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "carried",
    [lambda p: p, lambda p: p.detach(), lambda p: p.detach().numpy(), lambda p: Holder(p.detach().numpy())],
    ids=["requires gradients", "detached", "array", "__array__"],
)
def test_carriers(kind, carried):
    ours, theirs = pair(kind, groups=3)
    ours.load_state_dict({name: carried(parameter) for name, parameter in theirs.named_parameters()})
    assert np.array_equal(ours.weight.reshape(theirs.weight.shape), theirs.weight.detach().numpy())
    assert np.array_equal(ours.bias.reshape(-1), theirs.bias.detach().numpy())
    assert ours.weight.shape[0] == 3
    assert ours.bias.shape == (1, 12, 1, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_loaded_values_are_copies(kind):
    ours, theirs = pair(kind, bias=False)
    ours.load_state_dict(theirs.state_dict())
    kept = ours.weight.copy()
    with torch.no_grad():
        theirs.weight.zero_()
    assert np.array_equal(ours.weight, kept)


@pytest.mark.parametrize("kind", KINDS)
def test_strided_tensors(kind):
    ours, theirs = pair(kind, groups=2)
    state = theirs.to(memory_format=torch.channels_last).state_dict()
    assert not state["weight"].is_contiguous()
    ours.load_state_dict(state)
    assert np.array_equal(ours.weight.reshape(state["weight"].shape), state["weight"].numpy())


class Elsewhere:
    """A tensor on a GPU."""

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **options):
        raise AssertionError("asked for memory of a GPU")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "value", "error", "words"),
    [
        ("bias", torch.zeros(6), dgo.ShapeError, r"'bias': has shape \(6,\), .* \(1, 12, 1, 1\) or PyTorch's \(12,\)$"),
        ("bias", torch.zeros(1, 12), dgo.ShapeError, "'bias': has shape"),
        ("weight", torch.zeros(2, 3, 3, 3, 2), dgo.ShapeError, "'weight': .* or PyTorch's .*'megengine', op='conv"),
        ("weight", torch.zeros(36), dgo.ShapeError, "'weight': has shape"),
        ("weight", np.float32(1), dgo.ShapeError, r"'weight': has shape \(\)"),
        ("bias", torch.zeros(12, dtype=torch.float64), dgo.InvalidArgumentError, "'bias': has dtype float64"),
        ("weight", Elsewhere(), dgo.InvalidArgumentError, "'weight': .*not in CPU memory"),
        ("weight", "weights.npy", TypeError, "'weight': must be a NumPy array or a tensor, got str"),
        ("weight", None, TypeError, "'weight': .* got NoneType"),
    ],
)
def test_nothing_changes_where_one_does_not_fit(kind, name, value, error, words):
    ours, theirs = pair(kind, groups=2)
    before = ours.state_dict()
    with pytest.raises(error, match=words) as caught:
        ours.load_state_dict(OrderedDict(theirs.state_dict(), **{name: value}))
    assert f"{kind}2d 'x'.load_state_dict: " in str(caught.value)
    assert all(np.array_equal(array, before[key]) for key, array in ours.state_dict().items())


@pytest.mark.parametrize(
    ("state", "bias", "words"),
    [
        (lambda layer: layer, True, "got Conv2d; pass its state_dict"),
        (lambda layer: torch.nn.Sequential(layer, layer).state_dict(), True, "keys that begin with '0.', without"),
        (lambda layer: {"weight": layer.weight}, True, "misses bias; .*; make the module with bias=False"),
        (lambda layer: layer.state_dict(), False, "no place for bias; .*; make the module with bias=True"),
        (lambda layer: {"weights": layer.weight}, False, "no place for weights; .*; did you mean 'weight'?"),
    ],
)
def test_the_next_step_is_said(state, bias, words):
    ours, _ = pair("Conv", bias=bias)
    with pytest.raises((TypeError, dgo.InvalidArgumentError), match=words):
        ours.load_state_dict(state(pair("Conv")[1]))


def test_parameters_themselves_stay_arrays():
    """An assigned array is the parameter from then on, so that nothing may be converted."""
    ours, theirs = pair("Conv")
    with pytest.raises(TypeError, match="'weight': must be a NumPy array, got Tensor"):
        ours.weight = theirs.weight.detach()
    with pytest.raises(dgo.ShapeError, match="'bias': has shape"):
        ours.bias = np.zeros(12, np.float32)
