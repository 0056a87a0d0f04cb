"""Weights that change are seen at the next call; options of `optimize`; nothing outlives its model."""

import copy
import gc
import json
import weakref
from functools import partial

import pytest
import torch
from children import child
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch.choice.verdicts import Verdict
from dnnl_graph_ops.torch.layers import compute, modules
from dnnl_graph_ops.torch.layers.modules import is_ours, state_of

from .common import assert_equal, integers, results, with_integers


@pytest.fixture(autouse=True)
def seeded(seed):
    torch.manual_seed(seed)


MAKE = {"Conv2d": lambda: nn.Conv2d(3, 4, 3), "ConvTranspose1d": lambda: nn.ConvTranspose1d(3, 4, 4, 2)}


@pytest.fixture(params=MAKE)
def layer(request):
    return dgt.optimize(with_integers(MAKE[request.param]())).eval()


def image(layer):
    return integers(2, 3, *[8] * len(layer.stride))


def plain(layer, x):
    """What PyTorch makes of the same parameters."""
    theirs = nn.Conv2d(3, 4, 3) if isinstance(layer, nn.Conv2d) else nn.ConvTranspose1d(3, 4, 4, 2)
    theirs.weight, theirs.bias = (
        None if p is None else nn.Parameter(p.detach().clone()) for p in (layer.weight, layer.bias)
    )
    return theirs(x)


def step(make):
    """One of an optimizer, of gradients that are whole."""

    def change(layer):
        layer.zero_grad()
        for parameter in layer.parameters():
            parameter.grad = torch.ones_like(parameter)
        make(layer.parameters()).step()

    return change


def swapped(layer):
    torch.utils.swap_tensors(layer.weight, nn.Parameter(layer.weight.detach() + 1))


def at_its_address(layer):
    """A parameter that is freed, and another that lies where it lay."""
    place = layer.weight.detach()
    layer.weight = None
    gc.collect()
    place += 1
    layer.weight = nn.Parameter(place)


def over_one_memory(layer):
    """Each a new parameter over an array that NumPy writes."""
    array = layer.weight.detach().numpy()
    array += 1
    layer.weight = nn.Parameter(torch.from_numpy(array))


def inference(layer):
    with torch.inference_mode():
        layer.weight.add_(1)


class OfData(torch.optim.Optimizer):
    """As many are written."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad.data)


CHANGES = {
    "SGD": step(lambda p: torch.optim.SGD(p, lr=1.0)),
    "foreach": step(lambda p: torch.optim.SGD(p, lr=1.0, foreach=True)),
    "Adam, fused": step(lambda p: torch.optim.Adam(p, lr=1.0, fused=True)),
    "clipped": lambda layer: (
        nn.utils.clip_grads_with_norm_(layer.parameters(), 1.0, torch.tensor(2.0)) or layer.weight.neg_()
    ),
    "inference mode": inference,
    "assigned": lambda layer: layer.load_state_dict({k: v + 1 for k, v in layer.state_dict().items()}, assign=True),
    "data replaced": lambda layer: setattr(layer.weight, "data", layer.weight.detach() + 1),
    "swapped": swapped,
    "init": lambda layer: nn.init.constant_(layer.weight, 2.0),
    "reset": lambda layer: (layer.reset_parameters(), with_integers(layer)),
    "vector": lambda layer: vector_to_parameters(parameters_to_vector(layer.parameters()) + 1, layer.parameters()),
    "set_": lambda layer: layer.weight.set_((layer.weight.detach() + 1).untyped_storage(), 0, layer.weight.shape),
    "part": lambda layer: layer.weight[0].fill_(3.0),
    "detached": lambda layer: layer.weight.detach().mul_(2),
    "through a view": lambda layer: layer.weight.view(-1)[:3].zero_(),
    "of the state": lambda layer: layer.state_dict()["weight"].mul_(2),
    "at its address": at_its_address,
    "over one memory": over_one_memory,
    "no bias": lambda layer: setattr(layer, "bias", None),
    "a bias again": lambda layer: setattr(layer, "bias", nn.Parameter(integers(4))),
    "through _parameters": lambda layer: layer._parameters.update(weight=nn.Parameter(layer.weight.detach() + 1)),
    "foreach op": lambda layer: torch._foreach_add_(list(layer.parameters()), 1),
    "out=": lambda layer: torch.add(layer.weight, 1, out=layer.weight),
    "index_put": lambda layer: layer.weight.index_put_((torch.tensor([0]),), torch.tensor(5.0)),
}


@pytest.mark.sweep
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("calls", [1, 3])
def test_changes_are_seen(layer, change, calls):
    x = image(layer)
    check = torch.testing.assert_close if "Adam" in change else partial(torch.testing.assert_close, rtol=0, atol=0)
    with torch.no_grad():
        for _ in range(4):
            for _ in range(calls):
                check(layer(x), plain(layer, x))
            CHANGES[change](layer)
        check(layer(x), plain(layer, x))


@pytest.mark.parametrize("change", ["SGD", "Adam, fused", "data replaced", "detached"])
def test_changes_are_seen_where_weights_are_cast(layer, change):
    x = image(layer)
    theirs = copy.deepcopy(layer)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for _ in range(4):
            for _ in range(3):
                torch.testing.assert_close(layer(x), plain(theirs, x))
            CHANGES[change](layer)
            theirs.load_state_dict(layer.state_dict())


def test_parameters_made_in_inference_mode():
    """They have no versions."""
    with torch.inference_mode():
        layer = dgt.optimize(with_integers(nn.Conv2d(3, 4, 3))).eval()
        x = integers(2, 3, 8, 8)
        for _ in range(3):
            assert torch.equal(layer(x), plain(layer, x))
        layer.weight.add_(1)
        assert torch.equal(layer(x), plain(layer, x))
        layer.weight = nn.Parameter(layer.weight + 1)
        assert torch.equal(layer(x), plain(layer, x))


def test_weights_that_change_at_every_call_are_not_packed(layer):
    x = image(layer)
    with torch.no_grad():
        for _ in range(5):
            layer(x)
            layer.weight.add_(1)
            held = state_of(layer).packed
        assert held is None
        for _ in range(3):
            layer(x)
        assert state_of(layer).packed is not None


@pytest.mark.slow
def test_weights_with_a_history_are_not_kept(layer):
    """As of meta-learning: a step whose gradient is wanted."""
    x = image(layer)
    for _ in range(3):
        values = {name: p * 2 for name, p in layer.named_parameters()}
        gone = weakref.ref(values["weight"])
        out = torch.func.functional_call(layer, values, (x,))
        assert torch.equal(torch.autograd.grad(out.sum(), layer.bias)[0], torch.full((4,), 2.0 * out[:, 0].numel()))
        del values, out
        gc.collect()
        assert gone() is None


# -- options --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_dtype_to_compute_in(dtype):
    """Near PyTorch's own in that dtype; the parameters and what comes out stay f32, and training goes on."""
    theirs = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.Tanh(), nn.ConvTranspose2d(16, 8, 4, 2, 1))
    ours, x = dgt.optimize(theirs, dtype=dtype), torch.randn(2, 8, 9, 9)
    narrow = copy.deepcopy(theirs).to(dtype)
    for train in (True, False):
        for model in (ours, theirs, narrow):
            model.train(train)
        for _ in range(3):
            out = ours(x)
            assert out.dtype is torch.float32
            torch.testing.assert_close(out, narrow(x.to(dtype)).float(), atol=0.02, rtol=0.02)
            found, wanted = results(ours, x), results(theirs, x)
            assert all(value.dtype is torch.float32 for value in found.values())
            for name, value in found.items():
                assert (value - wanted[name]).norm() < 0.03 * wanted[name].norm(), name
    assert all(p.dtype is torch.float32 for p in ours.parameters())
    ours.train()
    optimizer = torch.optim.Adam(ours.parameters(), lr=0.01)
    target, losses = torch.randn(2, 8, 18, 18) / 4, []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (ours(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.slow
def test_example_inputs_leave_no_trace():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout())
            self.head = nn.LazyConvTranspose2d(5, 2)

        def forward(self, x, factor):
            return self.head(self.body(x) * factor)

    torch.manual_seed(1)
    given = Two()
    given.body[2].eval()
    state = torch.get_rng_state()
    ours = dgt.optimize(given, example_inputs=(integers(2, 3, 8, 8), 2.0))
    assert type(ours.head).__name__ == "ConvTranspose2d" and is_ours(ours.head)
    assert isinstance(given.head, nn.LazyConvTranspose2d)
    assert [m.training for m in ours.modules()] == [m.training for m in given.modules()]
    assert all(p.grad is None for p in ours.parameters())
    for name, value in given.body.state_dict().items():
        assert torch.equal(value, ours.body.state_dict()[name])
    # a tensor alone, and without any layer of ours
    del state
    assert dgt.optimize(nn.Conv1d(1, 1, 1), example_inputs=torch.ones(1, 1, 4)).training
    dgt.optimize(nn.ReLU(), example_inputs=torch.ones(1))


def test_optimized_twice_and_alone():
    theirs, x = with_integers(nn.Conv2d(3, 4, 3)), integers(2, 3, 8, 8)
    once = dgt.optimize(theirs)
    twice = dgt.optimize(once)
    assert type(once) is type(twice)
    assert once is not twice
    assert dgt.optimize(once, inplace=True) is once
    assert_equal(results(twice, x), results(theirs, x))


def test_shared_modules_and_tied_weights():
    theirs = with_integers(
        nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU(), nn.Conv2d(3, 3, 3), nn.ConvTranspose2d(3, 3, 3))
    )
    theirs.append(theirs[0])
    theirs[2].weight = theirs[0].weight
    theirs[3].weight = theirs[0].weight
    ours, x = dgt.optimize(theirs), integers(1, 3, 9, 9, most=1)
    assert ours[4] is ours[0]
    assert ours[2].weight is ours[0].weight is ours[3].weight
    for train in (True, False):
        for _ in range(2):
            assert_equal(results(ours.train(train), x), results(theirs.train(train), x))
        with torch.no_grad():
            for model in (ours, theirs):
                model[0].weight.neg_()
            assert torch.equal(ours(x), theirs(x))


def test_layers_are_asked_for_by_name():
    asked = []
    theirs = nn.ModuleDict({"a": nn.Conv1d(1, 1, 1), "b": nn.Sequential(nn.ReLU(), nn.ConvTranspose1d(1, 1, 1))})
    ours = dgt.optimize(theirs, layers=lambda name, module: asked.append((name, type(module))) or name == "b.1")
    assert {name for name, _ in asked} == {"a", "b.1"}
    assert [is_ours(ours["a"]), is_ours(ours["b"][1])] == [False, True]


# -- lives ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("train", [True, False])
def test_nothing_keeps_a_model_alive(train):
    ours, x = (
        dgt.optimize(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 3, 3))).train(train),
        integers(1, 3, 8, 8),
    )
    for _ in range(3):
        ours(x).sum().backward()
        with torch.no_grad():
            ours(x)
    dgt.report(ours, x)
    gone = [weakref.ref(thing) for thing in (ours, ours[0], ours[1], ours[0].weight, ours[1].bias, x)]
    storage = weakref.ref(ours[0].weight.untyped_storage())
    del ours, x
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)
    assert storage() is None


@pytest.mark.slow
def test_a_class_of_a_user_is_not_kept_alive():
    class Own(nn.Conv2d):
        pass

    ours = dgt.optimize(Own(3, 4, 3))
    assert type(dgt.optimize(Own(3, 4, 3))) is type(ours)
    gone = weakref.ref(Own), weakref.ref(type(ours))
    del Own, ours
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_what_pytorch_computes_is_not_packed(layer, monkeypatch):
    # what others left, and nobody is to find
    monkeypatch.setattr(compute, "calls", {})
    monkeypatch.setattr(compute, "verdict", lambda *_: Verdict(False, 2.0, 1.0))
    x = image(layer)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            for _ in range(3):
                assert torch.equal(layer(x), plain(layer, x))
    state = state_of(layer)
    assert not state.packed.net.plan_count()
    assert all(route.net is None for route in state.routes.values())


WEIGHTS = """
import gc, json
import torch
from torch import nn
import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

def resident():
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

with torch.no_grad():
    x = torch.randn(1, 512, 32)
    small = dgt.optimize(nn.Conv1d(512, 512, 1)).eval()
    small(x)
    model = nn.Sequential(*[nn.Conv1d(512, 512, 5, padding=2) for _ in range(16)]).eval()
    before, held = resident(), dgo.cache_info()["bytes"]["constants"]
    model = dgt.optimize(model, inplace=True)
    for _ in range(3):
        model(x)
print(json.dumps([resident() - before, (dgo.cache_info()["bytes"]["constants"] - held) / 2**20]))
"""


@pytest.mark.child
def test_weights_are_kept_but_once_besides_what_is_packed():
    """80 MB of parameters."""
    done = child("-c", WEIGHTS, seconds=300, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    grown, packed = json.loads(done.stdout)
    assert grown < packed + 40


ROUNDS = """
import gc, json, sys
import torch
from torch import nn
import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt

torch.set_num_threads(1)
torch.use_deterministic_algorithms(sys.argv[1] == "deterministic")

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

def one(number):
    # 1.2 MB of weights
    model = dgt.optimize(nn.Sequential(nn.Conv1d(128, 256, 5), nn.ReLU(), nn.ConvTranspose1d(256, 128, 4, 2)))
    x = torch.ones(1, 128, 16)
    model.train()(x).sum().backward()
    model.eval()
    with torch.no_grad():
        model(x), model(x)

warm, count = int(sys.argv[2]), int(sys.argv[3])
seen = []
for number in range(count):
    one(number)
    if number + 1 in (warm, count):
        gc.collect()
        seen.append(resident())
print(json.dumps(seen))
"""


@pytest.mark.child
@pytest.mark.parametrize("kind", ["deterministic", "measured"])
def test_rounds_of_optimize_run_drop(kind, full):
    """Each has 1.2 MB of weights; 1,000 rounds with --random=full."""
    warm, count = (100, 1000) if full else (20, 80)
    done = child("-c", ROUNDS, kind, str(warm), str(count), seconds=500, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    before, after = json.loads(done.stdout)
    assert after - before < 25


@pytest.mark.slow
def test_many_shapes_are_bounded():
    """Routes and calls of a layer in eval mode that sees hundreds of lengths."""
    ours = dgt.optimize(with_integers(nn.Conv1d(8, 8, 5, padding=2))).eval()
    theirs = nn.Conv1d(8, 8, 5, padding=2).eval()
    theirs.load_state_dict(ours.state_dict())
    with torch.no_grad():
        for length in range(20, 320):
            x = integers(1, 8, length)
            assert torch.equal(ours(x), theirs(x))
    assert len(state_of(ours).routes) <= modules._MOST_ROUTES
    assert len(compute.calls) <= compute.MOST_CALLS
    assert modules.state_of(ours) is state_of(ours)
