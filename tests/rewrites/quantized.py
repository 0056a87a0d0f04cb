"""Graphs of int8: what moves elements between Dequantize and Quantize, and a Dequantize that several ops read."""

from dnnl_graph_ops import ops

from .draw import Again, Draw
from .harness import proves

SCALES = (0.25, 0.5, 1.0, 2.0)


def _part(d: Draw, shape):
    """Floats of integers, by one scale in most cases, or others."""
    dtype = d.pick("u8", "s8")
    if d.chance(0.3):
        if d.chance():
            return ops.relu(d.input(shape))
        scales = [d.pick(*SCALES) for _ in range(shape[1])]
        return ops.dequantize(d.input(shape, dtype), scales=scales, zps=[0] * len(scales), qtype="per_channel", axis=1)
    return ops.dequantize(d.input(shape, dtype), scales=[d.pick(*SCALES)], zps=[d.whole(0, 3)])


@proves("move_integers")
def moved(d: Draw, unmet: str | None) -> None:
    shape = [d.size(2), *d.sizes(d.whole(2, 3))]
    way = d.pick("concat", "reshape", "transpose", "repeat")
    if way == "concat":
        axis = d.whole(0, len(shape) - 1)
        whole = ops.concat(*(_part(d, shape) for _ in range(d.whole(2, 3))), axis=axis)
    elif way == "reshape":
        whole = ops.static_reshape(_part(d, shape), shape=(-1, shape[-1]), special_zero=False)
    elif way == "transpose":
        order = [int(a) for a in d.rng.permutation(len(shape))]
        whole = ops.static_transpose(_part(d, shape), order=order)
    else:
        sizes = [2 * n for n in shape[2:]]
        whole = ops.interpolate(_part(d, shape), sizes=sizes, mode="nearest", data_format="NCX")
    whole = d.between(whole, unmet)
    scales, more = [d.pick(*SCALES)], {}
    if unmet == "the result has one scale":
        axis = d.whole(0, whole.ndim - 1)
        if whole.shape[axis] == 1:
            raise Again
        scales = [d.pick(*SCALES) for _ in range(whole.shape[axis])]
        more = {"qtype": "per_channel", "axis": axis}
    dtype = d.pick("u8", "s8")
    zero = d.whole(0, 8)
    y = ops.quantize(whole, dtype=dtype, scales=scales, zps=[zero] * len(scales), **more)
    d.outputs.append(y)
    if d.chance(0.3):
        d.leave(ops.dequantize(y, scales=scales, zps=[zero] * len(scales), **more))


@proves("view_integers")
def viewed(d: Draw, unmet: str | None) -> None:
    n, rows, depth = d.sizes(3)
    scales, more = [d.pick(*SCALES)], {}
    if unmet == "the integers have one scale":
        if rows == 1:
            raise Again
        scales, more = [d.pick(*SCALES) for _ in range(rows)], {"qtype": "per_channel", "axis": 1}
    x = ops.dequantize(
        d.input((n, rows, depth), d.pick("u8", "s8")), scales=scales, zps=[d.whole(0, 3) for _ in scales], **more
    )
    if d.chance():
        d.leave(ops.relu(x))
    if d.chance():
        x = ops.static_transpose(x, order=[1, 0, 2])
        d.pick(d.leave, lambda value: None)(x)
    x = ops.static_reshape(x, shape=(-1, depth), special_zero=False)
    weights = ops.dequantize(d.constant((depth, d.size()), 2, "s8"), scales=[d.pick(*SCALES)], zps=[0])
    y = ops.matmul(x, weights)
    if d.chance():
        d.read_again(x)
    d.leave(y)


@proves("repeat_dequantize")
def repeated(d: Draw, unmet: str | None) -> None:
    n, c, *spatial = d.sizes(2 + d.whole(1, 2))
    x = ops.dequantize(d.input((n, c, *spatial), d.pick("u8", "s8")), scales=[d.pick(*SCALES)], zps=[d.whole(0, 2)])
    for _ in range(d.whole(1, 2)):
        weights = d.constant((d.size(), c, *(1,) * len(spatial)), 2, "s8")
        w = ops.dequantize(weights, scales=[d.pick(*SCALES)], zps=[0])
        y = ops.convolution(x, w, data_format="NCX", weights_format="OIX")
        d.leave(y)
    if d.chance():
        d.leave(ops.reduce_max(x, axes=range(1, x.ndim), keep_dims=True))
    if d.chance() and y.shape[1] == c:
        scale = {"scales": [d.pick(*SCALES)], "zps": [d.whole(0, 2)]}
        y = ops.dequantize(ops.quantize(y, dtype="u8", **scale), **scale)
        d.leave(ops.quantize(ops.add(x, y), dtype="u8", scales=[d.pick(*SCALES)], zps=[0]))
    d.pick(d.read_again, d.outputs.append)(x)


@proves("onednn_partition")
def partition(d: Draw, unmet: str | None) -> None:
    if unmet == "the partition's integers are known to be exact":
        # no library quantizes the mean of a window into other integers exactly
        n, c, *spatial = d.sizes(2 + d.whole(1, 2))
        dtype, scale = d.pick("u8", "s8"), d.pick(*SCALES)
        x = ops.dequantize(d.input((n, c, *spatial), dtype), scales=[scale], zps=[d.whole(0, 2)])
        ones, zeros = [1] * len(spatial), [0] * len(spatial)
        more = {"pads_begin": zeros, "pads_end": zeros, "exclude_pad": True, "data_format": "NCX"}
        y = ops.avg_pool(x, kernel=ones, strides=ones, **more)
        other = "s8" if dtype == "u8" else "u8"
        d.outputs.append(ops.quantize(y, dtype=other, scales=[d.pick(*SCALES)], zps=[d.pick(1, 3)]))
        return
    if unmet == "no channels are miscounted":
        d.options = {"tune": "off"}
        x = d.input((d.size(2, 4), d.size(), *(1,) * d.whole(1, 3)))
        for _ in range(2):
            x = d.pick(ops.add, ops.multiply, ops.maximum)(x, d.input([n if d.chance() else 1 for n in x.shape]))
        d.leave(x)
        return
    *lead, rows, depth = d.sizes(d.whole(2, 4))
    columns = d.size()
    if unmet == "no broadcast operand is misread":
        lead = [d.size(2), d.size(2)]
    y = ops.matmul(d.input((*lead, rows, depth)), d.input((*lead, depth, columns)))
    shape = [n if d.chance() else 1 for n in y.shape]
    if unmet == "no broadcast operand is misread":
        shape = [1, y.shape[1], 1, 1]
    y = d.pick(ops.add, ops.subtract)(y, d.input(shape))
    d.leave(ops.abs(y) if d.chance() else y)
