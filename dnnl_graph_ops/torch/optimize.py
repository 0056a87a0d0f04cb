"""Defines `optimize` and `refresh`: models whose convolutions run in this package."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer

from ..dtypes import usual
from ..errors import InvalidArgumentError, warn
from ..frontends.torch_export.host import stated
from ..progress import Progress, check, shown
from ..runtime.cpu import check_settings
from ..schema.arguments import keywords_told
from .choice.narrow import slowness
from .choice.verdicts import measuring
from .layers import sequences
from .layers.compute import DTYPES
from .layers.modules import forget_those_of, is_ours, optimized_class, state_of, watch
from .whole_model import capture

Model = TypeVar("Model", bound=nn.Module)
_NO_MODULES: dict[Any, str] = {
    Mapping: "; load it into one, module.load_state_dict(values), and pass the module",
    (str, os.PathLike): "; read the file in PyTorch, and pass the module",
    torch.export.ExportedProgram: "; dgo.from_torch(program).compile() runs it",
    type: "; pass an instance of it",
}
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
    """Speed up a PyTorch model: its convolutions run in this package's engine, in training and in inference.

    Modules torch.nn.Conv1d to ConvTranspose3d (also lazy, weight-normed and parametrised ones) become subclasses that
    differ only in the engine: parameters, state_dict, hooks, names and printed text are unchanged. Which engine is
    faster for a layer is measured during its calls, in at most a tenth of their time; until then this package computes.
    PyTorch's kernel runs if it is faster, or if this package does not support the call (another device, float64,
    complex, sparse). In eval mode without gradients the whole model runs as nets, ops between the layers included,
    if that is faster; torch.compile captures the model once its calls have taken as long as a capture is expected to.

    Args:
        model: any module, also a single convolution.
        inplace: whether to change the model itself; else a deep copy is changed, so create optimizers afterwards.
        layers: a predicate that selects convolutions: called with the name (as in `model.named_modules()`) and the
            module. The selected layers run one by one.
        dtype: "bf16", "f16", "f32" or PyTorch's dtype to compute in, layer by layer; inputs, outputs and parameters
            keep their dtypes. None: the dtype of the input. A warning tells if this CPU is slower in it than in f32.
        example_inputs: a tensor, or a tuple of the model's positional arguments: measures and packs the layers and
            captures the model now, not during the first calls.
        progress: called with the number of layers measured, the number of all and a layer's name; None: a bar on a
            terminal.

    Returns:
        The copy, or the model if `inplace`.

    Raises:
        TypeError: not a module, or one of TorchScript. InvalidArgumentError: another dtype; a copy of a model with
            uninitialized buffers.

    After changes of few weights that PyTorch does not count, call `refresh`.
    """
    check_module(model, "optimize")
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(
            "optimize: TorchScript's modules cannot be changed; pass the one that torch.jit.script or trace was given"
        )
    if layers is not None and not callable(layers):
        raise TypeError(f"optimize: 'layers' must be a function of a name and a module, got {type(layers).__name__}")
    computed = None if dtype is None else _DTYPES.get(usual(str(dtype)))
    if computed is None and dtype is not None:
        integers = "; int8 is by dnnl_graph_ops.quantize.calibrate(model, samples)" if "int" in str(dtype) else ""
        raise InvalidArgumentError(
            f"optimize: 'dtype' must be 'bf16', 'f16', 'f32', such a dtype of PyTorch or None, got {dtype!r}{integers}"
        )
    check(progress, "optimize")
    check_settings()
    if computed is not None and (text := slowness(computed)):
        warn(f"optimize: dtype={dtype!r} costs time: {text}")
    lazy = next((name for name, each in model.named_buffers() if isinstance(each, UninitializedBuffer)), None)
    if lazy is not None and not inplace:
        raise InvalidArgumentError(
            f"optimize: PyTorch cannot copy the uninitialized buffer {lazy!r} of a lazy module; call the model once on "
            "a batch first, or pass inplace=True"
        )
    model = model if inplace else _copied(model)
    for name, module in model.named_modules():
        given: Any = type(module)
        made = optimized_class(given)
        if not (made or is_ours(module)) or (layers is not None and not layers(name, module)):
            continue
        if made is not None:
            module.__class__ = made
        state_of(module).set_dtype(computed)
    for joined in (capture, sequences):
        joined.attach(model) if layers is None and dtype is None else joined.detach(model)
    if not any(map(is_ours, model.modules())):
        warn(f"optimize: no convolution of {type(model).__name__} was taken, and nothing else is changed")
    if example_inputs is not None:
        _measure(model, example_inputs, progress, "optimize")
    return model


def warm_up(model: nn.Module, *example_inputs: Any, progress: Progress | None = None) -> None:
    """Measure and pack the layers of an optimized model, and capture it, now and not during the first calls.

    `optimize(model, example_inputs=x)` does the same at once. A server calls it for each size that it expects. The
    model's state is restored; `report` tells what was captured.

    Args:
        model: the result of `optimize`, or a module that contains it.
        *example_inputs: the model's positional arguments.
        progress: as of `optimize`.

    Raises:
        TypeError: not a module. InvalidArgumentError: no layer of the model is optimized, or the model takes another
            number of inputs.
    """
    check_optimized(model, "warm_up")
    check(progress, "warm_up")
    _measure(model, example_inputs, progress, "warm_up")


def check_module(model: Any, where: str) -> None:
    if not isinstance(model, nn.Module):
        hint = next((text for kind, text in _NO_MODULES.items() if isinstance(model, kind)), "")
        raise TypeError(f"{where}: 'model' must be a torch.nn.Module, got {type(model).__name__}{hint}")


def check_optimized(model: Any, where: str) -> None:
    """Raises a TypeError for what is no module, an InvalidArgumentError for a model without optimized layers."""
    check_module(model, where)
    if not any(map(is_ours, model.modules())):
        raise InvalidArgumentError(f"{where}: no layer of the model is optimized; call dgt.optimize(model) first")


def _measure(model: nn.Module, inputs: Any, progress: Progress | None, where: str) -> None:
    """Measures the layers on inputs; reports each layer when it is called, before it is measured."""
    layers = {module: name for name, module in model.named_modules() if is_ours(module)}
    called: set[nn.Module] = set()
    states = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with shown(progress) as tell:

        def note(module: nn.Module, _: Any) -> None:
            tell(len(called), len(layers), layers.get(module, ""))
            called.add(module)

        with watch(note):
            run_once(model, inputs, where)
        tell(len(layers), len(layers), "")
    for _ in range(capture.CALLS):
        run_once(model, inputs, where)
    with torch.no_grad():
        for buffer, state in states:
            # state of models that count calls or keep tensors
            if not torch.equal(buffer, state):
                buffer.copy_(state)


def _copied(model: Model) -> Model:
    """Returns a deep copy; PyTorch cannot copy computed tensors, such as weights that hooks set in a module."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach().clone()
    # of inference tensors PyTorch counts no changes
    with torch.inference_mode(False):
        return copy.deepcopy(model, memo)


def refresh(model: nn.Module) -> None:
    """Drop the packed weights of a model, also of `torch.compile(backend="dnnl_graph_ops")`; the next call packs again.

    Needed after changes of few elements that PyTorch does not count: through `parameter.data`, NumPy arrays or other
    views of the memory, by collectives of torch.distributed, by other processes, and of inference tensors. Not needed
    after changes of whole tensors by any of these, after changes by optimizers, `load_state_dict`, `copy_` and other
    in-place methods, or for new parameters.
    """
    check_module(model, "refresh")
    for module in model.modules():
        if is_ours(module):
            state_of(module).forget()
    forget_those_of([*model.parameters(), *model.buffers()])


def run_once(model: nn.Module, inputs: Any, where: str) -> None:
    """Calls the model in eval mode without gradients, and restores its state.

    Raises:
        InvalidArgumentError: the model takes another number of inputs. TypeError: an array for a tensor.
    """
    training = [(module, module.training) for module in model.modules()]
    arguments: Sequence[Any] = inputs if isinstance(inputs, tuple | list) else (inputs,)
    _check_arguments(model, arguments, where)
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            raise TypeError(f"{where}: the model takes tensors, got an array; pass torch.from_numpy(array)")
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
            f"pass the model's arguments, such as dgt.report(model, x)"
        ) from None
