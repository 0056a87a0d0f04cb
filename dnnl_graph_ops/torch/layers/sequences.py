"""Runs an Upsample and the convolution after it in a `Sequential` as one layer, in training.

In inference whole models run as nets, which fold upsampling themselves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, is_grad_enabled, nn

from . import upsampled
from .conv_params import ordinary
from .modules import PLAIN, is_observed, is_ours, state_of
from .upsampled import Layer

_CONVOLUTIONS = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}


class Sequential(nn.Sequential):
    """Calls its modules in turn; in training an Upsample and the convolution after it as one layer."""

    # without types, as TorchScript infers them from PyTorch's own method
    def forward(self, input):  # type: ignore[no-untyped-def]
        if not torch.jit.is_scripting():  # type: ignore[attr-defined]
            return _called(self, input)
        for module in self:
            input = module(input)
        return input


def attach(model: nn.Module) -> None:
    """Lets each Sequential of a model compute an Upsample and the optimized convolution after it as one layer."""
    for module in model.modules():
        if type(module) is nn.Sequential and any(map(_layer_of, module, list(module)[1:])):
            module.__class__ = Sequential


def detach(model: nn.Module) -> None:
    """Lets each Sequential of a model call its modules one by one."""
    for module in model.modules():
        if type(module) is Sequential:
            module.__class__ = nn.Sequential  # type: ignore[assignment]


def _called(sequential: nn.Sequential, input: Any) -> Any:
    if not _records(input):
        return nn.Sequential.forward(sequential, input)
    before: nn.Module | None = None
    module: Any
    for module in sequential:
        if before is not None and (layer := _layer_of(before, module)) and _is_folded(module, input, layer):
            input, before = upsampled.convolution(input, module.weight, module.bias, layer), None
            continue
        if before is not None:
            input = before(input)
        before = module
    return input if before is None else before(input)


def _records(input: Any) -> bool:
    """Whether gradients of plain tensors are recorded, and neither modules nor engines are observed."""
    return not torch.compiler.is_compiling() and is_grad_enabled() and type(input) in PLAIN and not is_observed()


def _layer_of(first: nn.Module, second: Any) -> Layer | None:
    """Returns the layer of an Upsample and an optimized convolution after it; None for others."""
    axes = next((axes for kind, axes in _CONVOLUTIONS.items() if isinstance(second, kind)), 0)
    if not axes or type(first) is not nn.Upsample or not is_ours(second) or _is_changed(first) or _is_changed(second):
        return None
    if second.padding_mode != "zeros" or isinstance(second.padding, str) or state_of(second).dtype is not None:
        return None
    plain = first.size is None and first.mode in ("nearest", "nearest-exact") and not first.recompute_scale_factor
    scales = upsampled.whole_scales(first.scale_factor, axes)
    if not plain or not scales:
        return None
    spec = ordinary(second.stride, second.padding, second.dilation, second.groups)
    return Layer.plain(spec)._replace(scales=scales)


def _is_changed(module: nn.Module) -> bool:
    """Whether a module has hooks, or a forward method of its own."""
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return any(hooks) or "forward" in vars(module)


def _is_folded(module: Any, input: Tensor, layer: Layer) -> bool:
    """Whether both modules as one layer take fewer products; does not read the weights, which may be computed."""
    parameters = [*module.parameters(), input]
    plain = all(type(t) in PLAIN and t.is_cpu and t.dtype == torch.float32 for t in parameters)
    shape = (module.out_channels, module.in_channels // module.groups, *module.kernel_size)
    return plain and upsampled.fold_of(layer, input.shape, shape) is not None
