"""Computes a transposed convolution by sub-pixel decomposition: ordinary Convolutions over the phases of dst.

On one axis, without dilation: result o has phase r = (o + pad) mod s and sums the taps k = r + s * j at the src
positions i = (o + pad) div s - j. So the results of one phase are a convolution of stride 1. So are `fold` neighbouring
results that are folded into channels (depth to space): that convolution has the union of their taps, with zeros for
absent ones. Phases of an axis are computed one by one, or folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from operator import mul
from typing import Any

from .. import dtypes
from ..lowering import epilogue as post
from ..lowering.cost import Counts, channels, conversions, fresh, nbytes, packing, padded
from ..lowering.env import Env
from ..lowering.problem import BACKWARD_WEIGHTS, FORWARD, Problem, is_channels_last
from ..lowering.program import CopyItem, NativeOp, Program, View, describable
from ..strides import channels_last
from .algorithm import DST, SRC, WEIGHTS, Algorithm, by_library_without_operands
from .deconvolution import fill_with_bias, repeated_bias

# most pairs of folded result and tap, each a copy of weights; most boxes, each a Convolution
_MOST_PAIRS = 20000
_MOST_BOXES = 64
_ACROSS = 2.0  # cost factor of copies of a few columns to channels-first planes


@dataclass(frozen=True)
class AxisBlock:
    """Describes results start + step * q + c of an axis (q < count, c < fold) as a convolution; c becomes a channel."""

    start: int
    count: int
    step: int
    fold: int
    # the src position of tap 0 at q = 0; for each further q it is `hop` positions later
    first: int
    hop: int
    # for each c, the kernel index of each tap of the convolution; None where result c lacks the tap
    taps: tuple[tuple[int | None, ...], ...]

    @property
    def length(self) -> int:
        """Returns the number of taps of the convolution."""
        return len(self.taps[0])

    def window(self, sources: int) -> tuple[int, int, int, int] | None:
        """Returns (padding before, first src position, number of positions, padding after) that the convolution reads.

        `sources`: the number of src positions on the axis. None: the convolution reads padding only.
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


@lru_cache(256)
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

    def axes(self, problem: Problem) -> list[list[AxisBlock]]:
        """Returns the blocks of each axis of the problem; their product are the boxes, disjoint, which cover dst."""
        g = problem.geometry
        rows = zip(g.kernel, g.strides, g.pads_begin, g.dst, self.modes(g.rank), strict=True)
        return [axis_blocks(k, s, p, size, folds, multiple) for k, s, p, size, (folds, multiple) in rows]


def _applies(problem: Problem, folding: Folding) -> bool:
    """Whether this folding can compute the problem, and is not the same as another folding for these sizes."""
    g = problem.geometry
    if g.groups != 1 or any(d != 1 for d in g.dilations) or problem.src.size == 0:
        return False
    modes = list(zip(g.kernel, g.strides, folding.modes(g.rank), strict=True))
    if folding.fold_others and all(s == 1 for s in g.strides[:-1]):
        return False
    step = g.strides[-1] * folding.multiple
    if folding.fold_last and (step == 1 or (folding.multiple > 1 and g.dst[-1] < 2 * step)):
        return False
    boxes = prod(1 if folds else s for _, s, (folds, _) in modes)
    pairs = prod(s * multiple * k for k, s, (_, multiple) in modes)
    return pairs <= _MOST_PAIRS and boxes <= _MOST_BOXES


def _window(problem: Problem, box: Sequence[AxisBlock]) -> tuple[View, dict[str, Any]] | None:
    """Returns the part of src that a box reads and the attributes of its Convolution; None if it reads padding only."""
    src, before, behind = problem.src, [], []
    for axis, block in enumerate(box, 2):
        window = block.window(problem.src.shape[axis])
        if window is None:
            return None
        begin, start, size, end = window
        before.append(begin)
        behind.append(end)
        src = src.narrow(axis, start, size)
    attrs = {
        "strides": tuple(block.hop for block in box),
        "pads_begin": tuple(before),
        "pads_end": tuple(behind),
        "dilations": (1,) * len(box),
        "groups": 1,
        "data_format": "NCX",
        "weights_format": "OIX",
    }
    return src, attrs


def _box_view(dst: View, box: Sequence[AxisBlock]) -> View:
    """Returns the box's part of dst as a view (N, C, count, fold, ...), with a count and a fold per spatial axis."""
    for axis, block in enumerate(box):
        at = 2 + 2 * axis
        if block.fold == 1:
            dst = dst.narrow(at, block.start, block.count, block.step).insert(at + 1)
        elif block.count == 1:
            dst = dst.narrow(at, block.start, block.fold).insert(at)
        else:
            dst = dst.narrow(at, block.start, block.count * block.fold).split(at, (block.count, block.fold))
    return dst


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
    """Allocates the folded weights of a box, in memory (taps..., IC, folds..., OC), as (folds * OC, IC, taps...).

    Returns them with the copies of all (IC, OC) matrices from the plain weights, and whether taps are absent. A tap is
    absent where a folded result lacks it and its neighbours have it; the folded weights hold zeros there.
    """
    rank, (ic, oc) = len(box), weights.shape[1:3]
    view = program.scratch((*(block.length for block in box), ic, *(block.fold for block in box), oc), weights.dtype)
    items: list[CopyItem] = []
    absent = False
    for columns, taps, where in tap_pairs(box):
        if where is None:
            absent = True
            continue
        plain = sum(map(mul, where, weights.strides[3:]))
        folded = sum(map(mul, columns, view.strides[rank + 1 :])) + sum(map(mul, taps, view.strides[:rank]))
        items.append(((ic, oc), plain, weights.strides[1:3], folded, (view.strides[rank], 1)))
    return view.permute((*range(rank + 1, 2 * rank + 2), rank, *range(rank))).merge(0, rank + 1), items, absent


def _gather(program: Program, weights: View, box: Sequence[AxisBlock]) -> View:
    """Appends the copies that fold the weights of a box, with zeros for absent taps; returns the folded weights."""
    target, items, absent = _folded(program, weights, box)
    program.copy_list(items, weights, target, "fold weights", target.size if absent else 0)
    return target


def _forward(program: Program, problem: Problem, folding: Folding) -> None:
    """Appends one Convolution for each box of dst."""
    epilogue = problem.epilogue
    label = "Convolution of folded columns" if folding.fold_last else "Convolution of a phase"
    for box in product(*folding.axes(problem)):
        whole = _box_view(problem.dst, box)
        window = _window(problem, box)
        if window is None:
            # no tap reaches the box
            empty = program.like(whole, whole.dtype) if epilogue else whole
            fill_with_bias(program, empty, problem.bias)
            if epilogue:
                post.apply(program, empty, epilogue, whole)
            continue
        src, attrs = window
        weights = _gather(program, problem.weights, box)
        bias = problem.bias and repeated_bias(program, problem.bias, prod(block.fold for block in box))
        target = _as_channels(whole)
        dense = None
        if target is None:
            dense, target = _apart(program, whole)
        program.native(post.fused("Convolution", attrs, (src, weights, bias), epilogue, target), label)
        if dense is not None:
            program.copy(dense, whole, "columns to their places")


def _backward_weights(program: Program, problem: Problem, folding: Folding) -> None:
    """Appends one ConvolutionBackwardWeights for each box of diff_dst; no two boxes share a tap."""
    problem = _rounded(program, problem, folding)
    boxes = product(*folding.axes(problem))
    windows = [(box, window) for box in boxes if (window := _window(problem, box)) is not None]
    weights = problem.weights
    if sum(where is not None for box, _ in windows for *_, where in tap_pairs(box)) < prod(weights.shape[3:]):
        program.fill(weights, 0.0)
    for box, (src, attrs) in windows:
        whole = _box_view(problem.dst, box)
        diff_dst = _as_channels(whole)
        if diff_dst is None:
            dense, diff_dst = _apart(program, whole)
            program.copy(whole, dense, "columns side by side")
        target, items, _ = _folded(program, weights, box)
        attrs["weights_shape"] = target.shape
        op = NativeOp("ConvolutionBackwardWeights", attrs, (src, diff_dst), (target,))
        program.native([op], "ConvolutionBackwardWeights of columns")
        # each element of diff_weights is one box's
        back = [(shape, at, strides, to, steps) for shape, to, steps, at, strides in items]
        program.copy_list(back, target, weights, "unfold weights")


def _rounded(program: Program, problem: Problem, folding: Folding) -> Problem:
    """Returns the problem with diff_dst zero-padded to whole strides on folded axes, so that one box has all taps."""
    g = problem.geometry
    sizes = [
        -(-size // stride) * stride if folds else size
        for size, stride, (folds, _) in zip(g.dst, g.strides, folding.modes(g.rank), strict=True)
    ]
    if sizes == list(g.dst):
        return problem
    shape = (*problem.dst.shape[:2], *sizes)
    padded = program.scratch(shape, problem.dst.dtype, channels_last(len(shape)))
    inside = padded
    for axis, size in enumerate(problem.dst.shape[2:], 2):
        program.fill(inside.narrow(axis, size, inside.shape[axis] - size), 0.0)
        inside = inside.narrow(axis, 0, size)
    program.copy(problem.dst, inside, "diff_dst to whole strides")
    return problem.with_views(dst=padded, geometry=replace(g, dst=tuple(sizes)))


def _work(problem: Problem, env: Env, folding: Folding) -> Counts:
    """Counts the work of the Convolutions of all boxes, and of copies of src, dst and weights around them."""
    ic, oc = channels(problem)
    axes = folding.axes(problem)
    folds = prod(axis[0].fold for axis in axes)
    taps = prod(sum(cell.fold * cell.count * cell.length for cell in axis) for axis in axes)
    windows = prod(
        sum(window[2] for cell in axis if (window := cell.window(size)))
        for axis, size in zip(axes, problem.src.shape[2:], strict=True)
    )
    boxes = prod(len(axis) for axis in axes)
    weights = prod(sum(cell.fold * cell.length for cell in axis) for axis in axes) * ic * oc
    # results are copied to dst unless only the last axis is folded, and dst is channels last
    moved = folding.fold_others or problem.dst.strides[1] != 1
    # the library copies strided views of several blocks itself
    scattered = moved or any(len(axis) > 1 for axis in axes)
    # copies to channels-first planes write only a few neighbouring columns at a time
    across = _ACROSS if folding.fold_others and not is_channels_last(problem.dst) else 1.0
    batch = problem.src.shape[0]
    # the library reorders the part of src that each box reads to channels last itself
    windowed = 0 if is_channels_last(problem.src) else 4 * dtypes.itemsize(problem.dtype) * batch * ic * windows
    return Counts(
        products=batch * taps * ic * padded(oc * folds, env.lanes) / folds,
        values=batch * ic * windows + problem.dst.size,
        runs=batch * taps * oc / folds,
        weights=weights,
        variable=packing(problem, weights),
        bytes=2 * nbytes(problem.dst) * scattered * across
        + windowed
        + conversions(problem, env)
        + fresh(problem, env, weights),
        calls=boxes * (1 + moved),
    )


_FAMILY = "phases"
# by the name of the algorithm
_FOLDINGS = {
    "phases": Folding(fold_last=False, fold_others=False),
    "row phases": Folding(fold_last=True, fold_others=False),
    "row phases by 2": Folding(fold_last=True, fold_others=False, multiple=2),
    "row phases by 4": Folding(fold_last=True, fold_others=False, multiple=4),
    "depth to space": Folding(fold_last=True, fold_others=True),
}


def _algorithm(name: str, direction: str, folding: Folding) -> Algorithm:
    forward = direction == FORWARD
    build = _forward if forward else _backward_weights
    # absent taps are zeros in the folded weights; diff_dst is padded by zeros
    spreads = (WEIGHTS if forward else DST) | (SRC if folding.fold_last else frozenset())
    return Algorithm(
        name, direction, _FAMILY,
        applies=lambda p, e: _applies(p, folding),
        counts=lambda p, e: _work(p, e, folding),
        build=lambda program, p, e: build(program, p, folding),
        spreads=spreads,
        # an operand of a post-op would have to be split into boxes like dst
        fuses=by_library_without_operands,
        op="Convolution" if forward else "ConvolutionBackwardWeights",
        op_adds_bias=forward,
    )  # fmt: skip


ALGORITHMS = (
    *(_algorithm(name, FORWARD, folding) for name, folding in _FOLDINGS.items()),
    *(_algorithm(name, BACKWARD_WEIGHTS, folding) for name, folding in _FOLDINGS.items() if folding.multiple == 1),
)
