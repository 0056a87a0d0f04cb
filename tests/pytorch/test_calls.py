"""What calls cost besides the arithmetic: nothing is made or looked up twice, and changes are seen all the same."""

import gc
import itertools
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops import functional
from dnnl_graph_ops._core import TensorCall, TensorMarks
from dnnl_graph_ops.torch.choice import verdicts
from dnnl_graph_ops.torch.layers import compute, modules

from .common import assert_equal, input_of, results, with_integers


def decided(monkeypatch, by_us):
    """Whatever takes longer."""

    def verdict(key, ours, theirs):
        ours()
        return verdicts.Verdict(by_us)

    monkeypatch.setattr("dnnl_graph_ops.torch.layers.compute.verdict", verdict)
    monkeypatch.setattr("dnnl_graph_ops.torch.layers.call_cache.verdict", verdict)


@pytest.fixture
def ours(monkeypatch):
    decided(monkeypatch, True)


@pytest.fixture(params=["ours", "theirs"])
def either(request, monkeypatch):
    decided(monkeypatch, request.param == "ours")


@pytest.fixture(autouse=True)
def seeded(request):
    """Layers are shared: what was decided for another test does not hold here, nor the other way round."""
    torch.manual_seed(request.config.getoption("--seed"))
    compute.calls.clear()
    yield
    compute.calls.clear()


@pytest.mark.usefixtures("ours")
@pytest.mark.parametrize("mode", ["forward", "backward", "eval", "autocast"])
def test_a_bias_elsewhere_is_pytorchs_business(mode):
    layers = [nn.Conv2d(3, 4, 3), dgt.optimize(nn.Conv2d(3, 4, 3))]
    x, said = torch.randn(1, 3, 8, 8), []
    for layer in layers:
        layer.train(mode != "eval")(x).sum().backward()
        layer.bias = nn.Parameter(layer.bias.detach().to("meta"))
        try:
            with torch.set_grad_enabled(mode != "eval"), torch.autocast("cpu", enabled=mode == "autocast"):
                out = layer(x)
            if mode == "backward":
                out.sum().backward()
            said.append((out.device, out.dtype, out.shape))
        except RuntimeError as error:
            said.append("device meta" in str(error))
    assert said[0] == said[1]


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


def step(layer, x):
    out = layer(x)
    if torch.is_grad_enabled():
        layer.zero_grad()
        out.backward(out.detach())
    return out


MODES = {"inference": (False, False), "eval mode, recorded": (False, True), "training": (True, True)}


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LAYERS)
def test_the_second_call_takes_the_short_way(name, mode, monkeypatch):
    training, recorded = MODES[mode]
    layer = dgt.optimize(with_integers(LAYERS[name]())).train(training)
    x = input_of(layer)
    with torch.set_grad_enabled(recorded):
        first = step(layer, x), [p.grad for p in layer.parameters()]
        step(layer, x)
        monkeypatch.setattr(modules._Convolution, "_compute", lambda *_: pytest.fail("looked up again"))
        again = step(layer, x), [p.grad for p in layer.parameters()]
    assert torch.equal(first[0], again[0])
    for before, after in zip(first[1], again[1], strict=True):
        assert before is after is None or torch.equal(before, after)


CHANGES = {
    "stride": lambda layer: setattr(layer, "stride", (3, 3)),
    "dilation": lambda layer: setattr(layer, "dilation", (2, 2)),
    "bias gone": lambda layer: setattr(layer, "bias", None),
    "weight of another size": lambda layer: setattr(
        layer, "weight", nn.Parameter(layer.weight.detach()[..., :2, :2].clone())
    ),
    "data of another size": lambda layer: setattr(layer.weight, "data", layer.weight.detach()[..., :2, :2].clone()),
    "data turned": lambda layer: setattr(layer.weight, "data", layer.weight.detach().transpose(2, 3)),
    "data at another place": lambda layer: setattr(layer.weight, "data", layer.weight.detach() + 1),
    "channels last": lambda layer: layer.to(memory_format=torch.channels_last),
    "frozen": lambda layer: layer.weight.requires_grad_(False),
    "other mode": lambda layer: layer.train(not layer.training),
}


@pytest.mark.sweep
@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", LAYERS)
def test_what_is_different_is_seen(name, change, training):
    theirs = with_integers(LAYERS[name]()).train(training)
    ours = dgt.optimize(theirs)
    x = input_of(theirs)
    for layout in (torch.contiguous_format, torch.channels_last):
        given = x.to(memory_format=layout)
        for _ in range(2):
            assert_equal(results(ours, given, train=training), results(theirs, given, train=training))
    for layer in (ours, theirs):
        CHANGES[change](layer)
    for _ in range(2):
        assert_equal(results(ours, x, train=training), results(theirs, x, train=training))


@pytest.mark.usefixtures("either")
def test_other_dtypes():
    """Parameters that are cast stay the same objects."""
    theirs = with_integers(nn.Conv2d(3, 4, 3))
    ours = dgt.optimize(theirs)
    x = input_of(theirs)
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.float32):
        ours.to(dtype), theirs.to(dtype)
        for _ in range(2):
            assert_equal(results(ours, x.to(dtype)), results(theirs, x.to(dtype)))
    for layer in (ours, theirs):
        layer(x)
        with pytest.raises(RuntimeError):
            layer(x.bfloat16())
        layer.bfloat16()
        with pytest.raises(RuntimeError):
            layer(x)


@pytest.mark.usefixtures("ours")
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_not_copied(name, layout, monkeypatch):
    layer = dgt.optimize(LAYERS[name]()).to(memory_format=layout)
    x = input_of(layer).to(memory_format=layout)
    made = {}
    real = compute.gradients

    def noted(*tensors):
        found = real(*tensors)
        made.update(weight=found[1].data_ptr(), bias=found[2].data_ptr())
        return found

    monkeypatch.setattr(compute, "gradients", noted)
    for _ in range(3):
        layer.zero_grad(set_to_none=True)
        step(layer, x)
        for name, parameter in layer.named_parameters():
            assert parameter.grad.data_ptr() == made[name]
            assert parameter.grad.stride() == parameter.stride()


def clear_attribute_cache():
    """CPython's 4,096 last attribute look-ups keep the names looked up; PyTorch's C++ makes a new `str` for each."""
    (getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache)()


@pytest.mark.slow
@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("mode", MODES)
def test_calls_leave_nothing(mode):
    training, recorded = MODES[mode]
    layer = dgt.optimize(nn.Conv2d(3, 5, 3)).train(training)
    x = input_of(layer)

    def calls(count):
        with torch.set_grad_enabled(recorded):
            for _ in range(count):
                step(layer, x)
        clear_attribute_cache()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        calls(20)
        before = calls(20)
        # not a byte a call
        assert calls(120) - before < 120
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("ours")
def test_numbers_of_threads_keep_their_plans():
    layer, count = dgt.optimize(nn.Conv2d(3, 5, 3)), torch.get_num_threads()
    x = input_of(layer)
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            step(layer, x)
            step(layer.eval(), x)
            layer.train()
        before = functional.cache.info()["misses"]
        plans = sum(route.net.plan_count() for route in modules.state_of(layer).routes.values() if route.net)
        for threads in (1, 2) * 3:
            torch.set_num_threads(threads)
            step(layer, x)
            step(layer.eval(), x)
            layer.train()
        assert functional.cache.info()["misses"] == before
        after = sum(route.net.plan_count() for route in modules.state_of(layer).routes.values() if route.net)
        assert plans == after
    finally:
        torch.set_num_threads(count)


def test_marks():
    w, b = nn.Parameter(torch.ones(2, 3)), torch.zeros(3)
    marks = TensorMarks([w, b])
    assert marks.fit([w, b]) and marks.fit((w, b))
    assert not marks.fit([b, w]) and not marks.fit([w]) and not marks.fit([w, b, b])
    assert not marks.fit([w, torch.zeros(3)])
    b.add_(1)
    assert not marks.fit([w, b])
    marks = TensorMarks([w])
    w.data = w.data.view(3, 2)
    assert not marks.fit([w])
    with torch.inference_mode():
        never = torch.zeros(3)
    marks = TensorMarks([never])
    assert marks.fit([never])
    with pytest.raises(TypeError):
        marks.fit(never)
    with pytest.raises(RuntimeError):
        TensorMarks([torch.zeros(2, device="meta")])


# tensors, and how many of their elements marks read: all of small ones, 16 places of 16 bytes, 16 elements with gaps
READ = {
    "one": (lambda: torch.ones(()), 1),
    "few": (lambda: torch.ones(7, dtype=torch.int8), 7),
    "256 bytes": (lambda: torch.ones(64), 64),
    "66 numbers": (lambda: torch.ones(3, 22, dtype=torch.bfloat16), 66),
    "filters": (lambda: torch.ones(10, 12, 3, 3), 64),
    "channels last": (lambda: torch.ones(10, 12, 3, 3).to(memory_format=torch.channels_last), 64),
    "bf16": (lambda: torch.ones(10, 12, 3, 3, dtype=torch.bfloat16), 128),
    "a last element of its own": (lambda: torch.ones(1025, dtype=torch.int64), 32),
    "gaps": (lambda: torch.ones(40, 20)[:, ::2], 16),
    "few with gaps": (lambda: torch.ones(5, 4)[:, 1], 5),
    "one element for all": (lambda: torch.ones(1).expand(100), 100),
}


@pytest.mark.parametrize("name", READ)
def test_marks_read_some_elements(name):
    """Each element in turn is written where no version tells."""
    make, count = READ[name]
    tensor, seen = make(), []
    marks = TensorMarks([tensor])
    for index in itertools.product(*map(range, tensor.shape)):
        element = tensor.data[index]
        element.add_(1)
        seen.append(not marks.fit([tensor]))
        element.sub_(1)
    assert sum(seen) == count and marks.fit([tensor])
    # everywhere in the tensor
    parts = np.array_split(seen, min(len(seen), 5))
    assert all(part.any() for part in parts)


def test_marks_prefer_elements_that_are_not_zero():
    tensor = torch.zeros(64, 64)
    assert TensorMarks([tensor]).fit([tensor])
    tensor[::8, 5] = 3.0
    marks = TensorMarks([tensor])
    tensor.data.mul_(2)
    assert not marks.fit([tensor])


def test_marks_of_every_tap_of_filters():
    """Reparametrized models add to one tap of each filter."""
    tensor = torch.ones(64, 64, 3, 3)
    for tap in itertools.product(range(3), range(3)):
        marks = TensorMarks([tensor])
        tensor.data[:, :, tap[0], tap[1]] += 1
        assert not marks.fit([tensor])


def test_marks_of_memory_that_is_gone():
    tensor = torch.ones(1000)
    marks = TensorMarks([tensor])
    tensor.untyped_storage().resize_(0)
    assert not marks.fit([tensor])
    with pytest.raises(RuntimeError):
        TensorMarks([tensor])
    assert TensorMarks([torch.ones(0, 3)]) and TensorMarks([])


def test_marks_of_inference_tensors():
    with torch.inference_mode():
        tensor = torch.ones(100)
        marks = TensorMarks([tensor])
        assert marks.fit([tensor])
        tensor.add_(1)
        assert not marks.fit([tensor])


def test_a_call_that_differs_gives_none():
    x, w = torch.zeros(1, 1, 4), torch.zeros(1, 1, 2)
    call = TensorCall(functional.cache, "convolution", (), (x, w, None), lambda: pytest.fail("there is no plan"))
    functional.cache.clear()
    for given in ((x, w, None), (x, w, w), (x.double(), w, None), (x[..., 1:], w, None), (None, w, None), (1, w, None)):
        assert call(*given) is None
    with pytest.raises(TypeError):
        call(x)
    with pytest.raises(TypeError):
        TensorCall(None, "convolution", (), (x,), torch.empty)
    with pytest.raises(ValueError):
        TensorCall(functional.cache, "convolution", (), (), torch.empty)


@pytest.mark.parametrize("disturbed", [0, 1])
def test_what_disturbs_some_rounds_decides_nothing(disturbed, monkeypatch):
    """A clock of our own: PyTorch takes a tenth less, and other processes hold up one of both in most rounds."""
    now, calls = 0.0, [0, 0]

    def runs(which, seconds):
        def run():
            nonlocal now
            calls[which] += 1
            now += seconds * (50 if which == disturbed and calls[which] % 3 else 1)

        return run

    monkeypatch.setattr(verdicts.time, "perf_counter", lambda: now)
    monkeypatch.setattr(verdicts.time, "process_time", lambda: now)
    found = verdicts.tried(runs(0, 1e-3), runs(1, 0.9e-3))
    assert not found.ours
    assert found.our_seconds == pytest.approx(1e-3) and found.their_seconds == pytest.approx(0.9e-3)


@pytest.mark.parametrize("training", (True, False))
def test_inputs_of_the_narrow_dtype_beside_wide_parameters(either, training):
    """Parameters that a call casts are cast by later ones, too."""
    layer = with_integers(nn.Conv2d(4, 4, 3))
    mine = dgt.optimize(layer, dtype=torch.bfloat16).train(training)
    for _ in range(4):
        x = input_of(layer).bfloat16().requires_grad_()
        out = mine(x)
        out.float().sum().backward()
        assert out.dtype is x.grad.dtype is torch.bfloat16
        assert torch.equal(out.detach().float(), layer(x.detach().float()).bfloat16().float())


def test_a_call_that_ends_after_weights_were_packed_anew_leaves_no_route_behind(ours, monkeypatch):
    """As of another thread's."""
    layer = dgt.optimize(with_integers(nn.Conv2d(4, 4, 3)), inplace=True).eval()
    x, other = input_of(layer), input_of(layer)[..., 1:]
    keep = modules._Convolution._keep

    def late(self, state, route, given):
        monkeypatch.undo()
        decided(monkeypatch, True)
        self.weight.add_(1.0)
        for _ in range(3):
            self(x)
        keep(self, state, route, given)

    with torch.no_grad():
        layer(x)
        monkeypatch.setattr(modules._Convolution, "_keep", late)
        layer(other)
        for given in (x, other):
            assert torch.equal(layer(given), torch.conv2d(given, layer.weight, layer.bias))


def entered(call):
    """The names of the package's Python functions that a call enters."""
    names = []

    def profile(frame, event, argument):
        if event == "call" and "dnnl_graph_ops" in frame.f_code.co_filename:
            names.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


@pytest.mark.parametrize("model", [nn.Conv2d(4, 4, 3), nn.ConvTranspose1d(4, 4, 2)])
@pytest.mark.parametrize("winner", [True, False])
def test_a_settled_layer_takes_few_calls(model, winner, monkeypatch):
    monkeypatch.setattr(verdicts, "compared", lambda times: verdicts.Verdict(winner, 1.0, 2.0))
    ours = dgt.optimize(model.eval(), layers=lambda name, module: True)
    x = torch.randn(1, 4, *[8] * len(model.stride))
    with torch.no_grad():
        with verdicts.measuring():
            for _ in range(3):
                ours(x)
        ours(x)
        assert len(names := entered(lambda: ours(x))) <= 4, names


def test_a_settled_model_takes_few_calls(monkeypatch):
    monkeypatch.setattr(verdicts, "compared", lambda times: verdicts.Verdict(True, 1.0, 2.0))
    model = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3))
    x = torch.randn(1, 4, 8, 8)
    ours = dgt.optimize(model.eval(), example_inputs=x)
    with torch.no_grad():
        for _ in range(3):
            ours(x)
        names = entered(lambda: ours(x))
    assert "run" in names and len(names) <= 10, names
