"""PyTorch, channels-first or channels-last (a 1D problem channels-last: as a 2D one of height 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional

from ..problem import Problem
from .task import Prepared, Task, keeping, padding_before, symmetric_padding

_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
_FORWARD: dict[str, tuple[Callable[..., torch.Tensor], ...]] = {
    "conv_transpose": (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d),
    "conv": (functional.conv1d, functional.conv2d, functional.conv3d),
}
INDUCTOR = "inductor"
COMPILED = "torch.compile (inductor)"
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass(frozen=True)
class Layer:
    """A problem in PyTorch's terms, which know one padding for both ends of an axis.

    Attributes:
        tensors: the operands in the task's memory format.
        attributes: keywords of the forward function.
        crop: where the problem's larger tensor (dst of a transposed convolution, src of an ordinary one) lies
            within PyTorch's; None: they are the same.
        grow: what makes PyTorch's of the problem's, in the order of torch.nn.functional.pad.
    """

    task: Task
    tensors: dict[str, torch.Tensor]
    attributes: dict[str, Any]
    crop: tuple[slice, ...] | None
    grow: list[int]

    @property
    def function(self) -> Callable[..., torch.Tensor]:
        given = next(iter(self.tensors.values()))
        return _FORWARD[self.task.problem.op][given.ndim - 3]

    def grown(self, tensor: torch.Tensor) -> torch.Tensor:
        return functional.pad(tensor, self.grow) if self.grow else tensor

    def cut(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.crop is None:
            return tensor
        index = (slice(None), slice(None), *self.crop)
        return tensor[index]


def versions() -> dict[str, str]:
    return {"torch": torch.__version__}


def prepare(task: Task) -> Prepared:
    """With the option `form` "inductor" compiled (forward only)."""
    torch.set_num_threads(task.threads)
    compiles = task.options.get("form") == INDUCTOR
    run, detail = (_inductor if compiles else _RULES[task.direction])(layer_of(task))

    def compute() -> torch.Tensor:
        with torch.inference_mode(not compiles), torch.no_grad():
            out: torch.Tensor = run()
        return out

    prepared = keeping(compute, lambda out: as_numpy(task, out), detail)
    if compiles:
        prepared.run()
    return prepared


def layer_of(task: Task) -> Layer:
    """The layer with its operands."""
    problem = task.problem
    attributes: dict[str, Any] = {"stride": list(problem.strides), "dilation": list(problem.dilations)}
    crop: tuple[slice, ...] | None
    if problem.transposed:
        padding, extra, crop = symmetric_padding(problem)
        attributes |= {"padding": list(padding), "output_padding": list(extra)}
        grow = _around(problem, padding, extra, crop) if crop else []
    else:
        padding, before = padding_before(problem)
        attributes["padding"] = list(padding)
        crop = tuple(slice(b, b + n) for (b, _), n in zip(before, problem.spatial, strict=True)) if before else None
        grow = [amount for pair in reversed(before) for amount in pair] if before else []
    flat = task.layout == "NXC" and problem.rank == 1
    if flat:
        for key, values in attributes.items():
            values.insert(0, 1 if key in ("stride", "dilation") else 0)
        crop = (slice(0, 1), *crop) if crop else None
    attributes["groups"] = problem.groups
    tensors = {}
    for name, array in task.operands().items():
        tensor = torch.from_numpy(array).to(_DTYPES[task.dtype])
        if array.ndim > 1:
            tensor = tensor.unsqueeze(2) if flat else tensor
            if task.layout == "NXC":
                tensor = tensor.contiguous(memory_format=CHANNELS_LAST[tensor.ndim])
        tensors[name] = tensor
    return Layer(task, tensors, attributes, crop, grow)


def as_numpy(task: Task, tensor: torch.Tensor) -> np.ndarray:
    array: np.ndarray = tensor.float().contiguous().numpy()
    return np.squeeze(array, 2) if array.ndim > task.problem.rank + 2 else array


def forward(layer: Layer) -> Callable[..., Any]:
    """A function of (src, weights) that does the whole layer."""
    function, attributes, bias = layer.function, layer.attributes, layer.tensors.get("bias")
    transposed = layer.task.problem.transposed

    def whole(src: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        if transposed:
            return layer.cut(function(src, weights, bias, **attributes))
        return function(layer.grown(src), weights, bias, **attributes)

    return whole


def _forward(layer: Layer) -> tuple[Any, str]:
    whole = forward(layer)
    src, weights = layer.tensors["src"], layer.tensors["weights"]
    return lambda: whole(src, weights), f"torch.nn.functional.{layer.function.__name__}"


def _inductor(layer: Layer) -> tuple[Callable[[], torch.Tensor], str]:
    """Constant weights are a module's parameter, which is frozen into what is compiled."""
    torch._dynamo.reset()
    whole = forward(layer)
    src, weights = layer.tensors["src"], layer.tensors["weights"]

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(weights, requires_grad=False)

        def forward(self, src: torch.Tensor) -> Any:
            return whole(src, self.weights)

    if layer.task.weights == "constant":
        constant = torch.compile(Module().eval(), dynamic=False)
        return lambda: constant(src), COMPILED
    variable = torch.compile(whole, dynamic=False)
    return lambda: variable(src, weights), COMPILED


def _backward(layer: Layer) -> tuple[Callable[[], torch.Tensor], str]:
    task, tensors, attributes = layer.task, layer.tensors, layer.attributes
    transposed, wanted = task.problem.transposed, task.direction == "bwd_d"
    shape = task.problem.src_shape() if wanted else task.problem.weights_shape
    diff_dst = tensors["diff_dst"]
    if diff_dst.ndim > len(shape):
        shape = (*shape[:2], 1, *shape[2:])
    # the operand whose values do not matter: only its shape is read
    absent = torch.empty(shape, dtype=diff_dst.dtype)
    if wanted and not transposed:
        absent = layer.grown(absent)
    if task.layout == "NXC":
        absent = absent.contiguous(memory_format=CHANNELS_LAST[absent.ndim])
    src, weights = (absent, tensors["weights"]) if wanted else (tensors["src"], absent)
    arguments = (
        None,
        attributes["stride"],
        attributes["padding"],
        attributes["dilation"],
        transposed,
        attributes.get("output_padding", [0] * (diff_dst.ndim - 2)),
        attributes["groups"],
        [wanted, not wanted, False],
    )
    index = 0 if wanted else 1

    def run() -> torch.Tensor:
        given = (layer.grown(diff_dst), src) if transposed else (diff_dst, src if wanted else layer.grown(src))
        result: torch.Tensor = torch.ops.aten.convolution_backward(*given, weights, *arguments)[index]
        return layer.cut(result) if wanted and not transposed else result

    return run, "torch.ops.aten.convolution_backward"


def _around(problem: Problem, padding: tuple[int, ...], extra: tuple[int, ...], crop: tuple[slice, ...]) -> list[int]:
    """Returns the padding by the gradient of a crop of dst, as torch.nn.functional.pad takes it."""
    grown: list[int] = []
    for axis, both, more, kept in reversed(list(zip(problem.axes, padding, extra, crop, strict=True))):
        length = axis.stride * (axis.size - 1) + axis.extent - 2 * both + more
        grown += [kept.start, length - kept.stop]
    return grown


_RULES = {"fwd": _forward, "bwd_d": _backward, "bwd_w": _backward}
