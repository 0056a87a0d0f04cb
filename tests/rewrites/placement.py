"""Graphs of where values lie: other orders, views, operands in the place of a result, rows of several layers."""

from dnnl_graph_ops import ops
from dnnl_graph_ops.compile import bands, tile_rows

from .draw import Draw, Window, channels_of, convolution
from .groups import UNARY
from .harness import proves
from .patterns import NEAR


def _made(d: Draw, shape):
    """A value that a step gives."""
    return d.pick(*UNARY)(d.input(shape))


def _read(d: Draw, value):
    """What a step of its own reads: a product, a softmax, a sum."""
    if value.ndim >= 2 and d.chance():
        return ops.matmul(value, d.constant((value.shape[-1], d.size())))
    return ops.reduce_sum(value, axes=[d.whole(0, value.ndim - 1)], keep_dims=True)


@proves("choose_order")
def order(d: Draw, unmet: str | None) -> None:
    rank = d.whole(1, 3)
    x = d.before(d.images(rank, "NCX"))
    for _ in range(d.whole(1, 2)):
        x = d.pick(*UNARY)(convolution(d, x, Window(d, rank, "NCX"), constant=d.chance()))
        if d.chance(0.3):
            ones, zeros = [1] * rank, [0] * rank
            x = ops.max_pool(x, kernel=ones, strides=ones, pads_begin=zeros, pads_end=zeros, data_format="NCX")
    if d.chance():
        d.outputs.append(_read(d, x))
    d.leave(x)


@proves("alias")
def alias(d: Draw, unmet: str | None) -> None:
    shape = d.sizes(d.whole(2, 4))
    x = d.input(shape) if d.chance(0.3) else _made(d, shape)
    if unmet == "strides express the result":
        if d.chance():
            steps = ops.slice(x, starts=[-1], ends=[-1 - shape[0]], axes=[0], steps=[-1])
            d.outputs.append(_read(d, steps))
            return
        x = ops.static_transpose(x, order=list(range(x.ndim))[::-1])
    way = "reshape" if unmet == "strides express the result" else d.pick("reshape", "transpose", "slice")
    if way == "reshape":
        y = ops.static_reshape(x, shape=d.pick([-1, x.shape[-1]], [x.shape[0], -1], [-1]), special_zero=False)
    elif way == "transpose":
        y = ops.static_transpose(x, order=[int(axis) for axis in d.rng.permutation(x.ndim)])
    else:
        axis = d.whole(0, x.ndim - 1)
        start = d.whole(0, x.shape[axis] - 1)
        step = d.pick(1, 1, 2)
        y = ops.slice(x, starts=[start], ends=[x.shape[axis]], axes=[axis], steps=[step])
    if unmet == "the result has no buffer yet":
        d.outputs.append(y)
    if unmet == "the result's readers take these strides":
        d.tolerance = NEAR
        d.outputs.append(ops.softmax(y, axis=y.ndim - 1))
    d.outputs.append(_read(d, y))


@proves("write_in_place")
def in_place(d: Draw, unmet: str | None) -> None:
    shape = d.sizes(d.whole(3, 5))
    value = _made(d, shape)
    if unmet == "the operand is no view":
        value = ops.static_transpose(_made(d, shape[::-1]), order=list(range(len(shape)))[::-1])
    if unmet == "the operand has no buffer yet":
        d.outputs.append(value)
    if d.chance(0.3) and unmet is None:
        begin, end = ([d.whole(0, 2) for _ in shape] for _ in range(2))
        y = ops.pad(value, pads_begin=begin, pads_end=end, mode=d.pick("constant", "edge"), value=d.pick(0.0, 1.0))
    else:
        axis = d.whole(0, len(shape) - 1)
        others = [d.input(shape) if d.chance() else _made(d, shape) for _ in range(d.whole(0, 2))]
        operands = [*others, value]
        if d.chance(0.2):
            operands.append(value)
        y = ops.concat(*operands, axis=axis)
    d.leave(y)
    if d.chance(0.3):
        d.outputs.append(_read(d, y))
    if unmet is None and not d.chance(0.7):
        d.outputs.append(ops.abs(value))


@proves("join_within")
def within(d: Draw, unmet: str | None) -> None:
    shape = d.sizes(d.whole(1, 5))
    axis = d.whole(0, len(shape) - 1)
    values = [_made(d, [d.size() if at == axis else n for at, n in enumerate(shape)]) for _ in range(d.whole(2, 4))]
    start = d.whole(0, len(values) - 2)
    inner = values[start : d.whole(start + 2, len(values))]
    outer = axis
    if unmet == "the operands are neighbouring parts of one later result":
        inner = d.pick(inner[::-1], [*inner, d.input(shape)], [*inner, inner[0]])
        if d.chance(0.3):
            outer = d.whole(0, len(shape) - 1)
            values = [_made(d, shape) for _ in values]
            inner = values[:2]
    first = ops.concat(*inner, axis=axis)
    if unmet == "the result has no buffer yet":
        if d.chance():
            d.outputs.append(first)
        else:
            d.outputs.append(_read(d, ops.concat(first, d.input(shape), axis=axis)))
    read = d.pick(*UNARY)(first) if d.chance() else _read(d, first)
    d.outputs.append(read)
    if d.chance():
        # a layer of a dense block: the later result has what was computed from the earlier one
        values.append(d.pick(*UNARY)(first))
    second = ops.concat(*values, axis=outer)
    if d.chance(0.3):
        second = ops.concat(second, d.input(shape), axis=axis)
    d.leave(second)


@proves("overwrite_operand")
def overwritten(d: Draw, unmet: str | None) -> None:
    d.tolerance = NEAR
    shape = d.sizes(d.whole(2, 4))
    last = len(shape) - 1
    first = ops.softmax(d.input(shape), axis=last)
    if unmet == "result and operand have one layout, in scratch":
        first = d.pick(d.input(shape), ops.softmax(d.input((1, *shape[1:])), axis=last), first)
    added = d.input(shape) + first
    if unmet == "one result alone overwrites the operand":
        other = ops.softmax(d.input(shape), axis=last)
        added = added * other
    second = ops.softmax(d.pick(*UNARY)(added), axis=last)
    if unmet == "no later step reads the operand":
        second = second * first
    d.outputs.append(second)


@proves("tile_rows")
def rows(d: Draw, unmet: str | None) -> None:
    faster = unmet != "the estimate says that it is faster"
    if faster:
        near = d.pick(512, 4096, 1 << 15)
        d.forced = [(tile_rows, "saving", lambda chain, env: len(chain) - 1), (bands, "NEAR", near)]
    rank = d.whole(1, 2)
    spatial = [d.whole(6, 20) if d.extent is None else 8, *(d.size(3, 8) for _ in range(rank - 1))]
    x = d.input((d.size(1, 2), *spatial, d.pick(3, 8, 16)))
    for number in range(d.whole(2, 3)):
        window = Window(d, rank, "NXC", dilations=[1] * rank)
        window.fits(x.shape)
        channels = channels_of(x, "NXC")
        depthwise = d.chance(0.4)
        made = channels if depthwise else d.pick(4, 8, 16)
        weights = d.constant((made, 1 if depthwise else channels, *window.kernel), 1)
        groups = channels if depthwise else 1
        x = ops.convolution(x, weights, **window.keywords, groups=groups, weights_format="OIX")
        if d.chance():
            x = ops.relu(x)
        if number == 0 and unmet is not None and faster:
            d.pick(d.outputs.append, d.read_again)(x)
    d.outputs.append(x)
