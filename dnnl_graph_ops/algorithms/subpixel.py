"""Computes dgrad, a transposed convolution, by sub-pixel decomposition: ordinary Convolutions over the phases of x.

On one axis, without dilation: result o has phase r = (o + pad) mod s and sums the taps k = r + s * j at the y
positions i = (o + pad) div s - j. So the results of one phase are a convolution of stride 1. So are `fold` neighbouring
results that are folded into channels (depth to space): that convolution has the union of their taps, with zeros for
absent ones. Phases of an axis are computed one by one, or folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from operator import mul
from typing import Any

from .. import dtypes
from ..convolution.problem import DGRAD, WGRAD, ConvProblem, is_channels_last
from ..cost.model import Counts, Far, channels, conversions, fresh, nbytes, packing, padded, untouched, waits
from ..ir.env import Env
from ..once import answered
from ..onednn import gradients, workarounds
from ..program import epilogue as post
from ..program.program import CopyItem, NativeOp, Program, View, describable
from ..strides import channels_last
from ..symbolic import cached
from .algorithm import Algorithm, W, X, Y, by_library_without_operands
from .deconvolution import fill_with_bias, gradient_factor, repeated_bias

# most pairs of folded result and tap, each a copy of weights; most boxes, each a Convolution
_MOST_PAIRS = 20000
_MOST_BOXES = 64
_FAR = Far(0.0, 0.7)
_ACROSS = 2.0  # cost factor of copies of a few columns to channels-first planes
_FILL = 0.25  # calls that filling a phase without taps counts as
_PIXEL = 128  # bytes of the lines of a pixel


@dataclass(frozen=True)
class AxisBlock:
    """Describes results start + step * q + c of an axis (q < count, c < fold) as a convolution; c becomes a channel."""

    start: int
    count: int
    step: int
    fold: int
    # the y position of tap 0 at q = 0; for each further q it is `hop` positions later
    first: int
    hop: int
    # for each c, the kernel index of each tap of the convolution; None where result c lacks the tap
    taps: tuple[tuple[int | None, ...], ...]

    @property
    def length(self) -> int:
        return len(self.taps[0])

    def window(self, sources: int) -> tuple[int, int, int, int] | None:
        """Returns (padding before, first y position, number of positions, padding after) that the convolution reads.

        `sources`: the number of y positions on the axis. None: the convolution reads padding only.
        """
        last = self.first + (self.count - 1) * self.hop + self.length - 1
        begin, end = max(self.first, 0), min(last, sources - 1)
        if self.length == 0 or begin > end:
            return None
        return begin - self.first, begin, end - begin + 1, last - end


def _axis_block(kernel: int, stride: int, pad: int, start: int, count: int, multiple: int, fold: int) -> AxisBlock:
    results = [divmod(start + c + pad, stride) for c in range(fold)]
    reach = [(b, r, max(-(-(kernel - r) // stride), 0)) for b, r in results]
    first = min((b - n + 1 for b, _, n in reach if n), default=0)
    behind = max((b + 1 for b, _, n in reach if n), default=0)
    taps = tuple(
        tuple(r + stride * (b - i) if 0 <= b - i < n else None for i in range(first, behind)) for b, r, n in reach
    )
    return AxisBlock(start, count, stride * multiple, fold, first, multiple, taps)


@cached(256)
def axis_blocks(kernel: int, stride: int, pad: int, size: int, folds: bool, multiple: int = 1) -> list[AxisBlock]:
    """Returns blocks that together cover the `size` results of an axis.

    With `folds`, one block folds stride * multiple neighbouring results into channels, and a second one the rest, if
    any. Otherwise each of the stride * multiple phases is a block.
    """
    step = stride * multiple
    if not folds:
        return [
            _axis_block(kernel, stride, pad, start, -(-(size - start) // step), multiple, 1)
            for start in range(min(step, size))
        ]
    whole, rest = divmod(size, step)
    blocks = [_axis_block(kernel, stride, pad, 0, whole, multiple, step)] if whole else []
    if rest:
        blocks.append(_axis_block(kernel, stride, pad, whole * step, 1, multiple, rest))
    return blocks


def tap_pairs(box: Sequence[AxisBlock]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]]:
    """Yields (folded results, taps, kernel indices) for every folded result and tap of a box, with one index per axis.

    A box has one block per axis. The kernel indices are None where the result lacks the tap.
    """
    for results in product(*(range(block.fold) for block in box)):
        for taps in product(*(range(block.length) for block in box)):
            where = [block.taps[c][t] for block, c, t in zip(box, results, taps, strict=True)]
            yield results, taps, None if None in where else tuple(k for k in where if k is not None)


@dataclass(frozen=True)
class Folding:
    """Tells for each axis whether its phases are folded into channels or computed one by one."""

    fold_last: bool
    fold_others: bool
    # how many strides of results are folded at once on the last axis
    multiple: int = 1

    def modes(self, rank: int) -> list[tuple[bool, int]]:
        """Returns for each axis whether its phases are folded, and how many strides of results at once."""
        return [(self.fold_others, 1)] * (rank - 1) + [(self.fold_last, self.multiple)]

    def axes(self, problem: ConvProblem) -> list[list[AxisBlock]]:
        """Returns the blocks of each axis of the problem; their product are the boxes, disjoint, which cover x."""
        g = problem.geometry
        rows = zip(g.kernel, g.strides, g.pads_begin, g.x, self.modes(g.rank), strict=True)
        return [axis_blocks(k, s, p, size, folds, multiple) for k, s, p, size, (folds, multiple) in rows]


def _applies(problem: ConvProblem, folding: Folding) -> bool:
    """Whether this folding can compute the problem, and is not the same as another folding for these sizes."""
    g = problem.geometry
    if g.groups != 1 or any(d != 1 for d in g.dilations) or problem.y.size == 0:
        return False
    modes = list(zip(g.kernel, g.strides, folding.modes(g.rank), strict=True))
    if folding.fold_others and all(s == 1 for s in g.strides[:-1]):
        return False
    step = g.strides[-1] * folding.multiple
    if folding.fold_last and (step == 1 or (folding.multiple > 1 and g.x[-1] < 2 * step)):
        return False
    boxes = prod(1 if folds else s for _, s, (folds, _) in modes)
    pairs = prod(s * multiple * k for k, s, (_, multiple) in modes)
    return pairs <= _MOST_PAIRS and boxes <= _MOST_BOXES


def _window(problem: ConvProblem, box: Sequence[AxisBlock]) -> tuple[View, dict[str, Any]] | None:
    """Returns the part of y that a box reads and the attributes of its Convolution; None if it reads padding only."""
    y, before, behind = problem.y, [], []
    for axis, block in enumerate(box, 2):
        window = block.window(problem.y.shape[axis])
        if window is None:
            return None
        begin, start, size, end = window
        before.append(begin)
        behind.append(end)
        y = y.narrow(axis, start, size)
    attrs = {
        "strides": tuple(block.hop for block in box),
        "pads_begin": tuple(before),
        "pads_end": tuple(behind),
        "dilations": (1,) * len(box),
        "groups": 1,
        "data_format": "NCX",
        "weights_format": "OIX",
    }
    return y, attrs


def _box_view(x: View, box: Sequence[AxisBlock]) -> View:
    """Returns the box's part of x as a view (N, C, count, fold, ...), with a count and a fold per spatial axis."""
    for axis, block in enumerate(box):
        at = 2 + 2 * axis
        if block.fold == 1:
            x = x.narrow(at, block.start, block.count, block.step).insert(at + 1)
        elif block.count == 1:
            x = x.narrow(at, block.start, block.fold).insert(at)
        else:
            x = x.narrow(at, block.start, block.count * block.fold).split(at, (block.count, block.fold))
    return x


def _as_channels(view: View) -> View | None:
    """Returns (N, C, count, fold, ...) as (N, fold * ... * C, count, ...), folded into channels.

    None: strides forbid the view, or the library does not take its strides.
    """
    rank = (view.ndim - 2) // 2
    counts, folds = [2 + 2 * a for a in range(rank)], [3 + 2 * a for a in range(rank)]
    folded = view.permute((0, *folds, 1, *counts)).merged(1, rank + 1)
    return folded if folded is not None and describable(folded) else None


def _apart(program: Program, view: View) -> tuple[View, View]:
    """Allocates scratch like `view` (N, C, count, fold, ...); returns it with these axes, and folded into channels."""
    rank = (view.ndim - 2) // 2
    order = (0, *(2 + 2 * a for a in range(rank)), *(3 + 2 * a for a in range(rank)), 1)
    dense = program.scratch(view.shape, view.dtype, order)
    folded = _as_channels(dense)
    assert folded is not None
    return dense, folded


def _folded(program: Program, weights: View, box: Sequence[AxisBlock]) -> tuple[View, list[CopyItem], bool]:
    """Allocates the folded weights of a box, in memory (taps..., K, folds..., C), as (folds * C, K, taps...).

    Returns them with the copies of all (K, C) matrices from the plain weights, and whether taps are absent. A tap is
    absent where a folded result lacks it and its neighbours have it; the folded weights hold zeros there.
    """
    rank, (y_channels, x_channels) = len(box), weights.shape[1:3]
    view = program.scratch(
        (*(block.length for block in box), y_channels, *(block.fold for block in box), x_channels), weights.dtype
    )
    items: list[CopyItem] = []
    absent = False
    for columns, taps, where in tap_pairs(box):
        if where is None:
            absent = True
            continue
        plain = sum(map(mul, where, weights.strides[3:]))
        folded = sum(map(mul, columns, view.strides[rank + 1 :])) + sum(map(mul, taps, view.strides[:rank]))
        items.append(((y_channels, x_channels), plain, weights.strides[1:3], folded, (view.strides[rank], 1)))
    return view.permute((*range(rank + 1, 2 * rank + 2), rank, *range(rank))).merge(0, rank + 1), items, absent


def _gather(program: Program, weights: View, box: Sequence[AxisBlock]) -> View:
    """Appends the copies that fold the weights of a box, with zeros for absent taps; returns the folded weights."""
    target, items, absent = _folded(program, weights, box)
    program.copy_list(items, weights, target, "fold weights", target.size if absent else 0)
    return target


def _dgrad(program: Program, problem: ConvProblem, folding: Folding) -> None:
    """Appends one Convolution for each box of x."""
    epilogue = problem.epilogue
    label = "convolution of folded columns" if folding.fold_last else "convolution of a phase"
    for box in product(*folding.axes(problem)):
        whole = _box_view(problem.x, box)
        window = _window(problem, box)
        if window is None:
            # no tap reaches the box
            empty = program.like(whole, whole.dtype) if epilogue else whole
            fill_with_bias(program, empty, problem.bias)
            if epilogue:
                post.apply(program, empty, epilogue, whole)
            continue
        y, attrs = window
        weights = _gather(program, problem.w, box)
        bias = problem.bias and repeated_bias(program, problem.bias, prod(block.fold for block in box))
        target = _as_channels(whole)
        dense = None
        if target is None:
            dense, target = _apart(program, whole)
        program.native(post.fused("Convolution", attrs, (y, weights, bias), epilogue, target), label)
        if dense is not None:
            program.copy(dense, whole, "columns to their places")


def _wgrad(program: Program, problem: ConvProblem, folding: Folding) -> None:
    """Appends one ConvolutionBackwardWeights for each box of x; no two boxes share a tap."""
    problem = _rounded(program, problem, folding)
    boxes = product(*folding.axes(problem))
    windows = [(box, window) for box in boxes if (window := _window(problem, box)) is not None]
    weights = problem.w
    if sum(where is not None for box, _ in windows for *_, where in tap_pairs(box)) < prod(weights.shape[3:]):
        program.fill(weights, 0.0)
    for box, (y, attrs) in windows:
        whole = _box_view(problem.x, box)
        x = _as_channels(whole)
        if x is None:
            dense, x = _apart(program, whole)
            program.copy(whole, dense, "columns side by side")
        target, items, _ = _folded(program, weights, box)
        attrs["weights_shape"] = target.shape
        op = NativeOp("ConvolutionBackwardWeights", attrs, (y, x), (target,))
        program.native([op], "gradient of folded weights")
        # each element of w is one box's
        back = [(shape, at, strides, to, steps) for shape, to, steps, at, strides in items]
        program.copy_list(back, target, weights, "unfold weights")


def _misread(problem: ConvProblem, folding: Folding) -> bool:
    """Whether the library gets the Convolution of a box wrong in tiles."""
    channels_of_y = problem.geometry.y_channels
    return any(
        workarounds.wrong_in_tiles(channels_of_y, 1, [b.length for b in box], [b.hop for b in box], box[0].count)
        for box in product(*folding.axes(problem))
        if _window(problem, box) is not None
    )


def _rounded(program: Program, problem: ConvProblem, folding: Folding) -> ConvProblem:
    """Returns the problem with x zero-padded to whole strides on folded axes, so that one box has all taps."""
    g = problem.geometry
    sizes = [
        -(-size // stride) * stride if folds else size
        for size, stride, (folds, _) in zip(g.x, g.strides, folding.modes(g.rank), strict=True)
    ]
    if sizes == list(g.x):
        return problem
    shape = (*problem.x.shape[:2], *sizes)
    padded = program.scratch(shape, problem.x.dtype, channels_last(len(shape)))
    inside = padded
    for axis, size in enumerate(problem.x.shape[2:], 2):
        program.fill(inside.narrow(axis, size, inside.shape[axis] - size), 0.0)
        inside = inside.narrow(axis, 0, size)
    program.copy(problem.x, inside, "pad to whole strides")
    return problem.with_views(x=padded, geometry=replace(g, x=tuple(sizes)))


def _gradient_axes(axis: Sequence[AxisBlock], size: int) -> list[gradients.Axis]:
    """Returns the windows over y of the blocks of an axis, as gradients of weights have them."""
    windows = ((block, block.window(size)) for block in axis)
    return [(block.length, block.hop, 1, window[0], window[3]) for block, window in windows if window is not None]


def _apart_from_all(problem: ConvProblem, folding: Folding, met: float) -> float:
    """Returns the bytes of lines around pixels of dgrad's result whose neighbours in a line no phase writes."""
    apart = not folding.fold_last and problem.geometry.strides[-1] > 1
    return _PIXEL * met * problem.x.size / max(problem.geometry.x_channels, 1) if apart else 0.0


def _work(problem: ConvProblem, env: Env, folding: Folding) -> Counts:
    """Counts the work of the Convolutions of all boxes, and of copies of y, x and weights around them."""
    y_channels, x_channels = channels(problem)
    axes = folding.axes(problem)
    folds = prod(axis[0].fold for axis in axes)
    taps = prod(sum(cell.fold * cell.count * cell.length for cell in axis) for axis in axes)
    # blocks that a tap reaches; phases without one are filled by dgrad, and left out by wgrad
    reached = [
        [(cell, window) for cell in axis if (window := cell.window(size)) is not None]
        for axis, size in zip(axes, problem.y.shape[2:], strict=True)
    ]
    windows = prod(sum(window[2] for _, window in axis) for axis in reached)
    written = prod(sum(cell.fold * cell.count for cell, _ in axis) for axis in reached)
    met, boxes = written / max(prod(problem.geometry.x), 1), prod(map(len, reached))
    filled = prod(map(len, axes)) - boxes if problem.direction == DGRAD else 0
    weights = prod(sum(cell.fold * cell.length for cell in axis) for axis in axes) * y_channels * x_channels
    # results are copied to x unless only the last axis is folded, and x is channels last
    moved = folding.fold_others or problem.x.strides[1] != 1
    # the library copies strided views of several blocks itself
    scattered = moved or any(len(axis) > 1 for axis in axes)
    # copies to channels-first planes write only a few neighbouring columns at a time
    across = _ACROSS if folding.fold_others and not is_channels_last(problem.x) else 1.0
    batch = problem.y.shape[0]
    slow = 1.0
    if problem.direction == WGRAD and len(axes) > 1:
        sizes = problem.y.shape[2:]
        each = [_gradient_axes(axis, size) for axis, size in zip(axes, sizes, strict=True)]
        slow = max((gradient_factor(box, problem, env) for box in product(*each)), default=1.0)
    # the library reorders the part of y that each box reads to channels last itself
    windowed = 0 if is_channels_last(problem.y) else 4 * dtypes.itemsize(problem.dtype) * batch * y_channels * windows
    return Counts(
        products=slow * batch * taps * y_channels * padded(x_channels * folds, env.lanes) / folds,
        values=batch * y_channels * windows + problem.x.size * met,
        runs=batch * taps * x_channels / folds,
        weights=weights,
        variable=packing(problem, weights),
        bytes=2 * nbytes(problem.x) * met * scattered * across
        + (untouched(problem, met) + _apart_from_all(problem, folding, met) if filled else 0)
        + windowed
        + conversions(problem, env)
        + fresh(problem, env, weights)
        + waits(problem, env, _FAR),
        calls=boxes * (1 + moved) + _FILL * filled,
    )


_FAMILY = "subpixel"
# by the name of the algorithm
_FOLDINGS = {
    "phases": Folding(fold_last=False, fold_others=False),
    "row phases": Folding(fold_last=True, fold_others=False),
    "row phases by 2": Folding(fold_last=True, fold_others=False, multiple=2),
    "row phases by 4": Folding(fold_last=True, fold_others=False, multiple=4),
    "depth to space": Folding(fold_last=True, fold_others=True),
}


def _algorithm(name: str, direction: str, folding: Folding) -> Algorithm:
    dgrad = direction == DGRAD
    build = _dgrad if dgrad else _wgrad
    # absent taps are zeros in the folded weights; x is padded by zeros
    spreads = (W if dgrad else X) | (Y if folding.fold_last else frozenset())
    return Algorithm(
        name, direction, _FAMILY,
        applies=lambda p, e: _applies(p, folding),
        counts=lambda p, e: _work(p, e, folding),
        build=lambda program, p, e: build(program, p, folding),
        spreads=spreads,
        # an operand of a post-op would have to be split into boxes like x
        fuses=lambda p, e: by_library_without_operands(p, e, "Convolution"),
        op="Convolution" if dgrad else "ConvolutionBackwardWeights",
        op_adds_bias=dgrad,
        misread=lambda p: dgrad and answered(p.answers, (_misread, folding), lambda: _misread(p, folding)),
    )  # fmt: skip


ALGORITHMS = (
    *(_algorithm(name, DGRAD, folding) for name, folding in _FOLDINGS.items()),
    *(_algorithm(name, WGRAD, folding) for name, folding in _FOLDINGS.items() if folding.multiple == 1),
)
