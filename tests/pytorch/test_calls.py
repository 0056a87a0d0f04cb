"""What calls cost besides the arithmetic: nothing is made twice."""

import pytest
import torch
from torch import nn

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops import functional
from dnnl_graph_ops.torch import choice


@pytest.fixture
def ours(monkeypatch):
    """Whatever takes longer: our engine computes."""
    monkeypatch.setattr("dnnl_graph_ops.torch.compute.verdict", lambda *_: choice.Verdict(True))


LAYERS = {
    "convolution": lambda: nn.Conv2d(3, 5, 3, padding=1),
    "conv_transpose": lambda: nn.ConvTranspose2d(3, 5, 4, 2, 1),
}


@pytest.mark.usefixtures("ours")
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", LAYERS)
def test_plans_are_made_once(name, layout):
    layer = dgt.optimize(LAYERS[name]()).to(memory_format=layout)
    x = torch.randn(2, 3, 6, 7).to(memory_format=layout).requires_grad_()
    layer(x).square().sum().backward()
    before = functional.cache.info()
    for _ in range(3):
        layer(x).square().sum().backward()
    after = functional.cache.info()
    assert after["misses"] == before["misses"] and after["hits"] >= before["hits"] + 9
