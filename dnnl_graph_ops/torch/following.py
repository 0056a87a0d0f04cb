"""Upsampling and the convolution that follows it in a `Sequential`, as one layer where gradients are recorded.

In inference whole models run as nets, in which upsampling is folded.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, is_grad_enabled, nn
from torch._C import _is_any_autocast_enabled

from . import modules, upsampled
from .modules import is_ours, state_of
from .routes import is_watched
from .spec import Ints, Spec

_CONVOLUTIONS = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}


def attach(model: nn.Module) -> None:
    """Lets each Sequential of a model compute an Upsample and the optimized convolution behind it as one layer."""
    for module in model.modules():
        if type(module) is nn.Sequential and any(map(_scales, module, list(module)[1:])):
            # copies of the module have a method of their own; of a pickle, modules are called one by one
            module.__dict__["forward"] = MethodType(forward, module)


def detach(model: nn.Module) -> None:
    """Lets each Sequential of a model call its modules one by one."""
    for module in model.modules():
        if getattr(module.__dict__.get("forward"), "__func__", None) is forward:
            del module.__dict__["forward"]


def forward(self, input):  # type: ignore[no-untyped-def]
    """Stands in the place of a Sequential's own method, whose types TorchScript infers."""
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        return _joined(self, input)
    for module in self:
        input = module(input)
    return input


def _joined(sequential: nn.Sequential, input: Any) -> Any:
    if not _records(input):
        return nn.Sequential.forward(sequential, input)
    before: nn.Module | None = None
    for module in sequential:
        if before is not None and (scales := _scales(before, module)):
            input, before = _convolved(before, module, input, scales), None
            continue
        if before is not None:
            input = before(input)
        before = module
    return input if before is None else before(input)


def _records(input: Any) -> bool:
    """Whether gradients are recorded of plain tensors, and nobody looks at modules or who computes them."""
    return not (
        torch.compiler.is_compiling()
        or not is_grad_enabled()
        or _is_any_autocast_enabled()
        or type(input) not in (Tensor, nn.Parameter)
        or is_watched()
        or modules.is_told()
        or nn.modules.module._has_any_global_hook()
    )


def _scales(first: nn.Module, second: nn.Module) -> Ints:
    """Returns how often an Upsample repeats elements along each axis before an optimized convolution; () if not so."""
    axes = next((axes for kind, axes in _CONVOLUTIONS.items() if isinstance(second, kind)), 0)
    if not axes or type(first) is not nn.Upsample or not is_ours(second) or _has_hooks(first) or _has_hooks(second):
        return ()
    plain = first.size is None and first.mode in ("nearest", "nearest-exact") and not first.recompute_scale_factor
    given = first.scale_factor
    scales = given if isinstance(given, tuple) else (given or 0.0,) * axes
    whole = all(scale >= 1 and scale % 1 == 0 for scale in scales)
    return tuple(map(int, scales)) if plain and whole and len(scales) == axes and max(scales) > 1 else ()


def _has_hooks(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _convolved(first: nn.Module, layer: Any, input: Tensor, scales: Ints) -> Tensor:
    """The result of both modules: one layer where it has fewer products, else one after the other."""
    weight = layer.weight
    plain = layer.padding_mode == "zeros" and not isinstance(layer.padding, str) and state_of(layer).dtype is None
    if plain and input.is_cpu and input.dtype == weight.dtype == torch.float32 and input.ndim == weight.ndim:
        spec = Spec(False, layer.stride, layer.padding, layer.dilation, (0,) * len(scales), layer.groups)
        if upsampled.is_folded(spec, scales, weight):
            return upsampled.convolution(input, weight, layer.bias, spec, scales)
    result: Tensor = layer(first(input))
    return result
