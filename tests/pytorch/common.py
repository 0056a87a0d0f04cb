"""What the tests of PyTorch modules share."""

import torch
from torch import nn

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def integers(*shape, most=3):
    return torch.randint(-most, most + 1, shape).float()


@torch.no_grad()
def with_integers(model):
    for parameter in model.parameters():
        parameter.copy_(integers(*parameter.shape))
    return model


def input_of(layer, batch=2, size=7):
    """Integers that a convolution takes."""
    return integers(batch, layer.in_channels, *[size + i for i in range(len(layer.stride))])


def results(model, *inputs, train=True):
    """The output, and the gradients of the inputs and the parameters by name."""
    model.zero_grad()
    given = [x.detach().clone(memory_format=torch.preserve_format).requires_grad_(train) for x in inputs]
    out = model(*given)
    found = {"output": out.detach()}
    if train:
        weigh = torch.arange(out.numel()).reshape(out.shape).remainder(5).to(out.dtype)
        out.backward(weigh)
        found |= {f"input {i}": x.grad for i, x in enumerate(given)}
        found |= {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.dtype is theirs[name].dtype, name
        assert torch.equal(value, theirs[name]), name
