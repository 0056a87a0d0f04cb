"""Ways of changing whole parameters of a model: `CHANGES[name](model, next values of all parameters)`."""

import ctypes

import torch
from torch import nn
from torch.nn.utils import vector_to_parameters


def assigned(parameter, values):
    parameter.data = values.clone()


def by_data(parameter, values):
    parameter.data.mul_(0).add_(values)


def exponential_mean(parameter, values):
    # the model's parameters, so that the mean is the values
    latest = 2 * values - parameter.detach()
    parameter.data.mul_(0.5).add_(latest, alpha=0.5)


def merged(parameter, values):
    """As an adapter of low rank is merged, and the one before unmerged."""
    before = getattr(parameter, "adapter", 0)
    parameter.adapter = torch.ones_like(parameter) * values.flatten()[0] + 8
    parameter.data += parameter.adapter - before


def by_optimizer(make):
    def change(parameter, values):
        parameter.grad = parameter.detach() - values
        make([parameter]).step()
        parameter.grad = None

    return change


def through_address(parameter, values):
    values = values.contiguous()
    ctypes.memmove(parameter.data_ptr(), values.data_ptr(), values.nbytes)


# functions of a parameter and its next values
WAYS = {
    "data assigned": assigned,
    "data assigned twice": lambda p, values: (assigned(p, values + 1), assigned(p, p.data - 1)),
    "data times a number": lambda p, values: (
        assigned(p, values * 2), setattr(p, "data", p.data * 0.5), setattr(p, "data", p.data * 1)
    ),
    "data written": by_data,
    "data copied": lambda p, values: p.data.copy_(values),
    "exponential mean": exponential_mean,
    "adapter merged": merged,
    "copy_": lambda p, values: p.copy_(values),
    "copied in inference mode": lambda p, values: torch.inference_mode()(p.copy_)(values),
    "foreach": lambda p, values: torch._foreach_copy_([p], [values]),
    "set_": lambda p, values: p.set_(values.clone().untyped_storage(), 0, p.shape),
    "swapped": lambda p, values: torch.utils.swap_tensors(p, nn.Parameter(values)),
    "vector_to_parameters": lambda p, values: vector_to_parameters(values.flatten(), [p]),
    "NumPy": lambda p, values: p.detach().numpy().__setitem__(..., values.numpy()),
    "DLPack": lambda p, values: torch.from_dlpack(p.detach()).copy_(values),
    "address": through_address,
    "storage": lambda p, values: p.untyped_storage().copy_(values.contiguous().untyped_storage()),
    "SGD": by_optimizer(lambda p: torch.optim.SGD(p, 1.0)),
    "SGD, fused": by_optimizer(lambda p: torch.optim.SGD(p, 1.0, fused=True)),
    "SGD, foreach": by_optimizer(lambda p: torch.optim.SGD(p, 1.0, foreach=True)),
}  # fmt: skip


def loaded(model, values, assign):
    model.load_state_dict(dict(zip((name for name, _ in model.named_parameters()), values, strict=True)), assign=assign)


def set_anew(model, values):
    for (name, _), each in zip(list(model.named_parameters()), values, strict=True):
        layer, _, kind = name.rpartition(".")
        setattr(model.get_submodule(layer), kind, nn.Parameter(each.clone()))


# functions of a model and all next values
WHOLE = {
    "load_state_dict": lambda model, values: loaded(model, values, False),
    "load_state_dict, assigned": lambda model, values: loaded(model, [each.clone() for each in values], True),
    "new parameters": set_anew,
}


def of_each(way):
    @torch.no_grad()
    def change(model, values):
        for parameter, each in zip(model.parameters(), values, strict=True):
            way(parameter, each)

    return change


CHANGES = {**{name: of_each(way) for name, way in WAYS.items()}, **WHOLE}
