"""Graphs that are compiled in bf16 or f16, of whole numbers that both have."""

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.passes import mixed_precision as precision

from .draw import Draw, Window, convolution
from .groups import BINARY
from .harness import proves
from .patterns import NEAR

# results that are whole, of which bf16 has those below 2**8
WHOLE = (ops.abs, ops.relu, ops.square, lambda v: ops.clamp(v, min=-1.0, max=3.0))
# a number that f16 has and bf16 has not
_ODD = 257.0


def _product(d: Draw, x, rank: int, data_format: str):
    if rank == 0:
        return ops.matmul(x, d.constant((x.shape[-1], d.size()), 1))
    return convolution(d, x, Window(d, rank, data_format), constant=d.chance())


@proves("mixed_precision")
def mixed(d: Draw, unmet: str | None) -> None:
    dtype, d.exact = d.pick(("bf16", 2.0**8), ("f16", 2.0**11))
    d.options = {"precision": dtype}
    if unmet == "the graph's fpmath_mode is strict":
        d.graph = dgo.Graph(fpmath_mode="any")
    gain = {
        "the product is faster by estimate": 0.0,
        "the op's region gains more than its conversions cost": 1e-12,
    }.get(unmet, 1.0)
    d.forced = [(precision, "_gain", lambda node, dtype, env: (gain, ""))]
    auto = unmet == "max_error allows the op in the narrow type"
    # measuring errors compiles several nets
    rank, data_format = 1 if auto else d.whole(0, 2), d.pick("NCX", "NXC")
    if unmet == "no Dequantize computes an operand":
        x = ops.dequantize(d.input(d.sizes(3), "s8"), scales=[0.5], zps=[1])
        d.leave(ops.matmul(ops.abs(x) if d.chance() else x, d.constant((x.shape[-1], d.size()))))
        d.outputs.append(ops.matmul(x, d.constant((x.shape[-1], d.size()))))
        return
    x = d.images(rank, data_format) if rank else d.input(d.sizes(d.whole(2, 3)))
    if unmet == "the op reads a narrow tensor":
        x = d.pick(*WHOLE)(x)
    if unmet == "the op has one result, in f32":
        d.tolerance = NEAR
        y = _product(d, x, rank, data_format)
        d.outputs += ops.layer_norm(y, begin_norm_axis=-1, use_affine=False, keep_stats=True, epsilon=0.5)
        d.outputs.append(ops.relu(d.input(x.shape, dtype)))
        return
    if auto:
        d.options = {"precision": "auto", "max_error": 0.0}
        d.exact = 2.0**20
        d.forced.append((precision, "multiplied", lambda env: ("bf16",)))
        d.arrays[x] = d.rng.choice([_ODD, -_ODD, 1.0], x.shape).astype(np.float32)
    y = _product(d, x, rank, data_format)
    for _ in range(0 if auto else d.whole(0, 3)):
        if d.chance():
            y = d.pick(*WHOLE)(y)
        elif d.chance():
            y = d.pick(*BINARY)(y, d.pick(y, d.either([n if d.chance() else 1 for n in y.shape])))
        else:
            y = ops.static_transpose(y, order=[int(axis) for axis in d.rng.permutation(y.ndim)])
            rank = 0
    if d.chance(0.2):
        d.outputs.append(y)
    if d.chance(0.3):
        # stays in f32
        d.outputs.append(ops.reduce_sum(y, axes=[d.whole(0, y.ndim - 1)], keep_dims=True))
    if auto or d.chance(0.3):
        y = _product(d, y, rank, data_format)
    d.leave(y)
