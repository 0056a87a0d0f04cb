"""Programs of torch.ops.quantized_decomposed, as PyTorch's quantizers write them: PyTorch's own integers."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.ao.quantization.fx import _decomposed  # noqa: E402, F401  (registers the ops)
from torch.nn import functional  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402
from dnnl_graph_ops.torch.whole_model import backend  # noqa: E402

OPS = torch.ops.quantized_decomposed
TYPES = {torch.uint8: (0, 255), torch.int8: (-128, 127)}


def through(x, scale, zero, dtype=torch.uint8, ends=None):
    """Returns floats of integers of one scale."""
    limits = (scale, zero, *(ends or TYPES[dtype]), dtype)
    return OPS.dequantize_per_tensor(OPS.quantize_per_tensor(x, *limits), *limits)


class Weights(nn.Module):
    """Integers with a scale, a power of two, for each channel, as converted models hold them."""

    def __init__(self, *shape, axis=0):
        super().__init__()
        self.axis, channels = axis, shape[axis]
        self.register_buffer("integers", torch.randint(-7, 8, shape, dtype=torch.int8))
        self.register_buffer("scales", 2.0 ** torch.randint(-3, 1, (channels,)))
        self.register_buffer("zeros", torch.zeros(channels, dtype=torch.int64))

    def forward(self):
        return OPS.dequantize_per_channel(self.integers, self.scales, self.zeros, self.axis, -128, 127, torch.int8)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = Weights(16, 16, 3, 3), Weights(16, 16, 3, 3), Weights(16, 32, 3, 3)
        self.up, self.head = Weights(16, 16, 2, 2, axis=1), Weights(8, 16)
        self.bias = nn.Parameter(torch.randint(-4, 5, (16,)).float())

    def forward(self, x):
        x = through(x, 1.0, 3)
        a = through(functional.relu(functional.conv2d(x, self.first(), self.bias, padding=1)), 64.0, 0)
        b = functional.conv2d(functional.max_pool2d(a, 2), self.second(), padding=1) + functional.max_pool2d(a, 2)
        b = through(functional.relu(b), 1024.0, 0)
        b = through(functional.conv_transpose2d(b, self.up(), stride=2), 4096.0, 128)
        c = through(functional.conv2d(torch.cat([a, b], 1), self.last(), padding=1), 16384.0, 128)
        return functional.linear(through(c, 16384.0, 128).permute(0, 2, 3, 1), self.head())


@pytest.fixture
def unet(seed):
    torch.manual_seed(seed)
    return UNet().eval(), torch.randint(-3, 200, (1, 16, 12, 10)).float()


def test_a_converted_model_runs_in_int8(unet):
    model, x = unet
    net = dgo.from_torch(torch.export.export(model, (x,))).compile()
    with torch.no_grad():
        assert np.array_equal(net(x.numpy()), model(x).numpy())
    assert "PyTorch" not in str(net.explain())
    text = str(net.explain()).partition("\nstep ")[0]
    assert text.count("builtin integer") >= 4, text


@pytest.mark.slow
def test_a_compiled_model_runs_in_int8(unet, monkeypatch):
    model, x = unet
    nets = []
    monkeypatch.setattr(backend._Entry, "is_faster", lambda entry, args: nets.append(entry.net) or True)
    with torch.no_grad():
        assert torch.equal(torch.compile(model, backend="dnnl_graph_ops")(x), model(x))
    text = str(nets[0].explain()).partition("\nstep ")[0]
    assert "MatMul" in text and text.count("builtin integer") >= 4, text


class Called(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def by_tensor(x):
    scale, zero = torch.tensor(0.5), torch.tensor(3)
    limits = (scale, zero, -128, 127, torch.int8)
    return OPS.dequantize_per_tensor.tensor(OPS.quantize_per_tensor.tensor(x, *limits), *limits)


def by_channel(x):
    limits = (2.0 ** torch.arange(-2, 2), torch.arange(4), 1, -100, 90, torch.int8)
    return OPS.quantize_per_channel(x, *limits)


def in_bf16(x):
    limits = (0.5, 7, 0, 255, torch.uint8)
    return OPS.dequantize_per_tensor(OPS.quantize_per_tensor(x.bfloat16(), *limits), *limits, out_dtype=torch.bfloat16)


CASES = {
    "ties": lambda x: OPS.quantize_per_tensor(x, 1.0, 3, 0, 255, torch.uint8),
    "narrow": lambda x: OPS.quantize_per_tensor(x, 0.5, 5, 0, 127, torch.uint8),
    "narrow signed": lambda x: OPS.quantize_per_tensor(x, 0.25, -3, -127, 127, torch.int8),
    "tensor": by_tensor,
    "channels": by_channel,
    "bf16": lambda x: in_bf16(x).float(),
    "16 bits": lambda x: OPS.quantize_per_tensor(x, 0.25, 0, -32768, 32767, torch.int16).float(),
}


@pytest.mark.parametrize("name", CASES)
def test_rounding_and_clamping(name):
    x = torch.arange(-320, 320).reshape(2, 4, 8, 10) / 4.0
    model = Called(CASES[name])
    got = dgo.from_torch(torch.export.export(model, (x,))).compile()(x.numpy())
    assert np.array_equal(got, model(x).numpy())
