"""Optimized models that run as whole nets: PyTorch's results, and every change is seen."""

import copy
import gc
import pickle
import re
import subprocess
import sys
import weakref

import pytest
import torch
from torch import nn

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch.choice import budget, verdicts
from dnnl_graph_ops.torch.choice.verdicts import Verdict, measuring
from dnnl_graph_ops.torch.layers.modules import is_ours
from dnnl_graph_ops.torch.whole_model import capture

from .common import integers, with_integers


@pytest.fixture(autouse=True)
def nets_win(monkeypatch, seed):
    """Nets are faster, and there is no time for trials but where they are asked for."""
    torch.manual_seed(seed)
    monkeypatch.setattr(verdicts, "compared", lambda times: Verdict(True, 1.0, 2.0))
    monkeypatch.setattr(capture, "budget", budget.Budget())
    yield
    torch._dynamo.reset()


class Block(nn.Module):
    """Convolutions with a norm, an activation and a skip."""

    scale = 2

    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.ConvTranspose2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + self.scale * self.second(torch.relu(self.norm(self.first(x))))


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 1), Block(), nn.LeakyReLU(0.5), nn.Conv2d(4, 2, 3))


def net():
    model = with_integers(Net()).eval()
    model[1].norm.running_var += 3
    return model


def x_of(size=6, batch=2):
    return integers(batch, 3, size, size)


def hits(model):
    code = model._compiled_call_impl._code
    return 0 if code is None else code.counts.hits


def by_nets(model, *args):
    """The result, and whether nets computed it."""
    before = hits(model)
    return model(*args), hits(model) > before


def assert_near(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5 * max(1, float(expected.abs().max())))


@torch.no_grad()
def captured(model, *args):
    with measuring():
        for _ in range(capture.CALLS):
            model(*args)
    return model


@torch.no_grad()
def again(model, *args):
    """The result of a call that has time to capture."""
    with measuring():
        return model(*args)


MODES = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_model_runs_as_one_net(mode):
    theirs, x = net(), x_of()
    ours = dgt.optimize(theirs)
    with MODES[mode]():
        with measuring():
            for _ in range(capture.CALLS):
                assert_near(ours(x), theirs(x))
        y, is_hit = by_nets(ours, x)
        assert is_hit
        assert_near(y, theirs(x))
        assert y.stride() == theirs(x).stride()


@pytest.mark.slow
def test_one_capture_serves_inference_mode_too():
    theirs, x = net(), x_of()
    with torch.inference_mode():
        made = dgt.optimize(theirs)
    assert not any(each.is_inference() for each in made.parameters())
    ours = dgt.optimize(theirs, example_inputs=x)
    with torch.inference_mode():
        for each in (x, x.clone()):
            y, is_hit = by_nets(ours, each)
            assert is_hit
            assert_near(y, theirs(x))


@pytest.mark.slow
def test_nothing_else_differs():
    theirs, x = net(), x_of()
    ours = captured(dgt.optimize(theirs), x)
    assert type(ours) is type(theirs) and repr(ours) == repr(theirs)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules()]


CHANGES = {
    "in place": lambda model: model[1].first.weight.mul_(2),
    "a norm": lambda model: model[1].norm.weight.add_(1),
    "a buffer": lambda model: model[1].norm.running_mean.add_(1),
    "loaded": lambda model: model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()}),
    "assigned": lambda model: model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()}, assign=True),
    "replaced": lambda model: setattr(model[1].second, "weight", nn.Parameter(model[1].second.weight + 1)),
    "data replaced": lambda model: setattr(model[0].weight, "data", model[0].weight + 1),
    "data written": lambda model: [p.data.add_(1) for p in model.parameters()],
    "statistics": lambda model: (torch.enable_grad()(model.train())(x_of() * 2 + 1), model.eval()),
    "no bias": lambda model: setattr(model[0], "bias", None),
    "a module": lambda model: model.__setitem__(2, nn.Tanh()),
    "a layer": lambda model: model.__setitem__(3, with_integers(nn.Conv2d(4, 2, 3))),
    "a module more": lambda model: model.append(nn.ReLU()),
    "a layer's argument": lambda model: setattr(model[3], "dilation", (2, 2)),
    "an attribute": lambda model: setattr(model[1], "scale", 3),
    "a method": lambda model: setattr(model[1], "forward", lambda x: x - 1),
    "a hook": lambda model: model[1].register_forward_hook(lambda module, args, out: out + 1),
    "a pre-hook": lambda model: model.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "a layer's hook": lambda model: model[1].first.register_forward_hook(lambda module, args, out: -out),
    "a norm in training": lambda model: model[1].norm.train(),
    "in float64 and back": lambda model: model.double().float(),
    "channels last": lambda model: model.to(memory_format=torch.channels_last),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_seen(change):
    theirs, x = net(), x_of()
    ours = captured(dgt.optimize(theirs), x)
    with torch.no_grad():
        assert by_nets(ours, x)[1]
        for model in (ours, theirs):
            torch.manual_seed(1)
            CHANGES[change](model)
        theirs.load_state_dict(ours.state_dict())
        for _ in range(2):
            assert_near(ours(x), theirs(x))
        # captured anew, or left to layers
        for _ in range(2):
            assert_near(again(ours, x), theirs(x))


def test_changed_weights_wait_for_time_to_be_packed():
    theirs, x = net(), x_of()
    ours = captured(dgt.optimize(theirs), x)
    with torch.no_grad():
        for model in (ours, theirs):
            model[0].weight.add_(1)
        y, is_hit = by_nets(ours, x)
        assert not is_hit and not by_nets(ours, x)[1]
        assert_near(y, theirs(x))
        assert_near(again(ours, x), theirs(x))
        assert by_nets(ours, x)[1]


def test_an_optimizer_is_seen():
    theirs, x = net(), x_of()
    ours = captured(dgt.optimize(theirs), x)
    for model in (ours, theirs):
        optimizer = torch.optim.SGD(model.parameters(), 0.5, fused=True)
        model.train()(x).sum().backward()
        optimizer.step()
        model.eval()
    with torch.no_grad():
        assert_near(ours(x), theirs(x))
        assert_near(again(ours, x), theirs(x))


def test_training_and_gradients_are_as_before():
    theirs, x = net(), x_of()
    ours = captured(dgt.optimize(theirs), x)
    before = hits(ours)
    for mode in (True, False):
        found = []
        for model in (ours.train(mode), theirs.train(mode)):
            model.zero_grad()
            model(x).sum().backward()
            found.append([parameter.grad for parameter in model.parameters()])
        for mine, other in zip(*found, strict=True):
            assert_near(mine, other)
    assert hits(ours) == before


@pytest.mark.parametrize("make", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), copy.copy])
def test_copies(make):
    x = x_of()
    ours = captured(dgt.optimize(net()), x)
    with torch.no_grad():
        wanted = ours(x)
        other = make(ours)
        assert_near(other(x), wanted)
        if make is not copy.copy:
            other[0].weight.zero_()
            captured(other, x)
            assert by_nets(other, x)[1]
            assert not torch.allclose(other(x), wanted)
        assert_near(ours(x), wanted)


def test_replicas_compute_with_their_own_parameters():
    ours, x = captured(dgt.optimize(net()), x_of()), x_of()
    block = ours[1]
    replica = block._replicate_for_data_parallel()
    replica._modules = {name: copy.deepcopy(module) for name, module in block._modules.items()}
    with torch.no_grad():
        replica.second.weight.zero_()
        replica.second.bias.zero_()
        inner = ours[0](x)
        assert torch.equal(replica(inner), inner)


@pytest.mark.slow
def test_calls_are_not_repeated():
    class Counting(Block):
        calls = 0

        def forward(self, x):
            self.calls += 1
            x.add_(1)
            return super().forward(x)

    theirs = with_integers(Counting()).eval()
    ours, x, y = dgt.optimize(theirs), torch.zeros(1, 4, 5, 5), torch.zeros(1, 4, 5, 5)
    with torch.no_grad(), measuring():
        for count in range(1, 12):
            assert_near(ours(x), theirs(y))
            assert torch.equal(x, y)
            assert ours.calls == theirs.calls == count


def test_random_numbers_are_those_of_pytorch():
    class Noisy(Block):
        def forward(self, x):
            return super().forward(x + torch.randn_like(x)) * torch.rand(())

    theirs = with_integers(Noisy()).eval()
    ours, x = dgt.optimize(theirs), integers(1, 4, 5, 5)
    with torch.no_grad(), measuring():
        for _ in range(4):
            found = []
            for model in (ours, theirs):
                torch.manual_seed(3)
                found.append(model(x))
            assert_near(*found)


def test_attention_without_dropout_draws_no_random_numbers():
    """PyTorch tags the op as one that may."""

    class Attending(Block):
        def forward(self, x):
            y = super().forward(x).flatten(2).transpose(1, 2)
            return nn.functional.scaled_dot_product_attention(y, y, y, dropout_p=self.p)

    theirs, x = with_integers(Attending()).eval(), integers(1, 4, 5, 5)
    for p, is_captured in ((0.0, True), (0.5, False)):
        Attending.p = p
        ours = captured(dgt.optimize(theirs), x)
        assert (hits(ours) > 0) is is_captured
        assert ("UnsupportedError: random numbers are drawn" in capture.states(ours)[""]) is not is_captured
        if is_captured:
            with torch.no_grad():
                assert_near(ours(x), theirs(x))


def test_inside_of_what_cannot_be_captured():
    class Telling(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net()

        def forward(self, x, said):
            said.append(float(x.sum()))
            return self.inner(x)

    theirs = Telling().eval()
    ours, x, said, wanted = dgt.optimize(theirs), x_of(), [], []
    with torch.no_grad():
        captured(ours, x, said)
        assert hits(ours) == 0
        y, is_hit = ours(x, said), hits(ours.inner) > 0
        assert is_hit
        assert_near(y, theirs(x, wanted))
    assert said == wanted * len(said)


@pytest.mark.slow
def test_sizes_that_vary():
    theirs = net()
    ours = dgt.optimize(theirs)
    for size in (6, 9, 7):
        captured(ours, x_of(size))
    with torch.no_grad():
        for size in (6, 8, 11, 13):
            y, is_hit = by_nets(ours, x := x_of(size))
            assert is_hit
            assert_near(y, theirs(x))


def test_sizes_that_come_once_leave_the_others_to_nets():
    ours, x = captured(dgt.optimize(net()), x_of()), x_of()
    with torch.no_grad():
        assert not by_nets(ours, x_of(24))[1]
        assert by_nets(ours, x)[1]
        # there is time, and it is not the size that was missed
        works = ours._compiled_call_impl._code.counts.works
        again(ours, x)
        assert ours._compiled_call_impl._code.counts.works == works


def test_modules_that_are_given_no_tensors_leave_it_to_those_inside():
    class Listed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net()

        def forward(self, xs):
            return [self.inner(x) for x in xs]

    ours, x = dgt.optimize(Listed().eval()), x_of()
    captured(ours, [x])
    with torch.no_grad():
        before = hits(ours.inner)
        (y,) = ours([x])
        assert hits(ours.inner) == before + 1
        assert_near(y, ours.inner(x))


def test_what_pytorch_refuses_is_its_error():
    theirs = net()
    ours, wrong = dgt.optimize(theirs), integers(1, 5, 6, 6)
    for _ in range(2):
        said = []
        for model in (theirs, ours):
            with torch.no_grad(), measuring(), pytest.raises(RuntimeError) as error:
                model(wrong)
            said.append(str(error.value))
        assert said[0] == said[1]
        captured(ours, x_of())
    with torch.no_grad():
        assert by_nets(ours, x_of())[1]


def test_layers_that_are_chosen_are_computed_alone():
    everything = dgt.optimize(net())
    assert everything._compiled_call_impl is not None
    for more in ({"layers": lambda name, module: name != "0"}, {"dtype": "bf16"}):
        assert dgt.optimize(everything, **more)._compiled_call_impl is None
        assert dgt.optimize(net(), **more)._compiled_call_impl is None


def test_who_looks_at_layers_finds_them():
    ours, x = captured(dgt.optimize(net()), x_of()), x_of()
    assert len({row.layer for row in dgt.report(ours, x)}) == 4
    torch.use_deterministic_algorithms(True)
    try:
        with torch.no_grad():
            assert not by_nets(ours, x)[1]
    finally:
        torch.use_deterministic_algorithms(False)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert not by_nets(ours, x)[1]
    with torch.no_grad():
        assert by_nets(ours, x)[1]
        assert_near(torch.vmap(ours)(x[None]), ours(x)[None])


@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm"])
def test_computed_weights(norm):
    theirs = nn.Sequential(nn.Conv1d(3, 4, 3), nn.LeakyReLU(), nn.ConvTranspose1d(4, 2, 4, 2)).eval()
    for layer in (theirs[0], theirs[2]):
        getattr(nn.utils.parametrizations, norm)(layer)
    ours, x = dgt.optimize(theirs), integers(1, 3, 9)
    with torch.no_grad():
        assert_near(captured(ours, x)(x), theirs(x))
        assert by_nets(ours, x)[1]
        for model in (ours, theirs):
            for parameter in model.parameters():
                parameter.mul_(2)
        assert_near(ours(x), theirs(x))
        assert_near(again(ours, x), theirs(x))


def test_a_capture_waits_until_calls_paid_for_it():
    ours, x = dgt.optimize(net()), x_of()
    run = ours._compiled_call_impl
    with torch.no_grad():
        for _ in range(3):
            ours(x)
        assert run._code is None and run._waited > 0
        run._waited = run._expected()
        ours(x)
        assert run._code is not None and hits(ours) == 1
    assert is_ours(ours[0])


@pytest.mark.slow
def test_a_short_run_does_not_import_the_compiler():
    code = (
        "import sys, torch, dnnl_graph_ops.torch as dgt\n"
        "model = dgt.optimize(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())).eval()\n"
        "with torch.no_grad():\n"
        "    for _ in range(9): model(torch.ones(1, 3, 8, 8))\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_what_is_captured_lives_as_long_as_the_model():
    """PyTorch's compiler keeps what it made of functions, and functions keep modules."""
    models = []
    for _ in range(3):
        ours = dgt.optimize(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3)).eval())
        with torch.no_grad(), measuring():
            for _ in range(capture.CALLS + 2):
                ours(torch.ones(1, 3, 8, 8))
        assert hits(ours)
        models.append(weakref.ref(ours[0].weight))
        del ours
    gc.collect()
    gc.collect()
    assert [model() for model in models] == [None] * 3


def test_views_of_conjugates():
    ours = dgt.optimize(nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU()).eval())
    x = torch.randn(1, 2, 16, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    with torch.no_grad(), measuring():
        wanted = ours(x.clone())
        for _ in range(capture.CALLS + 2):
            torch.testing.assert_close(ours(x), wanted)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layer(x)


@pytest.mark.slow
def test_examples_leave_buffers_as_they_were():
    ours = dgt.optimize(Counting().eval(), example_inputs=torch.ones(1, 3, 8, 8))
    assert ours.calls == 0


class Generating(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        yield self.layer(x)
        yield x


@pytest.mark.slow
def test_a_generator_stays_one():
    ours, x = dgt.optimize(Generating().eval()), torch.ones(1, 3, 8, 8)
    with torch.no_grad(), measuring():
        for _ in range(capture.CALLS + 2):
            results = ours(x)
            next(results)
            results.close()


def test_a_report_tells_what_is_captured():
    ours, x = dgt.optimize(net()), x_of()
    with torch.no_grad():
        ours(x)
    assert re.fullmatch(r"waiting: \d+\.\d of about \d+\.\d s of calls", capture.states(ours)[""])
    assert re.search(r"\nthe model: waiting: ", str(dgt.report(ours, x)))
    captured(ours, x)
    assert dgt.report(ours, x).captures[""].startswith("captured in ")


def test_warming_up_captures_at_once():
    ours, x = dgt.optimize(net()), x_of()
    dgt.warm_up(ours, x)
    with torch.no_grad():
        ours(x)
    assert hits(ours) and capture.states(ours)[""].startswith("captured in ")
    with pytest.raises(dgo.InvalidArgumentError, match=r"warm_up: no layer of the model is optimized"):
        dgt.warm_up(net(), x)
    with pytest.raises(dgo.InvalidArgumentError, match=r"warm_up: Net takes"):
        dgt.warm_up(ours, x, x)


def test_models_with_hooks_say_so():
    ours, x = dgt.optimize(net()), x_of()
    ours[0].register_forward_hook(lambda module, args, out: None)
    dgt.warm_up(ours, x)
    assert capture.states(ours)[""] == "layer by layer: it has hooks"


def test_later_hooks_are_called_until_they_are_removed():
    ours, x = captured(dgt.optimize(net()), x_of()), x_of()
    with torch.no_grad():
        wanted = ours(x)
        handle = ours[0].register_forward_hook(lambda module, args, out: out + 1)
        for _ in range(2):
            assert not torch.equal(ours(x), wanted)
        assert capture.states(ours)[""] == "layer by layer: it has hooks"
        handle.remove()
        y, is_hit = by_nets(ours, x)
        assert is_hit and torch.equal(y, wanted)
    assert capture.states(ours)[""].startswith("captured in ")


def test_the_next_capture_is_expected_to_take_as_long_as_others(monkeypatch):
    monkeypatch.setattr(capture, "_pace", capture._Pace())
    ours = dgt.optimize(net())
    run = ours._compiled_call_impl
    before = run._expected()
    capture._pace.add(1e3 * before, 10)
    assert run._expected() > 100 * before
