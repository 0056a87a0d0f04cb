"""PyTorch's own samples for its convolution modules, through optimized ones."""

import copy
import pickle
from functools import partial

import pytest
import torch
from torch import nn

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch.layers.modules import is_ours

from .common import assert_equal, results

pytest.importorskip("expecttest", reason="PyTorch's samples need it")
from torch.testing._internal.common_modules import module_db

INFOS = {info.name: info for info in module_db if "Conv" in info.name}
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64]


@pytest.fixture(autouse=True)
def seeded(seed):
    torch.manual_seed(seed)


def whole(x):
    return torch.complex(x.real.round(), x.imag.round()) if x.is_complex() else x.round()


def samples(name, dtype, train):
    """PyTorch's module, the optimized one with the same parameters, and an input; of a lazily made one, both ways."""
    info = INFOS[name]
    given = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=train)
    for sample in given:
        arguments, keywords = sample.constructor_input.args, sample.constructor_input.kwargs
        theirs = info.module_cls(*arguments, **keywords, dtype=dtype).train(train)
        x = whole(sample.forward_input.args[0])
        lazily = [dgt.optimize(theirs)] if "Lazy" in name else []
        theirs(x)
        with torch.no_grad():
            for parameter in theirs.parameters():
                parameter.copy_(whole(parameter.mul(16)))
        for ours in lazily:
            assert is_ours(ours)
            ours(x)
            ours.load_state_dict(theirs.state_dict())
        for ours in (*lazily, dgt.optimize(theirs)):
            assert is_ours(ours)
            assert type(ours).__name__ == type(theirs).__name__
            yield theirs, ours, x


def every(function, names=tuple(name for name in INFOS if "Lazy" not in name)):
    return pytest.mark.parametrize("name", names)(pytest.mark.parametrize("train", [True, False])(function))


@pytest.mark.sweep(1)
@partial(every, names=INFOS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_forward_and_backward(name, train, dtype):
    for theirs, ours, x in samples(name, dtype, train):
        for _ in range(3):
            assert_equal(results(ours, x), results(theirs, x))
        assert_equal(results(ours, x, train=False), results(theirs, x, train=False))
        with torch.no_grad():
            assert_equal(results(ours, x, train=False), results(theirs, x, train=False))


@every
def test_inputs_that_are_not_contiguous(name, train):
    for theirs, ours, x in samples(name, torch.float32, train):
        wide = torch.full([2 * n for n in x.shape], torch.nan)
        apart = wide[tuple(slice(None, None, 2) for _ in x.shape)].copy_(x)
        turned = x.transpose(-1, 0).contiguous().transpose(-1, 0)
        flipped = x.flip(0)[..., :1].expand_as(x)
        for given in (apart, turned, flipped):
            for grad in (True, False):
                assert_equal(results(ours, given, train=grad), results(theirs, given, train=grad))
        # and parameters
        with torch.no_grad():
            ours.weight = nn.Parameter(theirs.weight.transpose(0, 1).contiguous().transpose(0, 1))
        assert_equal(results(ours, x), results(theirs, x))


@every
def test_inputs_whose_memory_holds_other_numbers(name, train):
    """The imaginary part of a conjugate is negated by whoever reads it."""
    for theirs, ours, x in samples(name, torch.float32, train):
        theirs = copy.deepcopy(theirs)
        pair = torch.complex(x, x + 1)
        for given in (pair.imag, pair.conj().imag, pair.imag):
            for grad in (True, False):
                assert_equal(results(ours, given, train=grad), results(theirs, given, train=grad))
            with torch.no_grad():
                assert torch.equal(ours(given), theirs(given))
                # gradients and parameters too
                for module in (ours, theirs):
                    module.bias = nn.Parameter(torch.complex(theirs.bias, theirs.bias + 1).conj().imag)
                assert torch.equal(ours(given), theirs(given))
            grads = []
            for module in (ours, theirs):
                module.zero_grad()
                out = module(x)
                out.backward(torch.complex(out, out).detach().conj().imag)
                grads.append({n: p.grad for n, p in module.named_parameters()})
            assert_equal(*grads)


@pytest.mark.sweep(1)
@every
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last, torch.channels_last_3d], ids=str)
def test_memory_formats(name, train, layout):
    """As PyTorch's: the result in the format of the input or the weights."""
    for theirs, ours, x in samples(name, torch.float32, train):
        axes = {torch.channels_last: 4, torch.channels_last_3d: 5}.get(layout)
        if axes and axes != theirs.weight.ndim:
            continue
        for module, source in [(False, True), (True, False), (True, True)]:
            a, b = copy.deepcopy(theirs), copy.deepcopy(ours)
            if module:
                a, b = (m.to(memory_format=layout) for m in (a, b))
                assert b.weight.stride() == a.weight.stride()
            given = x.contiguous(memory_format=layout) if source and axes in (None, x.ndim) else x
            for grad in (True, False):
                mine, other = results(b, given, train=grad), results(a, given, train=grad)
                assert_equal(mine, other)
                # of a small image alone PyTorch's kernel for 3d makes what is contiguous, whatever the weights are
                if (source or not module) and x.ndim == theirs.weight.ndim:
                    assert mine["output"].stride() == other["output"].stride()


@pytest.mark.sweep(every=4)
@every
def test_derivatives(name, train):
    """In f64, which PyTorch computes, as its own tests do, and in f32 on integers, where a step of one is exact."""
    for dtype, options in [(torch.float64, {}), (torch.float32, {"eps": 1, "atol": 0, "rtol": 0})]:
        for _, ours, x in samples(name, dtype, train):
            # gradcheck writes through .data, which nobody sees
            ours.requires_grad_(train or dtype is torch.float64)
            x = x[:1] if x.ndim == ours.weight.ndim else x
            x = x[(..., *[slice(0, 4)] * (ours.weight.ndim - 2))].remainder(3).requires_grad_()
            parameters = list(ours.parameters())
            names = [n for n, _ in ours.named_parameters()]

            def call(x, *values, ours=ours, names=names):
                return torch.func.functional_call(ours, dict(zip(names, values, strict=True)), (x,))

            assert torch.autograd.gradcheck(call, (x, *parameters), fast_mode=dtype is torch.float64, **options)
            if dtype is torch.float64:
                assert torch.autograd.gradgradcheck(call, (x, *parameters), fast_mode=True)


@pytest.mark.sweep(1)
@partial(every, names=INFOS)
def test_copies_and_pickles(name, train):
    for theirs, ours, x in samples(name, torch.float32, train):
        wanted = results(theirs, x)
        for made in (copy.deepcopy(ours), copy.copy(ours), pickle.loads(pickle.dumps(ours))):
            assert type(made) is type(ours)
            assert repr(made) == repr(theirs)
            assert_equal(results(made, x), wanted)


@every
def test_errors_are_those_of_pytorch(name, train):
    for theirs, ours, x in samples(name, torch.float32, train):
        c, tall = theirs.in_channels, [1] * (x.ndim - 1)
        ours(x)
        wrong = [
            torch.zeros(()),
            x[0, 0],
            x.unsqueeze(0).unsqueeze(0),
            torch.ones(1, c + 1, *x.shape[2:]),
            torch.ones(1, c, *tall[1:])[..., :0],
            x.double(),
            x.int(),
            x.to(torch.complex64),
            x.to("meta"),
            x.to_sparse(),
            x.new_zeros(0, *x.shape[1:]),
            "x",
            None,
        ]
        for given in wrong:
            said = []
            for module in (theirs, ours):
                try:
                    made = module(given)
                    said.append((made.shape, made.dtype, made.device, made.layout))
                except Exception as error:
                    said.append((type(error), str(error)))
            assert said[0] == said[1], given
