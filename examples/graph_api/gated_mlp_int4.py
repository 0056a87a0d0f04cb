"""A gated MLP with weights of 4 bits, a scale and a zero point for each group of elements of a row.

DynamicDequantize by groups needs oneDNN 3.7 or later, such as the extra `sycl` brings: there three of these ops and the
six of gated_mlp.py are one partition. With an earlier library NumPy dequantizes the weights, and the library runs the
graph of gated_mlp.py on them.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from gated_mlp import mlp, mlp_case, mlp_in_numpy, random
from graph_example_utils import TOLERANCES, TYPES, Array, Case, each_type, options

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import fpmath_mode, logical_tensor, op

SINCE = (3, 7)


def quantized(rows: int, columns: int, group: int, seed: int, dt: Any) -> tuple[Array, Array, Array]:
    """Weights of 0 to 15, scales and zero points of their groups (rows, columns / group)."""
    rng = np.random.default_rng(seed)
    groups = rows, columns // group
    weights = rng.integers(0, 16, (rows, columns)).astype(np.uint8)
    return (
        weights,
        (2.0 ** rng.integers(-6, -4, groups)).astype(TYPES[dt]),
        rng.integers(6, 10, groups).astype(np.uint8),
    )


def dequantized(weights: Array, scales: Array, zero_points: Array) -> Array:
    group = weights.shape[1] // scales.shape[1]
    whole = weights.astype(np.float32) - zero_points.repeat(group, 1)
    return whole * scales.astype(np.float32).repeat(group, 1)


def packed(weights: Array) -> Array:
    """Two elements a byte, the first one in the lower half, as the library has them."""
    pairs = weights.reshape(-1, 2)
    return pairs[:, 0] | pairs[:, 1] << 4


def int4_case(dt: Any, src: Array, weights: Sequence[tuple[Array, Array, Array]]) -> Case:
    """The MLP on src (mb, ic) and three weights with their scales and zero points, all of which the graph reads."""
    ids = itertools.count()

    def described(dtype: Any, shape: tuple[int, ...]) -> logical_tensor:
        return logical_tensor(next(ids), dtype, shape, logical_tensor.strided)

    x, dst = described(dt, src.shape), described(dt, src.shape)
    inputs, ops, products = {x: src}, [], []
    for name, (elements, scales, zero_points) in zip(("deq_gate", "deq_up", "deq_down"), weights, strict=True):
        types = {logical_tensor.u4: elements, dt: scales, logical_tensor.u8: zero_points}
        triple = [described(dtype, array.shape) for dtype, array in types.items()]
        inputs.update(zip(triple, (packed(elements), scales, zero_points), strict=True))
        products.append(described(dt, elements.shape))
        dequantize = op(next(ids), op.kind.DynamicDequantize, triple, [products[-1]], name)
        dequantize.set_attr(op.attr.qtype, "per_group")
        dequantize.set_attr(op.attr.group_shape, [1, elements.shape[1] // scales.shape[1]])
        dequantize.set_attr(op.attr.axis, -1)
        ops.append(dequantize)
    ops += mlp(ids, [x, *products], dst)
    expected = mlp_in_numpy(src, *(dequantized(*triple) for triple in weights))
    return Case(ops, inputs, dst.get_id(), expected, TOLERANCES[dt])


def main() -> int:
    chosen = options(__doc__, mb=4, ic=128, oc=256, group=32)
    newest = max(dgo.runtimes(), key=lambda runtime: runtime.version_info)
    runtime = dgo.engine("cpu", runtime=chosen.runtime or newest).runtime
    by_groups = runtime.version_info >= SINCE
    if not by_groups:
        print(
            f"needs oneDNN {'.'.join(map(str, SINCE))} (pip install '.[sycl]' in a clone brings 3.13): "
            f"{runtime.version} has no DynamicDequantize by groups. NumPy dequantizes, the rest runs"
        )

    def case(dt: Any) -> Case:
        (src,) = random(dt, (chosen.mb, chosen.ic))
        shapes = (chosen.ic, chosen.oc), (chosen.ic, chosen.oc), (chosen.oc, chosen.ic)
        weights = [quantized(*shape, chosen.group, seed, dt) for seed, shape in enumerate(shapes)]
        if by_groups:
            return int4_case(dt, src, weights)
        return mlp_case(dt, src, *(dequantized(*triple).astype(TYPES[dt]) for triple in weights))

    # f32 ops compute in f32, integer ops may compute as floating-point ones
    return each_type(case, runtime, mode=(fpmath_mode.strict, True) if by_groups else None)


if __name__ == "__main__":
    sys.exit(main())
