"""Random programs of views: values, shapes, types, strides and complaints are those of eager PyTorch."""

import numpy as np
import pytest
import torch

import dnnl_graph_ops as dgo
from dnnl_graph_ops.torch import backend

from .programs import Program, drawn

EACH = 2
# how a program that eager runs may fail in PyTorch's own tracing, and what eager refuses in PyTorch or here
REFUSED = (RuntimeError, IndexError, ValueError, dgo.Error)


def significant(t):
    """Strides without those of single elements, which say nothing."""
    return [stride for size, stride in zip(t.shape, t.stride(), strict=True) if size != 1] if t.numel() else []


def eager(program, x):
    try:
        with torch.no_grad():
            return program(x.clone())
    except REFUSED:
        return None


def tensor_of(array):
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def assert_same(got, wanted, strides):
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.dtype is theirs.dtype
        assert torch.equal(mine, theirs)
        if strides:
            assert significant(mine) == significant(theirs)
            assert mine.storage_offset() == theirs.storage_offset()


@pytest.mark.cases(4, 100, 1000, each=EACH)
def test_exported_programs(start, seed):
    for case in range(start, start + EACH):
        program, x = drawn(f"{seed} {case}")
        wanted = eager(program, x)
        print(f"--seed {seed}, case {case}, {tuple(x.shape)}, {program}")
        if wanted is None:
            with pytest.raises(REFUSED):
                dgo.from_torch(torch.export.export(program, (x,))).compile()(x.numpy())
            continue
        got = dgo.from_torch(torch.export.export(program, (x,))).compile()(x.numpy())
        got = got if isinstance(got, tuple) else (got,)
        assert_same([tensor_of(one) for one in got], wanted, strides=False)


@pytest.mark.slow
@pytest.mark.cases(8, 40, 400, each=EACH)
def test_compiled_programs(start, seed, monkeypatch):
    monkeypatch.setattr(backend._Entry, "_tried", lambda entry, args: True)
    for case in range(start, start + EACH):
        program, x = drawn(f"{seed} {case}")
        wanted = eager(program, x)
        print(f"--seed {seed}, case {case}, {tuple(x.shape)}, {program}")
        torch._dynamo.reset()
        compiled = torch.compile(program, backend=backend.dnnl_graph_ops, dynamic=bool(case % 2))
        with torch.no_grad():
            if wanted is None:
                with pytest.raises(REFUSED):
                    compiled(x.clone())
            else:
                assert_same(compiled(x.clone()), wanted, strides=True)
    torch._dynamo.reset()


AS_STRIDED = {
    "turned": lambda x: (x * 2).t().as_strided((3,), (2,), 1),
    "a part": lambda x: (x * 2)[1:].as_strided((2, 2), (1, 3)),
    "of a split": lambda x: (x * 2).split(2, 1)[1].as_strided((2,), (3,)),
    "of doubles": lambda x: (x.double() * 2).t()[1:].as_strided((2,), (3,), 2).float(),
    "of the input": lambda x: x[:, 1].as_strided((2, 3), (0, 2)) + 1,
    "twice": lambda x: (x + 1).as_strided((2, 3), (1, 4), 1).t().as_strided((4,), (2,), 3),
}


@pytest.mark.parametrize("name", AS_STRIDED)
def test_elements_by_strides(name):
    """The result lies as it likes; places are those in the memory that PyTorch plans."""
    module, x = _Called(AS_STRIDED[name]), torch.arange(12.0).reshape(3, 4)
    got = dgo.from_torch(torch.export.export(module, (x,))).compile()(x.numpy())
    assert torch.equal(torch.from_numpy(got), module(x))


COPIES = {
    "device": lambda x: x.to("cpu", torch.int32).to("cpu", torch.int32),
    "device, bool": lambda x: x.to("cpu", torch.bool),
    "no device": lambda x: x.to(device=None, copy=True),
    "format": lambda x: x.to(memory_format=torch.channels_last),
    "dtype and format": lambda x: x.to(dtype=torch.bool, memory_format=torch.channels_last, copy=True),
    "other": lambda x: x.to(torch.ones(1, dtype=torch.bool)),
    "type_as": lambda x: x.type_as(torch.ones(1, dtype=torch.bfloat16)),
    "contiguous": lambda x: x.transpose(1, 3).contiguous(memory_format=torch.channels_last).flatten(),
    "clone": lambda x: x.clone(memory_format=torch.contiguous_format).view(-1),
    "turned": lambda x: x.transpose(1, 3).clone(memory_format=torch.contiguous_format).view(-1),
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("of", ["input", "input of any size", "constant"])
@pytest.mark.parametrize("name", COPIES)
def test_spellings_of_copies(name, of):
    x = torch.arange(-12.0, 12.0).reshape(1, 2, 3, 4)
    module = _Called(lambda one: (COPIES[name](x if of == "constant" else one), one + 1))
    sizes = (dict.fromkeys(range(1, x.ndim), torch.export.Dim.AUTO),) if of == "input of any size" else None
    got = dgo.from_torch(torch.export.export(module, (x,), dynamic_shapes=sizes)).compile()(x.numpy())
    assert_same(list(map(tensor_of, got)), module(x), strides=False)


@pytest.mark.parametrize("of", ["weights", "transposed weights", "spectrum"])
def test_normed_weights(of):
    """Their norm is over axes that a transpose brings to the front, which a view follows."""
    layer, norm, more = {
        "weights": (torch.nn.Conv2d(4, 6, 3), torch.nn.utils.parametrizations.weight_norm, {"dim": 1}),
        "transposed weights": (
            torch.nn.ConvTranspose2d(4, 6, 3),
            torch.nn.utils.parametrizations.weight_norm,
            {"dim": 1},
        ),
        "spectrum": (torch.nn.ConvTranspose2d(4, 6, 3), torch.nn.utils.parametrizations.spectral_norm, {}),
    }[of]
    module, x = norm(layer, **more).eval(), torch.randn(1, 4, 6, 6, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        program = torch.export.export(module, (x,)).run_decompositions()
        got = dgo.from_torch(program).compile()(x.numpy())
        torch.testing.assert_close(torch.from_numpy(got), module(x), rtol=0, atol=1e-5)


def test_what_is_turned_is_viewed():
    """In memory that lies otherwise than PyTorch plans, as the turn of a result is a view of it."""
    turn, other = ("permute", [0, 2, 1]), ("to other", torch.ones(1))
    views = [("view_as", torch.ones(shape)) for shape in ((1, 4, 2), (4, 1, 2))]
    x = torch.arange(4.0).reshape(1, 4)
    program = Program([("stack", 0), views[0], turn, ("roll", (2, 0)), other, views[1]], [1])
    got = dgo.from_torch(torch.export.export(program, (x,))).compile()(x.numpy())
    assert_same(list(map(tensor_of, got)), program(x), strides=False)


class _Called(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)
