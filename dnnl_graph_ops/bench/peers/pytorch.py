"""PyTorch, channels-first or channels-last (a 1D problem channels-last: as a 2D one of height 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional

from .task import Prepared, Task, keeping, symmetric_padding

_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
_FORWARD = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_POST: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu_,
    "sigmoid": torch.sigmoid_,
    "tanh": torch.tanh_,
}


def versions() -> dict[str, str]:
    return {"torch": torch.__version__}


def prepare(task: Task) -> Prepared:
    torch.set_num_threads(task.threads)
    tensors, attributes, crop = operands(task)
    run, detail = _RULES[task.direction](task, tensors, attributes, crop)

    def compute() -> torch.Tensor:
        with torch.inference_mode():
            out: torch.Tensor = run()
        return out

    return keeping(compute, lambda out: as_numpy(task, out), detail)


def operands(task: Task) -> tuple[dict[str, torch.Tensor], dict[str, Any], tuple[slice, ...] | None]:
    """Tensors in the task's memory format, the framework's attributes, and the crop of its result."""
    problem = task.problem
    padding, extra, crop = symmetric_padding(problem)
    attributes: dict[str, Any] = {
        "stride": list(problem.strides),
        "padding": list(padding),
        "output_padding": list(extra),
        "dilation": list(problem.dilations),
        "groups": problem.groups,
    }
    flat = task.layout == "NXC" and problem.rank == 1
    if flat:
        for key, value in (("stride", 1), ("padding", 0), ("output_padding", 0), ("dilation", 1)):
            attributes[key].insert(0, value)
        crop = (slice(0, 1), *crop) if crop else None
    tensors = {}
    for name, array in task.operands().items():
        tensor = torch.from_numpy(array).to(_DTYPES[task.dtype])
        if array.ndim > 1:
            tensor = tensor.unsqueeze(2) if flat else tensor
            if task.layout == "NXC":
                tensor = tensor.contiguous(memory_format=_LAST[tensor.ndim])
        tensors[name] = tensor
    return tensors, attributes, crop


def as_numpy(task: Task, tensor: torch.Tensor) -> np.ndarray:
    array: np.ndarray = tensor.float().contiguous().numpy()
    return np.squeeze(array, 2) if array.ndim > task.problem.rank + 2 else array


def cut(tensor: torch.Tensor, crop: tuple[slice, ...] | None) -> torch.Tensor:
    return tensor if crop is None else tensor[(slice(None), slice(None)) + crop]  # noqa: RUF005


def forward(task: Task, tensors: dict[str, torch.Tensor], attributes: dict[str, Any], crop: Any) -> Callable[..., Any]:
    """A function of (src, weights) that does the whole layer."""
    function = _FORWARD[tensors["src"].ndim - 3]
    bias = tensors.get("bias")
    post = [_POST[name] for name in task.post_ops]

    def layer(src: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        result = cut(function(src, weights, bias, **attributes), crop)
        for step in post:
            result = step(result)
        return result

    return layer


def _forward(task: Task, tensors: dict[str, torch.Tensor], attributes: dict[str, Any], crop: Any) -> tuple[Any, str]:
    layer = forward(task, tensors, attributes, crop)
    src, weights = tensors["src"], tensors["weights"]
    return lambda: layer(src, weights), f"torch.nn.functional.{_FORWARD[src.ndim - 3].__name__}"


def _backward(
    task: Task, tensors: dict[str, torch.Tensor], attributes: dict[str, Any], crop: Any
) -> tuple[Callable[[], torch.Tensor], str]:
    wanted = task.direction == "bwd_d"
    shape = task.problem.src_shape() if wanted else task.problem.weights_shape
    diff_dst = tensors["diff_dst"]
    if diff_dst.ndim > len(shape):
        shape = (*shape[:2], 1, *shape[2:])
    # the operand whose values do not matter: only its shape is read
    absent = torch.empty(shape, dtype=diff_dst.dtype)
    if task.layout == "NXC":
        absent = absent.contiguous(memory_format=_LAST[absent.ndim])
    src, weights = (absent, tensors["weights"]) if wanted else (tensors["src"], absent)
    arguments = (
        None,
        attributes["stride"],
        attributes["padding"],
        attributes["dilation"],
        True,
        attributes["output_padding"],
        attributes["groups"],
        [wanted, not wanted, False],
    )
    padding = _grow(task, diff_dst, attributes, crop)

    def run() -> torch.Tensor:
        grown = functional.pad(diff_dst, padding) if padding else diff_dst
        result: torch.Tensor = torch.ops.aten.convolution_backward(grown, src, weights, *arguments)[0 if wanted else 1]
        return result

    return run, "torch.ops.aten.convolution_backward"


def _grow(task: Task, diff_dst: torch.Tensor, attributes: dict[str, Any], crop: Any) -> list[int]:
    """What the gradient of a crop adds, in the order of torch.nn.functional.pad."""
    if crop is None:
        return []
    spatial = [1] * (diff_dst.ndim - 2 - task.problem.rank) + list(task.problem.spatial)
    extent = [1] * (len(spatial) - task.problem.rank) + list(task.problem.extent)
    grown: list[int] = []
    for axis in reversed(range(len(spatial))):
        length = (
            attributes["stride"][axis] * (spatial[axis] - 1)
            + extent[axis]
            - 2 * attributes["padding"][axis]
            + attributes["output_padding"][axis]
        )
        grown += [crop[axis].start, length - crop[axis].stop]
    return grown


_RULES = {"fwd": _forward, "bwd_d": _backward, "bwd_w": _backward}
