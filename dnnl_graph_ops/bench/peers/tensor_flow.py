"""TensorFlow, channels-last: tf.nn.conv_transpose or tf.nn.convolution in a tf.function; the ops of their gradients.

Other padding than SAME or VALID is a tf.pad before a convolution of padding VALID, as its own models write it.

Its thread count comes from TF_NUM_INTRAOP_THREADS, which every competitor's process is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped, import-not-found, unused-ignore]

from ...errors import UnsupportedError
from .. import data
from ..problem import Problem
from .task import Prepared, Task, keeping

_POST: dict[str, Callable[[Any], Any]] = {"relu": tf.nn.relu, "sigmoid": tf.nn.sigmoid, "tanh": tf.nn.tanh}


def versions() -> dict[str, str]:
    return {"tensorflow": tf.__version__, "keras": getattr(tf.keras, "__version__", "?")}


def prepare(task: Task) -> Prepared:
    problem = task.problem
    padding = _padding(task) if problem.transposed else _padding_of_ordinary(task)
    operands = {
        name: tf.constant(_kernel(array) if name == "weights" else _last(array))
        for name, array in task.operands().items()
    }
    function, arguments = _RULES[problem.op, task.direction](task, operands, padding)
    compiled = tf.function(function, autograph=False)

    def read(out: Any) -> np.ndarray:
        array = out.numpy()
        return np.moveaxis(array, (-1, -2), (0, 1)) if task.direction == "bwd_w" else data.from_layout(array, "NXC")

    name = "conv_transpose" if problem.transposed else "convolution"
    prepared = keeping(lambda: compiled(*arguments), read, f"tf.nn.{name}, padding {padding}")
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


def _padding_of_ordinary(task: Task) -> str:
    """SAME, VALID, or EXPLICIT: padded before."""
    problem = task.problem
    strided, dilated = ({*values} != {1} for values in (problem.strides, problem.dilations))
    if strided and dilated:
        raise UnsupportedError("no convolution both strided and dilated")
    if problem.groups > 1 and problem.rank == 3:
        raise UnsupportedError("no grouped 3D convolution on CPU")
    overhang = [max((a.out - 1) * a.stride + a.extent - a.size, 0) for a in problem.axes]
    sizes = [(-(-a.size // a.stride), a.pad_begin) for a in problem.axes]
    if sizes == [(a.out, over // 2) for a, over in zip(problem.axes, overhang, strict=True)]:
        return "SAME"
    return "EXPLICIT" if any(problem.pads_begin) or any(problem.pads_end) else "VALID"


def _depthwise(problem: Problem) -> bool:
    """What its own op for such layers takes."""
    return problem.groups == problem.in_channels > 1 and problem.rank == 2 and len({*problem.strides}) == 1


def _last(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if array.ndim > 1 else array


def _kernel(weights: np.ndarray) -> np.ndarray:
    """IOX -> (k..., OC, IC), OIX -> (k..., IC, OC)."""
    return np.ascontiguousarray(np.moveaxis(weights, (0, 1), (-1, -2)))


def _forward(task: Task, operands: dict[str, Any], padding: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    problem = task.problem
    shape, strides = problem.dst_shape("NXC"), list(problem.strides)
    held = operands["weights"]

    def layer(src: Any, weights: Any) -> Any:
        return _followed(task, operands, tf.nn.conv_transpose(src, weights, shape, strides, padding))

    if task.weights == "constant":
        return lambda src: layer(src, held), (operands["src"],)
    return layer, (operands["src"], held)


def _followed(task: Task, operands: dict[str, Any], result: Any) -> Any:
    """With the bias and the ops after it."""
    if "bias" in operands:
        result = tf.nn.bias_add(result, operands["bias"])
    for name in task.post_ops:
        result = _POST[name](result)
    return result


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


def _ordinary(task: Task, operands: dict[str, Any], padding: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    problem = task.problem
    pads = [[0, 0], *map(list, zip(problem.pads_begin, problem.pads_end, strict=True)), [0, 0]]
    mode = "VALID" if padding == "EXPLICIT" else padding
    strides, dilations = list(problem.strides), list(problem.dilations)
    shape = (*problem.kernel, problem.in_channels, problem.out_channels // problem.groups)
    held = tf.reshape(operands["weights"], shape) if _depthwise(problem) else operands["weights"]

    def layer(src: Any, weights: Any) -> Any:
        src = tf.pad(src, pads) if padding == "EXPLICIT" else src
        if _depthwise(problem):
            result = tf.nn.depthwise_conv2d(src, weights, [1, *strides, 1], mode, dilations=dilations)
        else:
            result = tf.nn.convolution(src, weights, strides, mode, dilations=dilations)
        return _followed(task, operands, result)

    if task.weights == "constant":
        return lambda src: layer(src, held), (operands["src"],)
    return layer, (operands["src"], held)


def _ordinary_backward(
    task: Task, operands: dict[str, Any], padding: str
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    problem = task.problem
    if problem.rank != 2 or {*problem.dilations} != {1}:
        raise UnsupportedError("gradients as raw ops: 2D without dilation only")
    before = [(a.pad_begin, a.pad_end) if padding == "EXPLICIT" else (0, 0) for a in problem.axes]
    height, width = (begin + size + end for (begin, end), size in zip(before, problem.spatial, strict=True))
    raw = tf.raw_ops
    input_gradient, filter_gradient = raw.Conv2DBackpropInput, raw.Conv2DBackpropFilter
    shape = [*problem.kernel, problem.in_channels // problem.groups, problem.out_channels]
    whole_shape = list(shape)
    if _depthwise(problem):
        input_gradient = raw.DepthwiseConv2dNativeBackpropInput
        filter_gradient = raw.DepthwiseConv2dNativeBackpropFilter
        shape = [*problem.kernel, problem.in_channels, problem.out_channels // problem.groups]
    common = {"strides": [1, *problem.strides, 1], "padding": "VALID" if padding == "EXPLICIT" else padding}
    if task.direction == "bwd_d":
        sizes = [problem.batch, height, width, problem.in_channels]
        (top, _), (left, _) = before
        rows, columns = (slice(begin, begin + size) for begin, size in zip((top, left), problem.spatial, strict=True))

        def data_gradient(diff: Any, weights: Any) -> Any:
            whole = input_gradient(input_sizes=sizes, filter=weights, out_backprop=diff, **common)
            return whole[:, rows, columns] if padding == "EXPLICIT" else whole

        return data_gradient, (operands["diff_dst"], tf.reshape(operands["weights"], shape))

    def weights_gradient(diff: Any, src: Any) -> Any:
        src = tf.pad(src, [[0, 0], *map(list, before), [0, 0]]) if padding == "EXPLICIT" else src
        gradient = filter_gradient(input=src, filter_sizes=shape, out_backprop=diff, **common)
        return tf.reshape(gradient, whole_shape)

    return weights_gradient, (operands["diff_dst"], operands["src"])


_RULES = {
    ("conv_transpose", "fwd"): _forward,
    ("conv_transpose", "bwd_d"): _backward_data,
    ("conv_transpose", "bwd_w"): _backward_weights,
    ("conv", "fwd"): _ordinary,
    ("conv", "bwd_d"): _ordinary_backward,
    ("conv", "bwd_w"): _ordinary_backward,
}
