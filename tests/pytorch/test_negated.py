"""Tensors whose memory does not hold their elements: read as PyTorch does, or refused, at every door."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.errors import InvalidArgumentError
from dnnl_graph_ops.torch.whole_model import backend

from .common import integers, with_integers


def pair(*shape):
    """A tensor, and one of the same layout that PyTorch negates lazily."""
    z = torch.complex(integers(*shape), integers(*shape))
    # an axis with a stride of one
    plain, negated = z.imag.unsqueeze(-1), z.conj().imag.unsqueeze(-1)
    assert negated.is_neg() and not plain.is_neg() and plain.stride() == negated.stride()
    return plain, negated


@pytest.fixture
def ours_computes():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("which", ["input", "weight", "bias", "gradient"])
def test_layers(which, order, train, ours_computes):
    """Plain tensors come before negated ones, and behind them."""
    theirs = with_integers(nn.Conv2d(4, 4, (3, 1)))
    ours = dgt.optimize(theirs)
    theirs.train(train), ours.train(train)
    biases = torch.complex(integers(4), integers(4))
    pairs = {
        "input": pair(1, 4, 7), "weight": pair(4, 4, 3), "bias": (biases.imag, biases.conj().imag),
        "gradient": pair(1, 4, 5),
    }[which]  # fmt: skip
    ordinary = {"input": integers(1, 4, 7, 1), "gradient": integers(1, 4, 5, 1)}
    for number in (*order, *order):
        x, dy = ({**ordinary, which: pairs[number]}[name] for name in ("input", "gradient"))
        for layer in (ours, theirs):
            if which in ("weight", "bias"):
                getattr(layer, which).data = pairs[number]
        with torch.no_grad():
            assert torch.equal(ours(x), theirs(x))
        results = []
        for layer in (ours, theirs):
            given = x.detach().requires_grad_()
            y = layer(given)
            results.append([y, *torch.autograd.grad(y, [given, layer.weight, layer.bias], dy)])
        for mine, other in zip(*results, strict=True):
            assert torch.equal(mine, other)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("which", ["input", "parameter"])
def test_compiled_models(which, inference, monkeypatch):
    monkeypatch.setattr(backend._Entry, "is_faster", lambda entry, args: True)
    torch._dynamo.reset()
    model = with_integers(nn.Sequential(nn.Conv2d(4, 4, (3, 1)), nn.ReLU()))
    plain, negated = pair(1, 4, 7)
    with torch.inference_mode() if inference else torch.no_grad():
        if which == "parameter":
            model[0].weight.data = pair(4, 4, 3)[1]
        compiled = torch.compile(model, backend="dnnl_graph_ops")
        for x in (plain, negated, plain):
            assert torch.equal(compiled(x), model(x))


def test_ops(ours_computes):
    w = integers(4, 4, 3, 1)
    for x in (*pair(1, 4, 7), *pair(1, 4, 7)):
        found = torch.ops.dnnl_graph_ops.convolution(x, w, None, [1, 1], [0, 0], [1, 1], [0, 0], 1)
        assert torch.equal(found, F.conv2d(x, w))


def test_parameters_of_exported_programs():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("by", pair(8, 9)[1])

        def forward(self, x):
            return torch.relu(x + self.by)

    module, x = Shifted(), integers(8, 9, 1)
    net = dgo.from_torch(torch.export.export(module, (x,))).compile()
    assert np.array_equal(net(x.numpy()), module(x).numpy())


def net_of(*shape):
    graph = dgo.Graph()
    return graph.compile(dgo.ops.relu(graph.input("x", shape, "f32")))


def convolved(x, w, **more):
    return dgo.convolution(x, w, data_format="NCX", weights_format="OIX", **more)


X = np.ones((1, 4, 7, 1), np.float32)
# functions of a tensor of shape (1, 4, 7, 1)
DOORS = {
    "function": lambda t: convolved(t, np.ones((2, 4, 3, 1), np.float32)),
    "weights": lambda t: convolved(np.ones((1, 4, 9, 2), np.float32), t),
    "result of a function": lambda t: convolved(X, np.ones((4, 4, 1, 1), np.float32), out=t),
    "net": lambda t: net_of(*X.shape)(t),
    "named input of a net": lambda t: net_of(*X.shape).run({"x": t}),
    "result of a net": lambda t: net_of(*X.shape)(X, out=t),
    "submitted": lambda t: net_of(*X.shape).submit(t).result(),
    "constant": lambda t: dgo.Graph().constant(t),
    "from_dlpack": lambda t: dgo.from_dlpack(t),
    "copy of DLPack": lambda t: dgo.from_dlpack(t, copy=True),
    "DeviceArray": lambda t: dgo.DeviceArray.from_dlpack(t),
}


@pytest.mark.parametrize("name", DOORS)
def test_arrays_are_refused(name):
    plain, negated = pair(1, 4, 7)
    DOORS[name](plain)
    with pytest.raises(InvalidArgumentError, match=r"resolve_neg\(\)"):
        DOORS[name](negated)
    DOORS[name](negated.resolve_neg())


def test_zeros_without_memory(ours_computes):
    layer = dgt.optimize(with_integers(nn.Conv2d(4, 4, 3))).eval()
    with torch.no_grad():
        for x in (integers(1, 4, 6, 6), torch._efficientzerotensor((1, 4, 6, 6)), integers(1, 4, 6, 6)):
            assert torch.equal(layer(x), F.conv2d(x, layer.weight, layer.bias))
    with pytest.raises((InvalidArgumentError, RuntimeError)):
        net_of(1, 4, 6, 6)(torch._efficientzerotensor((1, 4, 6, 6)))
