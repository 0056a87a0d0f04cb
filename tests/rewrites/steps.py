"""Graphs of what steps are made of: merged element-wise ops, equal ops, shared constants and shared scratch."""

import numpy as np

from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms import lower
from dnnl_graph_ops.compile import place_memory

from .draw import Draw, Window, convolution
from .groups import UNARY
from .harness import proves
from .patterns import NEAR


@proves("merge_swish")
def swish(d: Draw, unmet: str | None) -> None:
    d.tolerance = NEAR
    rank = d.whole(1, 2)
    x = d.images(rank, "NXC")
    if d.chance():
        x = convolution(d, x, Window(d, rank, "NXC"), constant=d.chance())
    if d.chance(0.7):
        x = d.pick(*UNARY)(x)
    gate = ops.sigmoid(x)
    if unmet == "that is the product with the sigmoid's operand":
        other = d.pick(ops.abs(x), d.input(x.shape), gate)
        y = d.pick(ops.multiply(other, gate), ops.multiply(gate, other), ops.add(x, gate))
    else:
        y = ops.multiply(*((x, gate) if d.chance() else (gate, x)))
    if unmet == "one op alone reads the sigmoid":
        y = d.pick(ops.add, ops.multiply)(*((y, gate) if d.chance() else (gate, y)))
    if d.chance():
        y = d.pick(ops.add, ops.subtract, ops.multiply)(*((y, x) if d.chance() else (x, y)))
    d.leave(ops.multiply(y, ops.sigmoid(y)) if d.chance(0.3) else y)


@proves("run_as_another")
def another(d: Draw, unmet: str | None) -> None:
    shape = d.sizes(d.whole(1, 4))
    d.options = {"tune": "off"}
    if unmet == "an op of another kind computes the same":
        d.outputs.append(ops.pow(d.input(shape), beta=d.pick(1.0, 3.0)))
        return
    if unmet == "a kernel computes the other op":
        d.outputs.append(ops.pow(d.input(()), beta=2.0))
        return
    way = d.pick("square", "root", "reciprocal", "sums")
    if way == "square":
        d.leave(ops.pow(d.input(shape), beta=2.0))
    elif way == "root":
        d.tolerance = NEAR
        d.leave(ops.pow(ops.abs(d.input(shape)), beta=0.5))
    elif way == "reciprocal":
        d.tolerance = NEAR
        d.leave(ops.reciprocal(ops.add(ops.abs(d.input(shape)), d.number(1.0, 2.0))))
    else:
        data_format = d.pick("NCX", "NXC")
        d.leave(ops.bias_add_backward(d.images(d.whole(1, 3), data_format), data_format=data_format))


@proves("share_packed")
def packed(d: Draw, unmet: str | None) -> None:
    """Weights that several layers read, in several ways; and ops on constants alone, which become steps of a plan."""
    d.nets = 2
    if unmet is not None:
        d.options = {"policy": "debug"}
        x = d.constant(d.sizes(d.whole(2, 3)))
        if unmet == "the result depends on few steps in sequence":
            for _ in range(18):
                x = d.pick(ops.abs, ops.relu, lambda v: ops.clamp(v, min=-1.0, max=3.0))(x)
        for _ in range(d.whole(2, 3)):
            axes = [d.whole(0, x.ndim - 1)]
            d.outputs.append(d.input(x.shape) + ops.reduce_max(d.pick(x, ops.abs(x)), axes=axes, keep_dims=True))
        return
    if d.chance(0.2):
        # without fusion its slices are steps of a plan, alike but for where they begin
        d.options, x = {"policy": "debug"}, d.constant([d.size(2), d.size()])
        for start in d.rng.permutation(x.shape[0])[:3].tolist():
            d.outputs.append(d.input((1, 1)) + ops.slice(x, starts=[start], ends=[start + 1], axes=[0], steps=[1]))
        return
    form = d.pick(
        "builtin direct", "builtin bf16", "builtin few-channel", "builtin depthwise", "builtin grouped", "Winograd 2"
    )
    ranked = lower.ranked
    d.forced = [(lower, "ranked", lambda *args: sorted(ranked(*args), key=lambda found: form not in found[0].name))]
    dtype = "bf16" if form == "builtin bf16" else "f32"
    d.exact = 2.0**8
    # channels that are apart, or of one tap and as many on both sides, are taken by layers of all kinds
    apart = form in ("builtin depthwise", "builtin grouped")
    rank, channels = d.whole(1, 2), d.pick(d.size(), 4 if form == "builtin few-channel" else 16)
    window = Window(d, rank, "NXC", **({"kernel": [1] * rank} if d.chance(0.7) else {}))
    window.pads_begin, window.pads_end = window.reach, window.reach
    weights = d.constant((channels, 1 if apart else channels, *window.kernel), 1, dtype)
    for _ in range(d.whole(4, 6)):
        x = d.input((d.size(1, 2), *d.sizes(rank), channels), dtype, 1)
        w = d.pick(weights, weights, d.graph.constant(weights.constant.copy()))
        build, order = d.pick((ops.convolution, "OIX"), (ops.convolution, "IOX"), (ops.conv_transpose, "IOX"))
        if apart and build is ops.convolution:
            order = "OIX"
        window.fits(x.shape)
        y = build(x, w, **window.keywords, weights_format=order, groups=channels if apart else 1)
        if dtype == "f32" and d.chance(0.3):
            y = y * d.graph.constant(np.full((channels,), d.pick(2.0, -1.0), np.float32))
        d.leave(y)


@proves("share_scratch")
def scratch(d: Draw, unmet: str | None) -> None:
    """Products of matrices that later ones read once more."""
    if d.chance():
        d.forced = [(place_memory, "MAX_PAIRS", 0)]
    n = d.size()
    values = [d.input((n, n)) for _ in range(2)]
    for _ in range(d.whole(4, 8)):
        other = d.constant((n, n), 1) if d.chance(0.3) else d.pick(*values)
        made = ops.matmul(*((d.pick(*values[-4:]), other)[:: d.pick(1, -1)]), transpose_a=d.chance())
        values.append(ops.clamp(made, min=-3.0, max=3.0))
    d.outputs += [values[-1], ops.concat(*values[-5:], axis=0)]
