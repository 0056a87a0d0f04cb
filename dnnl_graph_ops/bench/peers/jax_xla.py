"""JAX (XLA CPU), channels-last: a convolution, with dilated input for a transposed one, under jit; its transposes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax  # type: ignore[import-untyped, import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-untyped, import-not-found, unused-ignore]
import numpy as np

from .. import data
from .task import Prepared, Task, keeping

_DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}
_POST: dict[str, Callable[[Any], Any]] = {"relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh}


def versions() -> dict[str, str]:
    return {"jax": jax.__version__}


def prepare(task: Task) -> Prepared:
    problem, kind = task.problem, _DTYPES[task.dtype]
    operands = {
        name: jnp.asarray(_turned(task, array) if name == "weights" else _last(array), kind)
        for name, array in task.operands().items()
    }
    layer = _layer(task, operands.get("bias"))
    shapes = {
        "src": jax.ShapeDtypeStruct(problem.src_shape("NXC"), kind),
        "weights": jax.ShapeDtypeStruct(_turned(task, np.empty(problem.weights_shape, np.float32)).shape, kind),
    }
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    if task.direction == "fwd":
        held, arguments = operands["weights"], (operands["src"],)
        if task.weights == "constant":
            function = jax.jit(lambda src: layer(src, held))
        else:
            function, arguments = jax.jit(layer), (operands["src"], held)
    elif task.direction == "bwd_d":
        arguments = (operands["diff_dst"], operands["weights"])
        function = jax.jit(
            lambda diff, weights: jax.linear_transpose(lambda src: layer(src, weights), shapes["src"])(diff)[0]
        )
    else:
        arguments = (operands["diff_dst"], operands["src"])
        function = jax.jit(
            lambda diff, src: jax.linear_transpose(lambda weights: layer(src, weights), shapes["weights"])(diff)[0]
        )

    def read(out: Any) -> np.ndarray:
        array = np.asarray(out.astype(jnp.float32))
        return _untwisted(task, array) if task.direction == "bwd_w" else data.from_layout(array, "NXC")

    prepared = keeping(lambda: function(*arguments).block_until_ready(), read, "lax.conv_general_dilated under jit")
    prepared.run()
    return prepared


def _last(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, 1, -1) if array.ndim > 1 else array


def _turned(task: Task, weights: np.ndarray) -> np.ndarray:
    """OIX -> (k..., IC/groups, OC); IOX too, reversed: the filter of the equivalent convolution."""
    if not task.problem.transposed:
        return np.ascontiguousarray(np.moveaxis(weights, (0, 1), (-1, -2)))
    groups = task.problem.groups
    split = weights.reshape(groups, -1, *weights.shape[1:])
    split = np.flip(split, tuple(range(3, split.ndim)))
    # (g, i, o, k...) -> (k..., i, g, o)
    moved = split.transpose(*range(3, split.ndim), 1, 0, 2)
    return np.ascontiguousarray(moved.reshape(*moved.shape[:-2], -1))


def _untwisted(task: Task, array: np.ndarray) -> np.ndarray:
    """The inverse of `_turned`."""
    if not task.problem.transposed:
        return np.moveaxis(array, (-1, -2), (0, 1))
    groups = task.problem.groups
    split = array.reshape(*array.shape[:-1], groups, -1)
    rank = task.problem.rank
    split = split.transpose(rank + 1, rank, rank + 2, *range(rank))
    split = np.flip(split, tuple(range(3, split.ndim)))
    return split.reshape(task.problem.weights_shape)


def _layer(task: Task, bias: Any) -> Callable[[Any, Any], Any]:
    problem = task.problem
    letters = "DHW"[3 - problem.rank :]
    if problem.transposed:
        strides, dilated = (1,) * problem.rank, problem.strides
        padding = [(a.extent - 1 - a.pad_begin, a.extent - 1 - a.pad_end + a.output_padding) for a in problem.axes]
    else:
        strides, dilated = problem.strides, (1,) * problem.rank
        padding = list(zip(problem.pads_begin, problem.pads_end, strict=True))

    def layer(src: Any, weights: Any) -> Any:
        result = jax.lax.conv_general_dilated(
            src,
            weights,
            strides,
            padding,
            lhs_dilation=dilated,
            rhs_dilation=problem.dilations,
            dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"),
            feature_group_count=problem.groups,
        )
        if bias is not None:
            result = result + bias
        for name in task.post_ops:
            result = _POST[name](result)
        return result

    return layer
