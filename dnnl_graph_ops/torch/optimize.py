"""`optimize` and `refresh`: a model whose convolutions compute by our engine."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from ..dtypes import usual
from ..errors import InvalidArgumentError, warn
from ..frontends.torch_export.host import stated
from ..progress import Progress, check, shown
from ..schema.arguments import keywords_told
from . import following, whole
from .choice import measuring
from .compute import DTYPES
from .modules import forget_those_of, is_ours, optimized_class, state_of, watch

Model = TypeVar("Model", bound=nn.Module)
_DTYPES = {stated(dtype): dtype for dtype in DTYPES}


@keywords_told
def optimize(
    model: Model,
    *,
    inplace: bool = False,
    layers: Callable[[str, nn.Module], bool] | None = None,
    dtype: torch.dtype | str | None = None,
    example_inputs: Any = None,
    progress: Progress | None = None,
) -> Model:
    """The model with its convolutions computed by our engine, in training and in inference.

    Modules of torch.nn.Conv1d to ConvTranspose3d (lazily made, weight-normed and parametrised ones too) become
    subclasses that differ in nothing but what computes: parameters, state_dict, hooks, names and printed text stay.
    Who is faster with a layer is measured in the course of its calls with about such sizes, in a tenth of their time at
    most; until then our engine computes. Where PyTorch's own kernel is faster, or ours does not compute (another
    device, float64, complex, sparse), PyTorch's runs. In eval mode without gradients the model runs as nets of ours,
    with all that is between its layers, where that is faster; torch.compile captures it once calls paid for that.

    Args:
        model: any module; a single convolution as well.
        inplace: change the model itself; else a deep copy, whose parameters an optimizer made before does not know.
        layers: which of the convolutions, each alone: called with the name (as in `model.named_modules()`) and the
            module.
        dtype: "bf16", "f16", "f32" or the dtype of PyTorch to compute these layers in, each alone; their inputs,
            outputs and parameters stay as they are. None: in the dtype of the input.
        example_inputs: a tensor, or a tuple of the model's positional arguments: the layers are measured and packed
            and the model is captured on them now, and not in the course of the calls.
        progress: called with the number of layers measured, the number of all and a layer's name; None: a bar on a
            terminal.

    Returns:
        The copy, or the model if `inplace`.

    Raises:
        TypeError: not a module. InvalidArgumentError: another dtype.

    Where weights change without PyTorch counting it, call `refresh`.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"optimize: 'model' must be a torch.nn.Module, got {type(model).__name__}")
    if layers is not None and not callable(layers):
        raise TypeError(f"optimize: 'layers' must be a function of a name and a module, got {type(layers).__name__}")
    computed = None if dtype is None else _DTYPES.get(usual(str(dtype)))
    if computed is None and dtype is not None:
        raise InvalidArgumentError(
            f"optimize: 'dtype' must be 'bf16', 'f16', 'f32', such a dtype of PyTorch or None, got {dtype!r}"
        )
    check(progress, "optimize")
    model = model if inplace else _copied(model)
    for name, module in model.named_modules():
        given: Any = type(module)
        made = optimized_class(given)
        if not (made or is_ours(module)) or (layers is not None and not layers(name, module)):
            continue
        if made is not None:
            module.__class__ = made
        state_of(module).set_dtype(computed)
    for joined in (whole, following):
        joined.attach(model) if layers is None and dtype is None else joined.detach(model)
    if not any(map(is_ours, model.modules())):
        warn(f"optimize: no convolution of {type(model).__name__} was taken, and nothing else is changed")
    if example_inputs is not None:
        _measure(model, example_inputs, progress)
    return model


def _measure(model: nn.Module, inputs: Any, progress: Progress | None) -> None:
    """Measures the layers on inputs; tells of each when it is called, before it is measured."""
    layers = {module: name for name, module in model.named_modules() if is_ours(module)}
    called: set[nn.Module] = set()
    states = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with shown(progress) as tell:

        def note(module: nn.Module, _: Any) -> None:
            tell(len(called), len(layers), layers.get(module, ""))
            called.add(module)

        with watch(note):
            run_once(model, inputs, "optimize")
        tell(len(layers), len(layers), "")
    for _ in range(whole.CALLS):
        run_once(model, inputs, "optimize")
    with torch.no_grad():
        for buffer, state in states:
            # of models that count calls, or remember
            if not torch.equal(buffer, state):
                buffer.copy_(state)


def _copied(model: Model) -> Model:
    """PyTorch copies no tensors that were computed, such as the weights that hooks leave in a module."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach().clone()
    return copy.deepcopy(model, memo)


def refresh(model: nn.Module) -> None:
    """Forget what was packed of the model's weights; the next call packs them as they are then. Also of a model that
    `torch.compile(backend="dnnl_graph_ops")` made.

    For changes that PyTorch does not count: through `parameter.data`, NumPy arrays or other views that share memory,
    collectives of torch.distributed on a parameter, other processes, and all of inference tensors. What optimizers,
    `load_state_dict`, `copy_` and other in-place methods change, and parameters that are replaced, are seen without it.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"refresh: 'model' must be a torch.nn.Module, got {type(model).__name__}")
    for module in model.modules():
        if is_ours(module):
            state_of(module).forget()
    forget_those_of([*model.parameters(), *model.buffers()])


def run_once(model: nn.Module, inputs: Any, where: str) -> None:
    """A call in eval mode without gradients, after which the model is as it was.

    Raises:
        InvalidArgumentError: the model does not take as many inputs.
    """
    training = [(module, module.training) for module in model.modules()]
    arguments: Sequence[Any] = inputs if isinstance(inputs, tuple | list) else (inputs,)
    _check_arguments(model, arguments, where)
    try:
        for module, _ in training:
            module.training = False
        with torch.no_grad(), measuring():
            model(*arguments)
    finally:
        for module, mode in training:
            module.training = mode


def _check_arguments(model: nn.Module, arguments: Sequence[Any], where: str) -> None:
    try:
        taken = inspect.signature(model.forward)
    except ValueError:
        return
    try:
        taken.bind(*arguments)
    except TypeError as error:
        raise InvalidArgumentError(
            f"{where}: {type(model).__name__} takes {taken}, and was given {len(arguments)} example inputs ({error}); "
            f"pass those that it is called with, such as dgt.report(model, x)"
        ) from None
