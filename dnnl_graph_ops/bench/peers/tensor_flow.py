"""TensorFlow, channels-last: tf.nn.conv_transpose in a tf.function, and the ops of its gradients.

Its thread count comes from TF_NUM_INTRAOP_THREADS, which every competitor's process is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped, import-not-found, unused-ignore]

from ...errors import UnsupportedError
from .. import data
from .task import Prepared, Task, keeping

_POST: dict[str, Callable[[Any], Any]] = {"relu": tf.nn.relu, "sigmoid": tf.nn.sigmoid, "tanh": tf.nn.tanh}


def versions() -> dict[str, str]:
    return {"tensorflow": tf.__version__, "keras": getattr(tf.keras, "__version__", "?")}


def prepare(task: Task) -> Prepared:
    padding = _padding(task)
    operands = {
        name: tf.constant(_kernel(array) if name == "weights" else _last(array))
        for name, array in task.operands().items()
    }
    function, arguments = _RULES[task.direction](task, operands, padding)
    compiled = tf.function(function, autograph=False)

    def read(out: Any) -> np.ndarray:
        array = out.numpy()
        return np.moveaxis(array, (-1, -2), (0, 1)) if task.direction == "bwd_w" else data.from_layout(array, "NXC")

    prepared = keeping(lambda: compiled(*arguments), read, f"tf.nn.conv_transpose, padding {padding}")
    prepared.run()
    return prepared


def _padding(task: Task) -> str:
    """SAME or VALID; its convolution on CPU takes no other."""
    problem = task.problem
    if problem.groups > 1 or any(d > 1 for d in problem.dilations):
        raise UnsupportedError("no grouped or dilated transposed convolution on CPU")
    same = tuple(max(a.extent - a.stride, 0) // 2 for a in problem.axes)
    if problem.out_spatial == tuple(a.size * a.stride for a in problem.axes) and problem.pads_begin == same:
        return "SAME"
    if all(a.pad_begin == a.pad_end == 0 and a.output_padding < a.stride for a in problem.axes):
        return "VALID"
    raise UnsupportedError("its padding is neither SAME nor VALID")


def _last(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if array.ndim > 1 else array


def _kernel(weights: np.ndarray) -> np.ndarray:
    """IOX -> (k..., OC, IC)."""
    return np.ascontiguousarray(np.moveaxis(weights, (0, 1), (-1, -2)))


def _forward(task: Task, operands: dict[str, Any], padding: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    problem = task.problem
    shape, strides = problem.dst_shape("NXC"), list(problem.strides)
    held = operands["weights"]

    def layer(src: Any, weights: Any) -> Any:
        result = tf.nn.conv_transpose(src, weights, shape, strides, padding)
        if "bias" in operands:
            result = tf.nn.bias_add(result, operands["bias"])
        for name in task.post_ops:
            result = _POST[name](result)
        return result

    if task.weights == "constant":
        return lambda src: layer(src, held), (operands["src"],)
    return layer, (operands["src"], held)


def _backward_data(task: Task, operands: dict[str, Any], padding: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    strides = list(task.problem.strides)
    return (
        lambda diff, weights: tf.nn.convolution(diff, weights, strides, padding),
        (operands["diff_dst"], operands["weights"]),
    )


def _backward_weights(task: Task, operands: dict[str, Any], padding: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    problem = task.problem
    if problem.rank != 2:
        raise UnsupportedError("weights gradient as a raw op: 2D only")
    sizes = [*problem.kernel, problem.out_channels, problem.in_channels]
    strides = [1, *problem.strides, 1]
    return (
        lambda diff, src: tf.raw_ops.Conv2DBackpropFilter(
            input=diff, filter_sizes=sizes, out_backprop=src, strides=strides, padding=padding
        ),
        (operands["diff_dst"], operands["src"]),
    )


_RULES = {"fwd": _forward, "bwd_d": _backward_data, "bwd_w": _backward_weights}
