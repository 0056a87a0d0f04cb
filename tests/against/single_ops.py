"""Graphs of one op beside the convolutions: windows, copies, norms, products, element-wise groups."""

from collections.abc import Callable
from typing import Any

import numpy as np

IMAGE = (1, 32, 28, 32)
_POOL = {"strides": 2, "pads_begin": 1, "pads_end": 1, "kernel": 3}


def _ops() -> Any:
    import dnnl_graph_ops as dgo

    return dgo.ops


def _max_pool(layout: str) -> Callable[[Any], Any]:
    return lambda x: _ops().max_pool(x, **_POOL, data_format=layout)


def _interpolate(layout: str) -> Callable[[Any], Any]:
    attrs = {"mode": "linear", "sizes": [56, 64], "coordinate_transformation_mode": "half_pixel"}
    return lambda x: _ops().interpolate(x, **attrs, data_format=layout)


def _group(x: Any) -> Any:
    ops = _ops()
    return ops.multiply(ops.gelu(x), ops.sigmoid(ops.add(x, x)))


BUILDERS: dict[str, Callable[[Any], Any]] = {
    "max_pool NXC": _max_pool("NXC"),
    "max_pool NCX": _max_pool("NCX"),
    "avg_pool NXC": lambda x: _ops().avg_pool(x, **_POOL, exclude_pad=True, data_format="NXC"),
    "avg_pool 2x2": lambda x: _ops().avg_pool(
        x, kernel=2, strides=2, pads_begin=0, pads_end=0, exclude_pad=False, data_format="NXC"
    ),
    "max_pool 5x5": lambda x: _ops().max_pool(x, kernel=5, strides=1, pads_begin=2, pads_end=2, data_format="NXC"),
    "avg_pool 4x4": lambda x: _ops().avg_pool(
        x, kernel=4, strides=4, pads_begin=0, pads_end=0, exclude_pad=False, data_format="NXC"
    ),
    "transpose": lambda x: _ops().static_transpose(x, order=[0, 2, 3, 1]),
    "transpose last": lambda x: _ops().static_transpose(x, order=[0, 1, 3, 2]),
    "concat": lambda x: _ops().concat(x, _ops().relu(x), axis=1),
    "cast": lambda x: _ops().type_cast(x, dtype="bf16"),
    "reduce_mean": lambda x: _ops().reduce_mean(x, axes=[2, 3], keep_dims=True),
    "reduce_max": lambda x: _ops().reduce_max(x, axes=[1], keep_dims=False),
    "softmax": lambda x: _ops().softmax(x, axis=-1),
    "softmax channels": lambda x: _ops().softmax(x, axis=1),
    "layer_norm": lambda x: _ops().layer_norm(x, keep_stats=False, use_affine=False),
    "interpolate NXC": _interpolate("NXC"),
    "interpolate NCX": _interpolate("NCX"),
    "matmul": lambda x: _ops().matmul(x, _ops().static_transpose(x, order=[0, 1, 3, 2])),
    "group": _group,
}


def subject(name: str) -> tuple[Any, Any, list[np.ndarray]]:
    """A graph, its output and the array of its input."""
    import dnnl_graph_ops as dgo

    graph = dgo.Graph(name=name)
    array = np.random.default_rng(7).standard_normal(IMAGE, np.float32)
    return graph, BUILDERS[name](graph.input("x", IMAGE)), [array]
