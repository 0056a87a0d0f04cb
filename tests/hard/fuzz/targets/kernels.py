"""Builtin kernels described with hostile numbers, and run where their operands can be made.

An operand ends at its last element: behind it, and before it, lie bytes that a run must leave alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from dnnl_graph_ops import _core
from hard.fuzz.choices import Choices

kernels = _core.kernels

# bytes of an element by DataType
SIZES = {1: 2, 2: 2, 3: 4, 4: 4, 5: 1, 6: 1, 7: 8, 8: 1, 9: 1, 10: 1, 16: 8}
FLOATS = (3, 2, 1)
EDGE = 4096
FILLED = 0xA5
# bytes of an operand, products of a run: more is time without news
MOST_BYTES, MOST_WORK = 1 << 20, 1 << 22
# a description may take time and room in proportion to its sizes: such as are neither small nor absurd are left out
BIG, ABSURD = 1 << 16, 1 << 40


class Operand:
    """A strided array between two edges."""

    def __init__(self, dtype: int, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> None:
        self.offset, self.item = offset, SIZES.get(dtype, 8)
        ends = [(n - 1) * s for n, s in zip(shape, strides, strict=False) if n > 0]
        self.count = 0 if 0 in shape else 1 + sum(ends)
        self.nbytes = (offset + self.count) * self.item
        self.fits = min((*shape, *strides, 0)) >= 0 and len(shape) == len(strides) and self.nbytes <= MOST_BYTES

    def make(self, value: int) -> None:
        self.memory = np.full(self.nbytes + 2 * EDGE, FILLED, np.uint8)
        self.inside = self.memory[EDGE : EDGE + self.nbytes]
        self.inside[...] = value

    @property
    def whole(self) -> bool:
        return bool((self.memory[:EDGE] == FILLED).all() and (self.memory[EDGE + self.nbytes :] == FILLED).all())


def one(data: bytes) -> None:
    c = Choices(data)
    c.pick(KINDS)(c)


def run(kernel: Any, operands: list[Operand], work: int) -> None:
    if work > MOST_WORK or not all(operand.fits for operand in operands):
        return
    for operand in operands:
        operand.make(0)
    kernel.run(*(operand.inside.ctypes.data for operand in operands))
    for position, operand in enumerate(operands):
        assert operand.whole, f"{kernel.name} wrote beside its operand {position}"


def size(c: Choices) -> int:
    kind = c.byte() % 32
    return (3, 1, 2, 4, 5, 7, 8, 16, 0)[c.below(9)] if kind < 31 else c.number()


def attribute(c: Choices, least: int) -> int:
    kind = c.byte() % 16
    return least + (c.below(3) if kind > 7 else 0) if kind < 15 else c.number()


def dims(c: Choices, rank: int, one: Any, *given: Any) -> list[int]:
    return [one(c, *given) for _ in range(rank if not c.rarely() else c.below(5))]


def strides(c: Choices, shape: Sequence[int]) -> list[int]:
    """Row-major, permuted, with gaps or hostile."""
    kind = c.byte() % 16
    order = range(len(shape))
    if kind in (8, 9, 10):
        order = sorted(order, key=lambda axis: c.byte())
    made, step = [0] * len(shape), 1 + (c.below(3) if kind == 11 else 0)
    for axis in reversed(order):
        made[axis] = step
        step *= max(shape[axis], 1) + (c.below(3) if kind in (10, 11) else 0)
    if kind == 12 and made:
        made[c.below(len(made))] = 0
    if kind == 13 and made:
        made[c.below(len(made))] = c.number()
    return made[: c.below(6)] if kind == 14 and c.rarely() else made


def dtype(c: Choices) -> int:
    return c.pick(FLOATS) if not c.rarely() else c.number() % 2**31


def honest(*lists: Sequence[int]) -> bool:
    """Whether sizes are small, or absurd and to be refused."""
    return not any(BIG < abs(n) < ABSURD for values in lists for n in values)


def copy(c: Choices) -> None:
    shape = dims(c, c.below(6), size)
    types = [c.pick((*FLOATS, *SIZES)) if not c.rarely() else c.number() % 2**31 for _ in range(2)]
    src, dst = strides(c, shape), strides(c, shape)
    kernel = kernels.copy(shape, types[0], src, types[1], dst)
    run(kernel, [Operand(types[0], shape, src), Operand(types[1], shape, dst)], prod(shape))


def fill(c: Choices) -> None:
    shape, kind = dims(c, c.below(6), size), c.pick((*FLOATS, *SIZES)) if not c.rarely() else dtype(c)
    dst = strides(c, shape)
    if c.often():
        axis, bias = (c.below(5) if not c.rarely() else c.number() % 2**31), c.pick((*FLOATS, *SIZES))
        kernel = kernels.fill_channel(shape, kind, dst, axis, bias)
        run(kernel, [Operand(bias, [shape[axis]], [1]), Operand(kind, shape, dst)], prod(shape))
    else:
        kernel = kernels.fill(shape, kind, dst, c.real())
        run(kernel, [Operand(kind, shape, dst)], prod(shape))


def copy_list(c: Choices) -> None:
    items, sources, targets = [], [], []
    types = [c.pick((*FLOATS, *SIZES)) for _ in range(2)]
    zeros = c.below(64) if not c.rarely() else _int64(c.number())
    end = 0
    for _ in range(c.below(4)):
        shape = dims(c, c.below(4), size)
        offsets = [c.below(9) if not c.rarely() else _int64(c.number()) for _ in range(2)]
        src, dst = strides(c, shape), strides(c, shape)
        items.append((shape, offsets[0], src, offsets[1] + end, dst))
        sources.append(Operand(types[0], shape, src, offsets[0]))
        targets.append(Operand(types[1], shape, dst, offsets[1] + end))
        # two tasks must not write one place
        end = max(end, targets[-1].offset + targets[-1].count)
    kernel = kernels.copy_list(items, *types, zeros)
    if zeros <= MOST_WORK and all(o.fits for o in (*sources, *targets)):
        made = [[*operands, Operand(kind, [0], [1])] for kind, operands in zip(types, (sources, targets), strict=True)]
        both = [max(operands, key=lambda operand: operand.nbytes) for operands in made]
        both[1].nbytes = max(both[1].nbytes, zeros * both[1].item)
        run(kernel, both, sum(prod(item[0]) for item in items))


class Layer:
    """Sizes and attributes of a transposed convolution."""

    def __init__(self, c: Choices) -> None:
        rank = 1 + c.below(3)
        self.n, self.c = size(c) % 4 if not c.rarely() else c.number(), size(c)
        self.src, self.kernel = dims(c, rank, size), dims(c, rank, size)
        self.strides, self.dilations = dims(c, rank, attribute, 1), dims(c, rank, attribute, 1)
        self.pads = dims(c, rank, attribute, 0)
        self.dst = [
            max((i - 1) * s + (k - 1) * d + 1 - p, 1)
            for i, s, k, d, p in zip(self.src, self.strides, self.kernel, self.dilations, self.pads, strict=False)
        ]
        if c.often():
            # a window of it
            self.dst = [min(n, 1 + c.below(40)) for n in self.dst]
        elif c.rarely():
            self.dst = dims(c, rank, size)

    @property
    def honest(self) -> bool:
        return honest([self.n, self.c], self.src, self.kernel, self.dst) and max(self.kernel, default=0) <= BIG

    @property
    def work(self) -> int:
        return prod(max(n, 1) for n in (self.n, self.c, *self.src, *self.kernel)) + prod((self.n, self.c, *self.dst))

    @property
    def sizes(self) -> Any:
        return kernels.LayerSizes(
            *(self.n, self.c, self.src, self.dst, self.kernel, self.strides, self.pads, self.dilations)
        )


def depthwise(c: Choices) -> None:
    which, layer = c.below(3), Layer(c)
    shapes = [[layer.n, layer.c, *layer.src], [layer.c, *layer.kernel], [layer.n, layer.c, *layer.dst]]
    layouts = [strides(c, shape) for shape in shapes]
    if not layer.honest:
        return
    kind = dtype(c)
    problem = kernels.DepthwiseProblem(layer.sizes, kind, *layouts)
    operands = [Operand(kind, *pair) for pair in zip(shapes, layouts, strict=True)]
    if which == 0:
        bias = dtype(c)
        has_bias = c.often()
        kernel = kernels.depthwise_dgrad(problem, has_bias, bias)
        if has_bias:
            operands.insert(2, Operand(bias, [layer.c], [1]))
    elif which == 1:
        kernel = kernels.depthwise_fprop(problem)
        operands = [operands[i] for i in (2, 1, 0)]
    else:
        kernel = kernels.depthwise_wgrad(problem)
        operands = [operands[i] for i in (0, 2, 1)]
    run(kernel, operands, layer.work)


def stem(c: Choices) -> None:
    """Layers of few channels, weights packed and multiplied."""
    layer, channels = Layer(c), size(c)
    layer.c = 1 + c.below(4) if c.often() else layer.c
    shapes = [[layer.n, channels, *layer.src], [channels, layer.c, *layer.kernel], [layer.n, layer.c, *layer.dst]]
    layouts = [strides(c, shape) for shape in shapes]
    if not layer.honest or not honest([channels]):
        return
    kinds = [dtype(c) for _ in shapes]
    bias = dtype(c) if c.often() else 0
    src, weights, dst = (Operand(*of) for of in zip(kinds, shapes, layouts, strict=True))
    packed = Operand(3, [kernels.few_channels_packed_size(layer.sizes, channels)], [1])
    pack = kernels.few_channels_pack(layer.sizes, channels, kinds[1], layouts[1])
    kernel = kernels.few_channels_product(layer.sizes, channels, kinds[2], layouts[2], kinds[0], layouts[0], bias)
    work = layer.work * max(channels, 1)
    run(pack, [weights, packed], work)
    run(kernel, [dst, packed, *([Operand(bias, [channels], [1])] if bias else []), src], work)
    add = kernels.few_channels_gradient(
        layer.sizes, channels, kinds[0], layouts[0], kinds[2], layouts[2], kinds[1], layouts[1]
    )
    run(add, [src, dst, weights], work)


def columns(c: Choices) -> None:
    layer, kind, forth = Layer(c), dtype(c), c.often()
    if not layer.honest:
        return
    col = [layer.n, *layer.src, *layer.kernel, layer.c]
    dst = [layer.n, layer.c, *layer.dst]
    col_strides, dst_strides = strides(c, col), strides(c, dst)
    if forth:
        other = dtype(c)
        kernel = kernels.im2col(layer.sizes, kind, dst_strides, other, col_strides)
        run(kernel, [Operand(kind, dst, dst_strides), Operand(other, col, col_strides)], layer.work)
        return
    bias, has_bias = dtype(c), c.often()
    kernel = kernels.col2im(layer.sizes, col_strides, kind, dst_strides, has_bias, bias)
    extra = [Operand(bias, [layer.c], [1])] if has_bias else []
    run(kernel, [Operand(3, col, col_strides), *extra, Operand(kind, dst, dst_strides)], layer.work)


def row_product(c: Choices) -> None:
    rows, columns_, depth, images = (size(c) for _ in range(4))
    kinds = [dtype(c) for _ in range(3)]
    factors = []
    for across in (rows, columns_):
        inner, outer = (depth, across) if c.often() else (across, depth)
        step = inner + c.below(4) if not c.rarely() else _int64(c.number())
        factors.append([step * outer, *((step, 1) if inner == depth else (1, step))])
    to = [columns_, 1] if c.often() else [1, rows]
    if c.rarely():
        to[c.below(2)] = _int64(c.number())
    to = [0 if c.often() else rows * columns_, *to]
    if max(map(abs, (*factors[0], *factors[1], *to, rows, columns_, depth, images))) >= 2**63:
        return
    bias, axis = dtype(c) if c.rarely() else 0, c.below(2)
    kernel = kernels.row_product(
        images, rows, columns_, depth, kinds[0], factors[0], kinds[1], factors[1], kinds[2], to, bias, axis
    )
    a = Operand(kinds[0], [images, rows, depth], factors[0])
    b = Operand(kinds[1], [images, columns_, depth], factors[1])
    extra = [Operand(bias, [columns_ if axis else rows], [1])] if bias else []
    target = Operand(kinds[2], [images if to[0] else 1, rows, columns_], to)
    run(kernel, [a, b, *extra, target], rows * columns_ * depth * images)


def filtering(c: Choices) -> None:
    """Minimal filtering and overlap-add of products, channels last."""
    which, layer = c.below(5), Layer(c)
    outside = size(c)
    groups = 1 if not c.rarely() else attribute(c, 1)
    tile = [1 if c.byte() % 4 < 3 else attribute(c, 2) for _ in layer.src]
    if not layer.honest or not honest([outside, groups, *tile]):
        return
    kind, to, threads = dtype(c), dtype(c), c.below(4)
    problem = kernels.FilterProblem(
        layer.n, layer.c, outside, layer.src, layer.dst, layer.kernel, layer.strides, layer.pads, tile,
        layer.dilations, groups,
    )  # fmt: skip
    if which == 4:
        problem.packed_size("fprop")
    src, dst = [layer.n, *layer.src], [layer.n, *layer.dst]
    taps = [layer.c, outside // groups, *layer.kernel]
    x, y, w = ([*strides(c, [*src, layer.c])], [*strides(c, [*dst, outside])], strides(c, taps))
    work = layer.work * max(outside, 1)
    # their channels follow each other
    operand_x = Operand(kind, [*src, layer.c], [*x[:-1], 1])
    operand_y = Operand(to, [*dst, outside], [*y[:-1], 1])
    if which == 2:
        kernel = kernels.filter_wgrad(problem, kind, x[:-1], to, y[:-1], 3, w, threads)
        run(kernel, [operand_x, operand_y, _scratch(kernel), Operand(3, taps, w)], work)
        return
    direction = "fprop" if which == 1 else "dgrad"
    packing = problem.taps_apart() if which == 3 else problem
    packed = Operand(3, [packing.packed_size(direction)], [1])
    prepare = kernels.filter_pack(packing, direction, 3, w)
    run(prepare, [Operand(3, taps, w), packed], work)
    if which == 1:
        kernel = kernels.filter_fprop(problem, to, y[:-1], kind, x[:-1], threads)
        run(kernel, [operand_y, packed, _scratch(kernel), operand_x], work)
        return
    make = kernels.col2im_product if which == 3 else kernels.filter_dgrad
    bias = 3 if c.often() else 0
    kernel = make(problem, kind, x[:-1], to, y[:-1], bias, threads)
    extra = [Operand(3, [outside], [1])] if bias else []
    run(kernel, [operand_x, packed, *extra, _scratch(kernel), operand_y], work)


def _scratch(kernel: Any) -> Operand:
    return Operand(5, [kernel.scratch_bytes], [1])


def _int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


KINDS = (copy, fill, copy_list, depthwise, stem, columns, row_product, filtering)
