"""Computes a transposed convolution by sub-pixel decomposition: ordinary Convolutions over the phases of dst.

Phases of an axis are computed one by one, or folded into channels of one Convolution (depth to space).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from .. import dtypes
from ..lowering import epilogue as post
from ..lowering.cost import Counts, channels, conversions, fresh, nbytes, packing, padded
from ..lowering.env import Env
from ..lowering.problem import BACKWARD_WEIGHTS, FORWARD, Problem, is_channels_last
from ..lowering.program import NativeOp, Program, View, describable
from ..strides import channels_last, dense_strides
from .algorithm import DST, SRC, WEIGHTS, Algorithm
from .axis_blocks import AxisBlock, axis_blocks, tap_pairs
from .deconvolution import fill_with_bias, repeated_bias
from .epilogues import by_library_without_operands

# most pairs of folded result and tap, each a copy of weights; most boxes, each a Convolution
_MOST_PAIRS = 20000
_MOST_BOXES = 64
_ACROSS = 2.0  # cost factor of copies of a few columns to channels-first planes


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
        """Returns the blocks of each axis of the problem."""
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


def _boxes(problem: Problem, folding: Folding) -> Iterator[tuple[AxisBlock, ...]]:
    """Yields the boxes of dst, one for each combination of the axes' blocks; boxes are disjoint and cover dst."""
    yield from product(*folding.axes(problem))


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
    view = view.permute((0, *folds, 1, *counts))
    for _ in range(rank):
        if not view.can_merge(1):
            return None
        view = view.merge(1)
    return view if describable(view) else None


def _apart(program: Program, view: View) -> tuple[View, View]:
    """Allocates scratch like `view` (N, C, count, fold, ...); returns it with these axes, and folded into channels."""
    rank = (view.ndim - 2) // 2
    order = (0, *(2 + 2 * a for a in range(rank)), *(3 + 2 * a for a in range(rank)), 1)
    dense = program.scratch(view.shape, view.dtype, order)
    folded = _as_channels(dense)
    if folded is None:
        raise RuntimeError("a dense box does not fold")
    return dense, folded


def _folded_shape(box: Sequence[AxisBlock], channels: tuple[int, int]) -> tuple[int, ...]:
    """Returns the shape of a box's weights in memory order: (taps..., IC, folds..., OC)."""
    return (*(block.length for block in box), channels[0], *(block.fold for block in box), channels[1])


def _oix(program: Program, box: Sequence[AxisBlock], channels: tuple[int, int], dtype: str) -> View:
    """Allocates the folded weights of a box; returns them as (folds * OC, IC, taps...)."""
    rank = len(box)
    view = program.scratch(_folded_shape(box, channels), dtype).permute(
        (*range(rank + 1, 2 * rank + 2), rank, *range(rank))
    )
    for _ in range(rank):
        view = view.merge(0)
    return view


def _pairs(weights: View, box: Sequence[AxisBlock], channels: tuple[int, int]) -> tuple[list[tuple[int, int]], bool]:
    """Returns the offsets of each (IC, OC) matrix in the plain and in the folded weights, and whether taps are absent.

    A tap is absent where a folded result lacks it and its neighbours have it; the folded weights hold zeros there.
    """
    rank = len(box)
    strides = dense_strides(_folded_shape(box, channels))
    found, absent = [], False
    for columns, taps, where in tap_pairs(box):
        if where is None:
            absent = True
            continue
        plain = sum(k * s for k, s in zip(where, weights.strides[3:], strict=True))
        folded = sum(c * s for c, s in zip(columns, strides[rank + 1 :], strict=False))
        found.append((plain, folded + sum(t * s for t, s in zip(taps, strides[:rank], strict=True))))
    return found, absent


def _matrix_strides(weights: View, box: Sequence[AxisBlock]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the strides of an (IC, OC) matrix in the plain weights, and in the folded weights of a box."""
    return weights.strides[1:3], (prod(block.fold for block in box) * weights.shape[2], 1)


def _gather(program: Program, problem: Problem, box: Sequence[AxisBlock]) -> View:
    """Appends the copies that fold the weights of a box, with zeros for absent taps; returns the folded weights."""
    weights = problem.weights
    channels = weights.shape[1], weights.shape[2]
    target = _oix(program, box, channels, weights.dtype)
    pairs, absent = _pairs(weights, box, channels)
    outer, inner = _matrix_strides(weights, box)
    items = [(channels, plain, outer, folded, inner) for plain, folded in pairs]
    program.copy_list(items, weights, target, "fold weights", target.size if absent else 0)
    return target


def _scatter(program: Program, problem: Problem, box: Sequence[AxisBlock], source: View) -> None:
    """Appends the copies of a box's folded gradient to the plain diff_weights, each element of which one box writes."""
    weights = problem.weights
    channels = weights.shape[1], weights.shape[2]
    pairs, _ = _pairs(weights, box, channels)
    outer, inner = _matrix_strides(weights, box)
    items = [(channels, folded, inner, plain, outer) for plain, folded in pairs]
    program.copy_list(items, source, weights, "unfold weights")


def _forward(program: Program, problem: Problem, folding: Folding) -> None:
    """Appends one Convolution for each box of dst."""
    epilogue = problem.epilogue
    label = "Convolution of folded columns" if folding.fold_last else "Convolution of a phase"
    for box in _boxes(problem, folding):
        whole = _box_view(problem.dst, box)
        window = _window(problem, box)
        if window is None:
            _only_bias(program, problem, whole, epilogue)
            continue
        src, attrs = window
        inputs = [src, _gather(program, problem, box)]
        if problem.bias is not None:
            inputs.append(repeated_bias(program, problem.bias, prod(block.fold for block in box)))
        target = _as_channels(whole)
        dense = None
        if target is None:
            dense, target = _apart(program, whole)

        def head(output: Any, attrs: dict[str, Any] = attrs, inputs: list[View] = inputs) -> NativeOp:
            return NativeOp("Convolution", attrs, tuple(inputs), (output,))

        program.native(post.fused(head, epilogue, target), label)
        if dense is not None:
            program.copy(dense, whole, "columns to their places")


def _only_bias(program: Program, problem: Problem, part: View, epilogue: post.Epilogue) -> None:
    """Appends the bias and post-ops for a box of dst that no tap reaches."""
    if not epilogue:
        fill_with_bias(program, part, problem.bias)
        return
    empty = program.like(part, part.dtype)
    fill_with_bias(program, empty, problem.bias)
    post.apply(program, empty, epilogue, part)


def _backward_weights(program: Program, problem: Problem, folding: Folding) -> None:
    """Appends one ConvolutionBackwardWeights for each box of diff_dst; no two boxes share a tap."""
    problem = _rounded(program, problem, folding)
    windows = [(box, window) for box in _boxes(problem, folding) if (window := _window(problem, box)) is not None]
    weights = problem.weights
    channels = weights.shape[1], weights.shape[2]
    if sum(where is not None for box, _ in windows for *_, where in tap_pairs(box)) < prod(weights.shape[3:]):
        program.fill(weights, 0.0)
    for box, (src, attrs) in windows:
        whole = _box_view(problem.dst, box)
        diff_dst = _as_channels(whole)
        if diff_dst is None:
            dense, diff_dst = _apart(program, whole)
            program.copy(whole, dense, "columns side by side")
        target = _oix(program, box, channels, weights.dtype)
        attrs["weights_shape"] = target.shape
        op = NativeOp("ConvolutionBackwardWeights", attrs, (src, diff_dst), (target,))
        program.native([op], "ConvolutionBackwardWeights of columns")
        _scatter(program, problem, box, target)


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
