"""PyTorch's own samples of its convolutions, through the custom ops and through optimized modules."""

import pytest
import torch
from torch import nn

import dnnl_graph_ops.torch as dgt

from .op_cases import computed_by

pytest.importorskip("expecttest", reason="PyTorch's own tests need it")
from torch.testing._internal.common_methods_invocations import op_db

NAMES = [f"conv{kind}{axes}d" for kind in ("", "_transpose") for axes in (1, 2, 3)]
INFOS = {name: next(i for i in op_db if i.name == f"nn.functional.{name}") for name in NAMES}
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.int64]
CLOSE = {torch.bfloat16: 0.05, torch.float16: 0.01}


@pytest.fixture(autouse=True)
def ours():
    with computed_by(True):
        yield


def op_of(name):
    """Ours, called as torch.nn.functional's; None where that has more to do than the op."""
    axes, transposed = int(name[-2]), "transpose" in name

    def call(input, weight, bias=None, stride=1, padding=0, *rest, **named):
        order = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
        named |= dict(zip(order, rest, strict=False))
        if isinstance(padding, str):
            return None
        one = isinstance(input, torch.Tensor) and input.ndim == axes + 1
        lists = [
            [v] if isinstance(v, int) else list(v)
            for v in (stride, padding, named.get("dilation", 1), named.get("output_padding", 0))
        ]
        op = torch.ops.dnnl_graph_ops.conv_transpose if transposed else torch.ops.dnnl_graph_ops.convolution
        out = op(input.unsqueeze(0) if one else input, weight, bias, *lists, named.get("groups", 1))
        return out.squeeze(0) if one else out

    return call


def module_of(name):
    """An optimized module with the weights of a call; None where no module has such."""
    axes, transposed = int(name[-2]), "transpose" in name

    def call(input, weight, bias=None, stride=1, padding=0, *rest, **named):
        order = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
        named |= dict(zip(order, rest, strict=False))
        groups = named.get("groups", 1)
        made = getattr(nn, f"Conv{'Transpose' if transposed else ''}{axes}d")
        rows, columns = weight.shape[0], weight.shape[1] * groups
        channels = (rows, columns) if transposed else (columns, rows)
        kernel = tuple(weight.shape[2:])
        layer = made(*channels, kernel, stride, padding, bias=bias is not None, device="meta", **named)
        # parameters as they come: gradients go to what was given
        del layer.weight
        layer.weight = weight
        if bias is not None:
            del layer.bias
            layer.bias = bias
        return dgt.optimize(layer, inplace=True)(input)

    return call


def outcome(call, sample, differentiated):
    """A result and its gradients, or the type of what is raised."""
    try:
        out = call(sample.input, *sample.args, **sample.kwargs)
        if out is None or not differentiated:
            return out
        leaves = [t for t in (sample.input, *sample.args) if isinstance(t, torch.Tensor) and t.requires_grad]
        weigh = torch.arange(out.numel()).reshape(out.shape).remainder(5).sub(2).to(out.dtype)
        return out.detach(), *torch.autograd.grad(out, leaves, weigh)
    except Exception as error:
        return type(error)


def in_float64(value):
    tensor = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.detach().double().requires_grad_(value.requires_grad) if tensor else value


@pytest.mark.sweep(1)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_samples(name, dtype):
    differentiated = dtype.is_floating_point or dtype.is_complex
    count = 0
    for sample in INFOS[name].sample_inputs("cpu", dtype, requires_grad=differentiated):
        theirs = outcome(getattr(nn.functional, name), sample, differentiated)
        # the sums of some of PyTorch's kernels are of the tensors' own dtype
        exact = sample.transform(in_float64)
        truth = outcome(getattr(nn.functional, name), exact, differentiated) if dtype in CLOSE else theirs
        for way in (op_of(name), module_of(name)):
            ours = outcome(way, sample, differentiated)
            if ours is None:
                continue
            count += 1
            if isinstance(theirs, type) or isinstance(ours, type):
                assert ours is theirs
            else:
                tolerance = CLOSE.get(dtype, 1e-4)
                torch.testing.assert_close(ours, truth, rtol=tolerance, atol=tolerance, check_dtype=dtype not in CLOSE)
    assert count > 5


@pytest.mark.parametrize("name", NAMES)
def test_error_inputs(name):
    info = INFOS[name]
    if info.error_inputs_func is None:
        pytest.skip("PyTorch has none")
    for error in info.error_inputs("cpu"):
        sample = error.sample_input
        theirs = outcome(getattr(nn.functional, name), sample, False)
        assert issubclass(theirs, Exception)
        ours = outcome(op_of(name), sample, False)
        assert ours is None or ours is theirs, sample
