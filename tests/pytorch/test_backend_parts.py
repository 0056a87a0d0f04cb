"""Parts of graphs of torch.compile keep the structure of their results, whichever engine computes them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from dnnl_graph_ops.errors import UnsupportedError
from dnnl_graph_ops.torch.layers import compute
from dnnl_graph_ops.torch.whole_model import backend

from .common import integers, with_integers


def raising(error):
    def run(*_, **__):
        raise error

    return run


# who computes a part, and how that comes about: {name: (object, attribute, value)}
ROADS = {
    "nets": (backend._Entry, "is_faster", lambda entry, args: True),
    "slower": (backend._Entry, "is_faster", lambda entry, args: False),
    "refused by a rule": (backend, "appended", raising(UnsupportedError("no rule"))),
    "refused by the compiler": (backend.Graph, "compile", raising(UnsupportedError("no plan"))),
    "a fault while it is built": (backend._Entry, "_build", raising(AttributeError("no such attribute"))),
    "refused at the call": (backend._Entry, "run", raising(UnsupportedError("no memory"))),
    "forked": (compute, "in_fork", True),
    "parameters without marks": (backend, "marks_of", lambda tensors: None),
}


def divided(x):
    """Computes x; no net has the op, so that PyTorch runs it between parts."""
    return torch.rand_like(x) * 0 + x


class Upsampled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = with_integers(nn.Conv2d(3, 4, 3, padding=1))

    def forward(self, x):
        x = torch.relu(self.conv(x))
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = with_integers(nn.Conv2d(3, 4, 1))

    def forward(self, x):
        return torch.relu(self.conv(torch.bernoulli(torch.ones_like(x)) * x))


def nested(x):
    y = divided(torch.relu(x) + 1)
    return {"a": [y * 2 + 1, None], "b": (torch.relu(y - 2) * 3, x), "c": torch.relu(y + y)}


def sizes(x):
    y = divided(torch.relu(x) * 2)
    n = y.shape[-1] * 2 + 1
    return torch.relu(y * n) + 1, torch.rand(n).shape[0] + n, n


# of parts with one result, several, numbers, and none that is read
PROGRAMS = {
    "one result": lambda x: divided(x).topk(3, -1).values * 2,
    "of one row": lambda x: divided(x[:1]).topk(3, -1).values * 2,
    "without axes": lambda x: torch.relu(divided(x).sum()) * 2 + 1,
    "integers": lambda x: (divided(x) * 4).to(torch.int64) + 1,
    "two results of an op": lambda x: tuple(divided(x).topk(3, -1)),
    "pieces": lambda x: [torch.relu(one) * 2 for one in divided(torch.relu(x)).chunk(2, 1)],
    "one part after another": lambda x: divided(torch.relu(divided(torch.relu(x) * 2)) + 1) * 3 + 1,
    "read twice": lambda x: (lambda y: (divided(y) + 1, torch.relu(y) * 2, y))(torch.relu(x) * 2),
    "as it was given": lambda x: (x, divided(torch.relu(x) * 2), x[:, 1:]),
    "nested": nested,
    "sizes": sizes,
    "written": lambda x: torch.empty_strided(x.shape, x.stride()).copy_(divided(torch.relu(x) + x)),
    "upsampled": Upsampled().eval(),
    "dropped": Dropped().eval(),
}


def assert_same(found, wanted):
    values, structure = pytree.tree_flatten(found)
    others, other = pytree.tree_flatten(wanted)
    assert structure == other
    for mine, theirs in zip(values, others, strict=True):
        assert type(mine) is type(theirs)
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-5)
        else:
            assert mine == theirs


def check(name, road, monkeypatch, dynamic, inputs):
    torch._dynamo.reset()
    monkeypatch.setattr(backend._Entry, "is_faster", lambda entry, args: True)
    monkeypatch.setattr(*ROADS[road])
    program = PROGRAMS[name]
    compiled = torch.compile(program, backend="dnnl_graph_ops", dynamic=dynamic)
    with torch.no_grad():
        for x in inputs:
            assert_same(compiled(x), program(x))


@pytest.mark.sweep(1)
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_keep_their_structure(name, road, monkeypatch):
    check(name, road, monkeypatch, False, [integers(1, 3, 6, 6)])


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_keep_their_structure_at_all_sizes(name, monkeypatch):
    """Each program on one road, in turns, so that every road has programs."""
    road = [*ROADS][list(PROGRAMS).index(name) % len(ROADS)]
    check(name, road, monkeypatch, True, [integers(batch, 3, 6, size) for batch, size in ((1, 6), (2, 7), (1, 8))])


def branching(x, outer, inner):
    """Branches within a branch, which are modules of the graph that PyTorch runs."""
    return torch.cond(
        outer, lambda x, p: x.sin(), lambda x, p: torch.cond(p, lambda x: x * 10, lambda x: -x, (x,)) + x, (x, inner)
    )


def test_nested_branches():
    torch._dynamo.reset()
    compiled, x = torch.compile(branching, backend="dnnl_graph_ops"), integers(3, 4)
    with torch.no_grad():
        for outer in (True, False):
            for inner in (True, False):
                chosen = torch.tensor(outer), torch.tensor(inner)
                assert torch.equal(compiled(x, *chosen), branching(x, *chosen))


def emptied(x):
    """Frees the memory of its operand between two ops that do not depend on that."""
    y = torch.sin(x + 1)
    storage = x.untyped_storage()
    storage.resize_(0)
    return torch.cos(y), storage


def test_memory_that_a_graph_frees(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(backend._Entry, "is_faster", lambda entry, args: True)
    x = torch.randn(10)
    expected = torch.cos(torch.sin(x + 1))
    y, storage = torch.compile(emptied, backend="dnnl_graph_ops", fullgraph=True)(x)
    torch.testing.assert_close(y, expected)
    assert storage.size() == x.untyped_storage().size() == 0
