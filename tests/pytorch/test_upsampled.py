"""Nearest upsampling and the convolution behind it: one layer, in inference and where gradients are recorded."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.ir import rewrites
from dnnl_graph_ops.passes.folding import layers
from dnnl_graph_ops.torch.layers import upsampled
from dnnl_graph_ops.torch.layers.conv_params import ConvParams

CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


def whole(rng, *shape):
    return torch.from_numpy(rng.integers(-2, 3, shape).astype(np.float32)).requires_grad_()


@pytest.fixture
def unpriced(monkeypatch):
    """Small layers are folded, too."""
    monkeypatch.setattr(upsampled, "_LEAST_PRODUCTS", -(1 << 60))


def assert_gradients_are(result, wanted, operands, rng):
    assert torch.equal(result, wanted)
    gradient = whole(rng, *wanted.shape).detach()
    both = (torch.autograd.grad(y, operands, gradient) for y in (result, wanted))
    assert all(map(torch.equal, *both))


def around(x, layer):
    """What a layer's convolution reads, by PyTorch."""
    x = functional.interpolate(x, scale_factor=[float(s) for s in layer.scales])
    for amounts, mode in ((layer.edges, "replicate"), (layer.zeros, "constant")):
        x = functional.pad(x, [n for amount in reversed(amounts) for n in (amount, amount)], mode)
    return x


def drawn(rng, axes, groups):
    """A layer and the sizes of its kernel."""
    scales = tuple(int(n) for n in rng.choice([1, 2, 3], axes))
    kernel, dilation = (tuple(int(n) for n in rng.integers(1, most, axes)) for most in (5, 4))
    padding = tuple(int(rng.integers(0, (k - 1) * d + 1)) for k, d in zip(kernel, dilation, strict=True))
    stride = tuple(int(n) for n in rng.choice([1, 1, 1, 2], axes))
    spec = ConvParams(stride, padding, dilation, False, (0,) * axes, groups)
    edges, zeros = (tuple(int(n) for n in rng.choice([0, 0, 1, 2], axes)) for _ in range(2))
    return upsampled.Layer(spec, scales, edges, zeros), kernel


@pytest.mark.numbers(2400, every=(100, 20, 1))
def test_gradients_are_pytorchs(number, seed, unpriced):
    rng = np.random.default_rng((seed, number))
    axes, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2]))
    layer, kernel = drawn(rng, axes, groups)
    x = whole(rng, 2, 2 * groups, *rng.integers(3, 6, axes))
    weight, bias = whole(rng, 3 * groups, 2, *kernel), whole(rng, 3 * groups)
    larger = around(x, layer)
    stride, padding, dilation, *_ = layer.spec
    if any(n + 2 * p <= (k - 1) * d for n, p, k, d in zip(larger.shape[2:], padding, kernel, dilation, strict=True)):
        pytest.skip("no window fits")
    wanted = CONVOLUTIONS[axes](larger, weight, bias, stride, padding, dilation, groups)
    result = upsampled.convolution(x, weight, bias, layer)
    assert_gradients_are(result, wanted, (x, weight, bias), rng)


@pytest.mark.numbers(2400, every=(100, 20, 1))
def test_gradients_of_joined_channels_are_pytorchs(number, seed, unpriced):
    rng = np.random.default_rng((seed, number))
    axes = int(rng.integers(1, 4))
    sizes = 12 * rng.integers(1, 3, axes)
    sizes[0] = 24
    layer, kernel = drawn(rng, axes, 1)
    layers, sources = [], []
    for _ in range(int(rng.integers(2, 5))):
        scales = tuple(int(n) for n in rng.choice([1, 2, 3], axes)) if rng.random() < 0.6 else (1,) * axes
        # all have as many elements with what is around them
        edges, zeros = (
            tuple(s * int(n) for s, n in zip(scales, rng.choice([0, 0, 1], axes), strict=True)) for _ in range(2)
        )
        layers.append(layer._replace(scales=scales, edges=edges, zeros=zeros))
        spatial = [(n - 2 * e - 2 * z) // s for n, s, e, z in zip(sizes, scales, edges, zeros, strict=True)]
        if 0 in spatial:
            pytest.skip("PyTorch enlarges no image without elements")
        sources.append(whole(rng, 2, int(rng.integers(1, 4)), *spatial))
    joined = torch.cat([around(*pair) for pair in zip(sources, layers, strict=True)], 1)
    weight, bias = whole(rng, 3, joined.shape[1], *kernel), whole(rng, 3) if rng.random() < 0.5 else None
    stride, padding, dilation, *_ = layer.spec
    wanted = CONVOLUTIONS[axes](joined, weight, bias, stride, padding, dilation)
    result = upsampled.joined(sources, weight, bias, layers)
    assert_gradients_are(result, wanted, [*sources, weight, *([] if bias is None else [bias])], rng)


class Decoder(nn.Module):
    def __init__(self, larger):
        super().__init__()
        self.larger = larger
        # edges are padded by one or the other
        self.layer = nn.Conv2d(32, 16, 3, padding=int(not isinstance(larger, nn.Sequential)))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randint(-2, 3, parameter.shape))

    def forward(self, x):
        return torch.relu(self.layer(self.larger(x)))


def expanded(x):
    n, c, h, w = x.shape
    return x[:, :, :, None, :, None].expand(n, c, h, 2, w, 2).reshape(n, c, 2 * h, 2 * w)


WAYS = {
    "Upsample": nn.Upsample(scale_factor=2),
    "interpolate": lambda x: functional.interpolate(x, size=(32, 32)),
    "exact": lambda x: functional.interpolate(x, scale_factor=2, mode="nearest-exact"),
    "repeat": lambda x: x.repeat_interleave(2, 2).repeat_interleave(2, 3),
    "expand": expanded,
    "reflect": nn.Sequential(nn.Upsample(scale_factor=2), nn.ReflectionPad2d(1)),
    "replicate": nn.Sequential(nn.Upsample(scale_factor=2), nn.ReplicationPad2d(1)),
    "zeros": nn.Sequential(nn.Upsample(scale_factor=2), nn.ZeroPad2d(1)),
}


@pytest.mark.choice
@pytest.mark.parametrize("way", WAYS)
def test_every_spelling_is_folded(way, monkeypatch):
    monkeypatch.setattr(layers, "pays", lambda before, after: True)
    torch.manual_seed(1)
    model = Decoder(WAYS[way]).eval()
    x = torch.randint(-2, 3, (1, 32, 16, 16)).float()
    with rewrites.listening() as reports:
        net = dgo.from_torch(torch.export.export(model, (x,))).compile()
    assert [report.rewrite for report in reports if report.fired and "upsampling" in report.rewrite] == [
        "fold_upsampling"
    ]
    np.testing.assert_array_equal(net(x.numpy()), model(x).detach().numpy())


@pytest.mark.slow
@pytest.mark.parametrize("way", ("Upsample", "interpolate", "repeat"))
def test_a_compiled_step_is_pytorchs(way):
    torch.manual_seed(2)
    model = Decoder(WAYS[way])
    x = torch.randint(-2, 3, (2, 32, 16, 16)).float()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="dnnl_graph_ops")
    results = []
    for run in (model, compiled):
        model.zero_grad()
        y = run(x)
        y.backward(torch.ones_like(y))
        results.append([y.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*results, strict=True))


def sequential():
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Upsample(scale_factor=2), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 5, padding=2, bias=False),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(4, 4, 3),
    )  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randint(-1, 2, parameter.shape))
    return model


def gradients(model, x):
    y = model(x)
    return [y, *torch.autograd.grad(y, [x, *model.parameters()], torch.ones_like(y))]


def test_modules_that_follow_each_other_are_one_layer_in_training(monkeypatch, unpriced):
    calls = []
    convolution = upsampled.convolution
    monkeypatch.setattr(upsampled, "convolution", lambda *given: calls.append(given) or convolution(*given))
    model = sequential()
    optimized = dgt.optimize(model)
    x = torch.randint(-1, 2, (2, 8, 4, 4)).float().requires_grad_()
    wanted = gradients(model, x)
    for each in (optimized, copy.deepcopy(optimized), dgt.optimize(optimized)):
        calls.clear()
        assert all(map(torch.equal, gradients(each, x), wanted)) and len(calls) == 2
        assert each.state_dict().keys() == model.state_dict().keys() and isinstance(each, nn.Sequential)
    assert all(map(torch.equal, gradients(pickle.loads(pickle.dumps(optimized)), x), wanted))
    # hooks see what they saw
    calls.clear()
    seen = []
    optimized[0].register_forward_hook(lambda module, args, out: seen.append(out.shape))
    assert all(map(torch.equal, gradients(optimized, x), wanted)) and len(calls) == 1 and seen == [(2, 8, 8, 8)]
    calls.clear()
    alone = dgt.optimize(model, layers=lambda name, module: True)
    assert all(map(torch.equal, gradients(alone, x), wanted)) and not calls


@pytest.mark.slow
def test_a_sequence_is_still_scripted_and_exported():
    model = sequential().eval()
    optimized = dgt.optimize(model)
    x = torch.randint(-1, 2, (2, 8, 4, 4)).float()
    wanted = model(x)
    assert torch.equal(torch.jit.script(optimized)(x), wanted)
    assert torch.equal(torch.export.export(optimized, (x,)).module()(x), wanted)


def test_a_shallow_copy_calls_its_own_modules(unpriced):
    model = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(4, 4, 3))
    optimized = dgt.optimize(model)
    shallow = copy.copy(optimized)
    shallow._modules = {"0": optimized[0], "1": nn.Conv2d(4, 2, 3)}
    assert shallow(torch.ones(1, 4, 4, 4)).shape[1] == 2


def test_a_method_of_a_module_of_its_own_is_called(unpriced):
    optimized = dgt.optimize(nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(4, 4, 3)))
    forward = optimized[1].forward
    optimized[1].forward = lambda x: forward(x) * 0
    assert not optimized(torch.ones(1, 4, 4, 4)).any()


@pytest.mark.parametrize("more", ({"padding_mode": "reflect", "padding": 1}, {"padding": "same"}, {"stride": 2}))
def test_weights_are_computed_once(more, unpriced):
    """Each reading of the weights of a spectral norm is a step of its iteration."""
    torch.manual_seed(4)
    model = nn.Sequential(
        nn.Upsample(scale_factor=2), nn.utils.parametrizations.spectral_norm(nn.Conv2d(4, 4, 3, **more))
    )
    optimized, x = dgt.optimize(model), torch.randn(1, 4, 6, 6)
    for _ in range(3):
        torch.testing.assert_close(optimized(x), model(x))
    for ours, theirs in zip(optimized.buffers(), model.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_sizes_that_pytorch_refuses_are_refused(unpriced):
    optimized = dgt.optimize(nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(4, 4, 5)))
    with pytest.raises(RuntimeError, match=r"[Kk]ernel size"):
        optimized(torch.ones(1, 4, 2, 2))


def written(x, w):
    y = functional.interpolate(x, scale_factor=2)
    functional.relu(y, inplace=True)
    return functional.conv2d(y, w, padding=1)


def written_source(x, w):
    x = x * 1
    y = functional.interpolate(x, scale_factor=2)
    x.relu_()
    return functional.conv2d(y, w, padding=1) + x.sum()


def unrecorded(x, w):
    with torch.no_grad():
        y = functional.interpolate(x * 2, scale_factor=2)
    return functional.conv2d(y, w, padding=1)


def by_name(x, w):
    return functional.conv2d(input=functional.interpolate(x, scale_factor=2), weight=w, padding=1)


def one_image(x, w):
    return functional.conv2d(functional.interpolate(x[0], scale_factor=2), w, padding=1)


def strided(x, w):
    return functional.conv2d(functional.interpolate(x, size=(8, 8)), w, stride=2, padding=(1, 1))


def read_twice(x, w):
    y = functional.interpolate(x, scale_factor=2)
    return functional.conv2d(y, w) + y.sum()


def fraction(x, w):
    return functional.conv2d(functional.interpolate(x, size=(10, 10)), w)


def uneven(x, w):
    return functional.conv2d(functional.pad(functional.interpolate(x, scale_factor=2), (1, 0, 1, 0)), w)


def ones_around(x, w):
    return functional.conv2d(functional.pad(functional.interpolate(x, scale_factor=2), (1,) * 4, value=1.0), w)


def far_reflection(x, w):
    return functional.conv2d(functional.pad(functional.interpolate(x, scale_factor=2), (2,) * 4, "reflect"), w)


def edges_of_zeros(x, w):
    y = functional.pad(functional.interpolate(x, scale_factor=2), (1,) * 4)
    return functional.conv2d(functional.pad(y, (1,) * 4, "replicate"), w)


def images_joined(x, w):
    y = functional.interpolate(x, scale_factor=2)
    return functional.conv2d(torch.cat([y, x.repeat(1, 1, 2, 2)]), w)


def in_groups(x, w):
    y = functional.interpolate(x, scale_factor=2)
    return functional.conv2d(torch.cat([y, x.repeat(1, 1, 2, 2)], 1), w, groups=2)


def channels_padded(x, w):
    return functional.conv2d(functional.pad(functional.interpolate(x[:, :2], scale_factor=2), (0, 0, 0, 0, 1, 1)), w)


def sized(x, w):
    return functional.conv2d(functional.interpolate(x, size=8), w, padding=1)


def exact(x, w):
    return functional.conv2d(functional.interpolate(x, scale_factor=2, mode="nearest-exact"), w, padding=1)


def reflected(x, w):
    return functional.conv2d(functional.pad(functional.interpolate(x, scale_factor=2), (1,) * 4, "reflect"), w)


def replicated(x, w):
    return functional.conv2d(functional.pad(functional.interpolate(x, scale_factor=2), (2, 2, 1, 1), "replicate"), w)


def zeros_around(x, w):
    return functional.conv2d(functional.pad(functional.interpolate(x, scale_factor=2), (0, 0, 1, 1)), w, padding=(0, 1))


def skipped(x, w):
    skip = x[:, :1].repeat(1, 1, 2, 2)
    y = functional.interpolate(x[:, :3], size=skip.shape[2:])
    return functional.conv2d(torch.cat([y, skip], 1), w, padding=1)


def skipped_in_the_middle(x, w):
    skip = x[:, :2].repeat(1, 1, 2, 2)
    first = functional.interpolate(x[:, 1:2], scale_factor=2)
    second = functional.pad(functional.interpolate(x[:, 3:, 1:3], scale_factor=2), (0, 0, 2, 2))
    return functional.conv2d(functional.pad(torch.cat((first, skip, second), -3), (1,) * 4), w)


def written_after(x, w):
    x = x * 1
    y = functional.conv2d(functional.interpolate(x, scale_factor=2), w, padding=1)
    x[:, 0] += 1
    return y + x.sum()


def skip_written_after(x, w):
    skip = (x * 2).repeat(1, 1, 2, 2)[:, :1]
    y = functional.conv2d(torch.cat([functional.interpolate(x[:, :3], scale_factor=2), skip], 1), w, padding=1)
    return y + functional.relu(skip[:, 0], inplace=True).sum()


def written_by_an_overload(x, w):
    x = x * 1
    y = functional.conv2d(functional.interpolate(x, scale_factor=2), w, padding=1)
    torch.ops.aten.add_.Tensor(x, 1)
    return y + x.sum()


def of_other_types(x, w):
    skip = x[:, :1].repeat(1, 1, 2, 2).bfloat16()
    return functional.conv2d(torch.cat([functional.interpolate(x[:, :3], scale_factor=2), skip], 1), w)


def result_written_after(x, w):
    return functional.conv2d(functional.interpolate(x, scale_factor=2), w, padding=1).relu_()


FOLDED = (
    by_name, sized, exact, reflected, replicated, zeros_around, skipped, skipped_in_the_middle, strided,
    result_written_after,
)  # fmt: skip
NOT_FOLDED = (
    written, written_source, unrecorded, one_image, read_twice, fraction, uneven, ones_around, far_reflection,
    edges_of_zeros, images_joined, in_groups, channels_padded, written_after, skip_written_after,
    written_by_an_overload, of_other_types,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("function", FOLDED + NOT_FOLDED)
def test_programs_around_an_interpolate_are_pytorchs(function, unpriced, monkeypatch):
    calls = []
    joined = upsampled.joined
    monkeypatch.setattr(upsampled, "joined", lambda *given: calls.append(given) or joined(*given))
    rng = np.random.default_rng(5)
    x, w = whole(rng, 2, 4, 4, 4), whole(rng, 4, 4, 3, 3)
    torch._dynamo.reset()
    results = []
    for run in (function, torch.compile(function, backend="dnnl_graph_ops")):
        y = run(x, w)
        results.append([y, *torch.autograd.grad(y, (x, w), torch.ones_like(y), allow_unused=True)])
    for theirs, ours in zip(*results, strict=True):
        assert (theirs is None) == (ours is None) and (theirs is None or torch.equal(theirs, ours))
    assert bool(calls) == (function in FOLDED)


@pytest.mark.slow
def test_a_source_that_is_returned_may_be_written(unpriced):
    def function(x, w):
        source = torch.tanh(x)
        return functional.conv2d(functional.interpolate(source, scale_factor=2), w, padding=1), source

    rng = np.random.default_rng(6)
    x, w = whole(rng, 2, 4, 4, 4).detach(), whole(rng, 4, 4, 3, 3)
    torch._dynamo.reset()
    gradients = []
    for run in (function, torch.compile(function, backend="dnnl_graph_ops")):
        y, source = run(x, w)
        source.mul_(2)
        gradients += torch.autograd.grad(y.sum(), (w,))
    torch.testing.assert_close(*gradients)


@pytest.mark.slow
@pytest.mark.parametrize("formats", [(0, 0, 1), (1, 0, 0), (0, 1, 0), (1, 1, 0)])
def test_results_lie_in_memory_as_pytorchs(formats, unpriced):
    def function(x, y, w):
        return functional.conv2d(torch.cat([functional.interpolate(x, scale_factor=2), y], 1), w, padding=1)

    rng = np.random.default_rng(7)
    operands = whole(rng, 2, 4, 3, 3), whole(rng, 2, 4, 6, 6), whole(rng, 4, 8, 3, 3)
    last = (torch.contiguous_format, torch.channels_last)
    x, y, w = (each.detach().to(memory_format=last[n]) for each, n in zip(operands, formats, strict=True))
    w.requires_grad_()
    torch._dynamo.reset()
    theirs, ours = function(x, y, w), torch.compile(function, backend="dnnl_graph_ops")(x, y, w)
    assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


def test_parts_that_are_read_as_they_are_are_one_convolution():
    """bf16 sums of two convolutions would round once more: 256 - 1."""
    spec = ConvParams((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    plain = upsampled.Layer.plain(spec)
    parts = [plain._replace(scales=(2, 2), zeros=(1, 1)), plain]
    x, y = (torch.ones(1, 1, n, n, dtype=torch.bfloat16) for n in (4, 10))
    w = torch.zeros(1, 2, 3, 3)
    w[0, 0], w[0, 0, 1, 1], w[0, 1, 1, 1] = 27, 41, -1
    result = upsampled.joined([x, y], w.bfloat16().requires_grad_(), None, parts)
    assert result[0, 0, 4, 4] == 256
