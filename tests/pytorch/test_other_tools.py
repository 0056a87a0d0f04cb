"""Optimized models in other hands: PyTorch's quantization, counters, lazy modules, and reports of all kinds."""

import copy

import pytest
import torch
from torch import nn
from torch.ao import quantization
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.utils.flop_counter import FlopCounterMode

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch.whole_model import backend

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|reduce_range|observer|quantization).*")


class Quantized(nn.Module):
    """A model as torch.ao's eager flow wants it: stubs around what is quantized."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.up.qconfig = None

    def forward(self, x):
        y = self.relu(self.norm(self.conv(self.quant(x))))
        return self.up(self.dequant(y))


def fused(model, x):
    return quantization.fuse_modules(model, [["conv", "norm", "relu"]])(x)


def converted(model, x):
    model = quantization.fuse_modules(model, [["conv", "norm", "relu"]])
    model.qconfig = quantization.get_default_qconfig("x86")
    prepared = quantization.prepare(model)
    prepared(x)
    return quantization.convert(prepared)(x)


def trained(model, x):
    torch.manual_seed(1)
    model.train().qconfig = quantization.get_default_qat_qconfig("x86")
    model = quantization.prepare_qat(quantization.fuse_modules_qat(model, [["conv", "norm", "relu"]]))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return model(x).detach()


def by_graph(model, x):
    model = nn.Sequential(model.conv, model.norm, model.relu, model.up)
    prepared = prepare_fx(model, quantization.get_default_qconfig_mapping("x86"), (x,))
    prepared(x)
    return convert_fx(prepared)(x)


@pytest.mark.parametrize("flow", [fused, converted, trained, by_graph], ids=lambda flow: flow.__name__)
def test_torch_ao_takes_an_optimized_model(flow, seed):
    torch.manual_seed(seed)
    model, x = Quantized().eval(), torch.randn(2, 3, 8, 8)
    expected = flow(copy.deepcopy(model), x)
    torch.testing.assert_close(flow(dgt.optimize(model), x), expected, atol=1e-5, rtol=1e-5)


def test_a_type_is_the_original_one_as_a_key():
    ours = type(dgt.optimize(nn.Conv2d(1, 1, 1)))
    assert ours is not nn.Conv2d
    assert ours == nn.Conv2d and nn.Conv2d == ours and {nn.Conv2d: 1}[ours] == 1
    other = type(dgt.optimize(nn.Conv1d(1, 1, 1)))
    assert ours != nn.Conv1d and ours != other
    assert type(dgt.optimize(dgt.optimize(nn.Conv2d(1, 1, 1)))) is ours


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_flops_are_counted(transposed, training):
    layer = (nn.ConvTranspose2d if transposed else nn.Conv2d)(4, 6, (3, 2), 2, 1, groups=2)
    x = torch.randn(2, 4, 7, 8, requires_grad=training)

    def counted(model):
        with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(training):
            y = model(x)
            if training:
                y.sum().backward()
        return counter.get_total_flops()

    assert counted(dgt.optimize(layer)) == counted(layer) > 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (y := torch.relu(x) + 1, y[:, 1:], y[0]),
        lambda x: torch.relu(x).chunk(2, 1),
        lambda x: (y := torch.relu(x) + 1, y.transpose(1, 2), y),
        lambda x: (x[:, :2], x[0], torch.relu(x)),
        lambda x: (y := torch.relu(x) + 1, y.permute(0, 2, 3, 1), y.expand(3, *y.shape)),
    ],
    ids=["views", "parts", "twice", "inputs", "permuted"],
)
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_results_share_memory_as_they_do_in_pytorch(function, order, monkeypatch):
    monkeypatch.setattr(backend._Entry, "is_faster", lambda entry, args: True)
    x = torch.arange(-48.0, 48).reshape(2, 4, 3, 4).contiguous(memory_format=order)
    with torch.no_grad():
        outs, expected = torch.compile(function, backend="dnnl_graph_ops")(x), function(x)

    def shared(tensors):
        places = [tensor.untyped_storage().data_ptr() for tensor in (*tensors, x)]
        return [[one == other for one in places] for other in places]

    assert shared(outs) == shared(expected)
    for out, want in zip(outs, expected, strict=True):
        assert torch.equal(out, want) and out.stride() == want.stride()


def test_a_result_by_the_order_in_memory(monkeypatch):
    monkeypatch.setattr(backend._Entry, "is_faster", lambda entry, args: True)
    x = torch.arange(18.0).reshape(1, 2, 3, 3)

    def function(x):
        return torch.ops.aten.resize(x, [1, 2, 3, 3], memory_format=torch.channels_last) + 1

    with torch.no_grad():
        assert torch.equal(torch.compile(function, backend="dnnl_graph_ops")(x), function(x))


def test_a_symbolic_float(monkeypatch):
    monkeypatch.setattr(backend._Entry, "is_faster", lambda entry, args: True)
    run = torch.compile(lambda x, i: x + round(i / 2 * 123.4567, 1), backend="dnnl_graph_ops", dynamic=True)
    for i in (2, 3):
        assert torch.equal(run(torch.zeros(2), i), torch.zeros(2) + round(i / 2 * 123.4567, 1))


class Partial(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Conv1d(2, 2, 1), nn.Conv1d(2, 2, 1)
        self.other = Other(2, 2, 1)

    def forward(self, x):
        return self.other(self.used(x))


class Other(nn.Conv1d):
    def forward(self, x):
        return super().forward(x) * 2


def test_a_report_tells_of_every_layer():
    rows = {row.layer: row.why for row in dgt.report(dgt.optimize(Partial().eval()), torch.randn(1, 2, 5))}
    assert list(rows) == ["used", "other", "unused"]
    assert (rows["other"], rows["unused"]) == ("not optimized: another forward", "not called")


def test_a_report_of_complex_layers():
    model = dgt.optimize(nn.Sequential(nn.Conv2d(2, 3, 3, dtype=torch.complex64)))
    (row,) = dgt.report(model, torch.randn(1, 2, 8, 8, dtype=torch.complex64))
    assert (row.computed_by, row.why, row.their_seconds) == ("PyTorch", "dtype torch.complex64", None)


def test_lazy_buffers_are_copied_once_they_are_there():
    model, x = nn.Sequential(nn.LazyConv1d(2, 1), nn.LazyBatchNorm1d()), torch.randn(2, 3, 4)
    with pytest.raises(dgo.InvalidArgumentError, match=r"uninitialized buffer '1\.running_mean'.*inplace=True"):
        dgt.optimize(model)
    assert dgt.optimize(model, inplace=True)(x).shape == (2, 2, 4)
    assert dgt.optimize(model)(x).shape == (2, 2, 4)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_raise_as_in_pytorch():
    x = torch.nested.nested_tensor([torch.randn(3, 8, 8)] * 2)
    with pytest.raises(NotImplementedError, match="NestedTensorCPU"):
        dgt.optimize(nn.Conv2d(3, 8, 3))(x)
