"""Gradients lie as PyTorch's do: as the result of the convolution, whatever what comes back lies like."""

import itertools

import pytest
import torch
from torch import nn

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch.whole_model import backend

from .common import CONVOLUTIONS, integers, with_integers
from .op_cases import KINDS, computed_by, laid

LAYOUTS = ("first", "last", "reversed")


def by_module(layer, x):
    ours = dgt.optimize(layer)
    return ours(x), ours.weight


def by_op(layer, x):
    op = getattr(torch.ops.dnnl_graph_ops, list(KINDS)[layer.transposed]).default
    arguments = layer.stride, layer.padding, layer.dilation, layer.output_padding, layer.groups
    return op(x, layer.weight, layer.bias, *arguments), layer.weight


def by_graph(layer, x):
    """As torch.compile hands it over."""
    graph = torch.fx.Graph()
    given = [graph.placeholder(name) for name in ("x", "w", "b")]
    shared = layer.stride, layer.padding
    if layer.transposed:
        arguments = *shared, layer.output_padding, layer.groups, layer.dilation
    else:
        arguments = *shared, layer.dilation, layer.groups
    theirs = getattr(torch, f"conv{'_transpose' * layer.transposed}{len(layer.stride)}d")
    graph.output(graph.call_function(theirs, (*given, *arguments)))
    run = backend.recorded(torch.fx.GraphModule(nn.Module(), graph))
    return run(x, layer.weight, layer.bias), layer.weight


WAYS = {"module": by_module, "op": by_op, "graph": by_graph}


def gradients(way, layer, x, layout):
    out, weight = way(layer, x)
    dy = laid(torch.arange(out.numel()).remainder(5).to(out.dtype).reshape(out.shape), layout)
    return torch.autograd.grad(out, (x, weight), dy)


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_gradients_lie_as_the_result(kind, batch, ours, way):
    layer = with_integers(kind(4, 4, 3, groups=2))
    with computed_by(ours):
        for weights, source, back in itertools.product(LAYOUTS, LAYOUTS[:2], LAYOUTS[:2]):
            layer.weight = nn.Parameter(laid(layer.weight.detach(), weights))
            x = laid(integers(batch, 4, *[5] * len(layer.stride)), source).requires_grad_()
            wanted = gradients(lambda layer, x: (layer(x), layer.weight), layer, x, back)
            for got, other in zip(gradients(WAYS[way], layer, x, back), wanted, strict=True):
                assert torch.equal(got, other)
                assert got.stride() == other.stride(), (weights, source, back)
