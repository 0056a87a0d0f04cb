"""The family as one MatMul, with what the taps need around it: nothing, im2col, or an overlap-add.

The weights are read or written as they are whenever their memory is a matrix of in channels against the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Protocol

from ... import dtypes
from ..._core import kernels
from ...strides import dense_strides
from .. import chain
from .. import tail as post
from ..env import Env
from ..problem import BACKWARD_DATA, FORWARD, Problem, channels_apart
from ..program import NativeOp, Program, View, order_of
from .deconvolution import crop, fill_untouched, repeated_bias
from .depthwise import MOST_PHASES
from .tails import expressed, fused, labelled


def single(problem: Problem, env: Env) -> bool:
    """One group; everything else is a matter of gathering."""
    return problem.geometry.groups == 1


def apart(problem: Problem, env: Env) -> bool:
    """No two taps meet, so that every result is one product."""
    g = problem.geometry
    return (
        single(problem, env)
        and all(d == 1 or k == 1 for d, k in zip(g.dilations, g.kernel, strict=True))
        and all(
            n == 1 or (k == s and p == 0) for n, k, s, p in zip(g.src, g.kernel, g.strides, g.pads_begin, strict=True)
        )
    )


def summed(problem: Problem, env: Env) -> bool:
    """One group, and strides that own code adds up or gathers."""
    return max(problem.geometry.strides) <= MOST_PHASES and single(problem, env)


class Multiply(Protocol):
    """Append the product of two matrices, or of those of each image, with a bias of its columns and post-ops.

    `dst` is the result with the axes (N, C, spatial...), which post-ops need.
    """

    def __call__(
        self,
        program: Program,
        a: View,
        b: View,
        result: View,
        bias: View | None = None,
        tail: post.Tail = (),
        dst: View | None = None,
    ) -> None: ...


def by_library(
    program: Program,
    a: View,
    b: View,
    result: View,
    bias: View | None = None,
    tail: post.Tail = (),
    dst: View | None = None,
) -> None:
    """A MatMul."""
    inputs = (a, b) if bias is None else (a, b, bias)
    program.native(post.fused(lambda output: NativeOp("MatMul", {}, inputs, (output,)), tail, result), "MatMul")


def _transposed(view: View) -> View:
    """Of matrices, the last two axes exchanged."""
    return view.permute((*range(view.ndim - 2), view.ndim - 1, view.ndim - 2))


def by_own_code(
    program: Program,
    a: View,
    b: View,
    result: View,
    bias: View | None = None,
    tail: post.Tail = (),
    dst: View | None = None,
) -> None:
    """Factors of any dtype as they lie, sums in f32 that are rounded once; a matrix as result sums the images."""
    left, right = (view if view.ndim == 3 else view.insert(0) for view in (a, _transposed(b)))
    images = max(left.shape[0], right.shape[0])
    factors = [(dtypes.CODES[v.dtype], [v.strides[0] * (v.shape[0] > 1), *v.strides[1:]]) for v in (left, right)]
    strides = result.strides if result.ndim == 3 else (0, *result.strides)
    added = [] if bias is None else [bias]
    after, described = chain.NOTHING, {}
    if tail and dst is not None:
        after = fused(program, tail, dst)
        (n, channels, *sizes), (apart, _, *steps) = dst.shape, dst.strides
        described = {
            "tail": after.tail, "tail_channels": channels, "tail_sizes": [n, *sizes], "tail_strides": [apart, *steps],
        }  # fmt: skip
    kernel = kernels.row_product(
        images, left.shape[1], right.shape[1], left.shape[2], *factors[0], *factors[1],
        dtypes.CODES[result.dtype], list(strides), dtypes.CODES[bias.dtype] if bias is not None else 0, **described,
    )  # fmt: skip
    label = labelled("own product of rows", tail)
    program.kernel(kernel, [a, b, *added, *after.views], [result], label)


def merged(view: View, axes: int, start: int = 0) -> View | None:
    """So many neighbouring axes as one, or None where the strides forbid it."""
    for _ in range(axes - 1):
        if not view.can_merge(start):
            return None
        view = view.merge(start)
    return view


def dense(view: View, axes: int, start: int = 0) -> View:
    """`merged` of a view that is known to be dense."""
    found = merged(view, axes, start)
    if found is None:
        raise RuntimeError(f"{view.shape} with strides {view.strides} does not merge")
    return found


def positions(program: Program, view: View, label: str, as_it_is: bool = False) -> View:
    """An activation as (N * positions, C), channels last unless `as_it_is`: a matrix that is read transposed."""
    order = (0, *range(2, view.ndim), 1)
    found = merged(view.permute(order), view.ndim - 1)
    if found is not None and (found.strides[1] == 1 or found.shape[1] == 1 or (as_it_is and found.strides[0] == 1)):
        return found
    return dense(program.copied(view, view.dtype, order, label).permute(order), view.ndim - 1)


def _matrix(weights: View) -> tuple[View | None, tuple[int, ...]]:
    """Weights as (IC, the rest in memory's order) if their strides allow it, and that order as axes of (OC, kernel)."""
    plain = View(weights.buffer, weights.shape[1:], weights.strides[1:], weights.offset)
    order = tuple(a for a in order_of(plain) if a != 0)
    found = merged(plain.permute((0, *order)), len(order), 1)
    return found, tuple(a - 1 for a in order)


def _plain(program: Program, weights: View) -> tuple[View, tuple[int, ...]]:
    """`_matrix`, by a copy where it must be."""
    found, order = _matrix(weights)
    if found is not None and 1 in found.strides:
        return found, order
    copy = program.scratch(weights.shape, weights.dtype)
    program.copy(weights, copy, "weights to (IC, OC, ...)")
    return _plain(program, copy)


def _gathers_rows(problem: Problem) -> bool:
    """Whether the weights are to change places so that columns can be gathered in whole rows of dst.

    That needs channels last, and pays where the columns outweigh the weights.
    """
    g, dst = problem.geometry, problem.dst
    columns = g.batch * prod(g.src) * prod(g.kernel) * g.out_channels
    scattered = _matrix(problem.weights)[1][-1] != 0
    return scattered and dst.strides[1] == 1 and columns > 2 * problem.weights.size


def _channels_fastest(weights: View) -> tuple[int, ...]:
    """(G, IC, OC, kernel...) with OC last in memory."""
    return (0, 1, *range(3, weights.ndim), 2)


def _arranged(program: Program, problem: Problem) -> tuple[View, tuple[int, ...]]:
    """Weights as (IC, the rest in memory's order), and that order as axes of (OC, kernel)."""
    weights = problem.weights
    if _gathers_rows(problem):
        weights = program.copied(weights, weights.dtype, _channels_fastest(weights), "weights to (IC, kernel, OC)")
    return _plain(program, weights)


# rows so many elements apart, or a multiple of it, would share few sets of a cache
SAME_SETS = 1024


def _column_strides(problem: Problem, order: Sequence[int], rows: Sequence[int], unit: int) -> list[int]:
    """Strides of columns (N, src..., kernel..., OC): of `rows` (N, src...), and of the rest `unit` times those that it
    has densely in the given order of (OC, kernel...)."""
    sizes = (problem.geometry.out_channels, *problem.geometry.kernel)
    inner = [0] * len(sizes)
    for axis, stride in zip(order, dense_strides([sizes[a] for a in order]), strict=True):
        inner[axis] = stride * unit
    return [*rows, *inner[1:], inner[0]]


def _columns(program: Program, problem: Problem, order: Sequence[int], dtype: str) -> tuple[View, list[int]]:
    """Room for columns as a matrix (N * src positions, OC * kernel in some order), and their strides."""
    g = problem.geometry
    width = g.out_channels * prod(g.kernel)
    distance = width + 16 * (width % SAME_SETS == 0)
    rows = (g.batch, *g.src)
    matrix = program.scratch((prod(rows), distance), dtype).narrow(1, 0, width)
    return matrix, _column_strides(problem, order, dense_strides([*rows, distance])[:-1], 1)


def _layer(problem: Problem) -> kernels.LayerSizes:
    g = problem.geometry
    return kernels.LayerSizes(g.batch, g.out_channels, g.src, g.dst, g.kernel, g.strides, g.pads_begin, g.dilations)


def one_tap(problem: Problem) -> bool:
    """Whether every position of dst is seen from the same one of src alone."""
    g = problem.geometry
    pointwise = all(k == s == 1 for k, s in zip(g.kernel, g.strides, strict=True))
    return pointwise and g.src == g.dst and not any(g.pads_begin)


def gathered(program: Program, problem: Problem, order: Sequence[int]) -> View:
    """diff_dst as (N * src positions, OC * kernel in some order): what every source position sees of it."""
    diff_dst = problem.dst
    if one_tap(problem):
        return positions(program, diff_dst, "diff_dst to channels last")
    columns, strides = _columns(program, problem, order, diff_dst.dtype)
    _gather(program, problem, columns, strides)
    return columns


def _gather(program: Program, problem: Problem, columns: View, strides: list[int]) -> None:
    diff_dst = problem.dst
    code = dtypes.CODES[diff_dst.dtype]
    kernel = kernels.im2col(_layer(problem), code, list(diff_dst.strides), code, strides)
    program.kernel(kernel, [diff_dst], [columns], "im2col of diff_dst")


def backward_data(program: Program, problem: Problem, multiply: Multiply) -> None:
    """diff_src = im2col(diff_dst) times the plain weights."""
    weights, order = _arranged(program, problem)
    columns = gathered(program, problem, order)
    target, back = _diff_src(program, problem.src)
    dst = problem.src if back is None else back
    multiply(program, columns, weights.permute((1, 0)), target, problem.bias, problem.tail, dst)
    if back is not None:
        program.copy(back, problem.src, "diff_src from channels last")


def backward_data_fuses(problem: Problem, env: Env, own: bool) -> bool:
    """Whether the product takes the post-ops of `backward_data`; own code does not where it writes results across."""
    if not own:
        return post.native(problem.tail, env) and not post.views(problem.tail)
    target = _as_positions(problem.src)
    return (target is None or target.strides[1] == 1) and expressed(problem, env)


def whole_rows(problem: Problem, env: Env) -> bool:
    """Whether own code can read the weights of an in channel as one row."""
    if not summed(problem, env):
        return False
    weights, _ = _matrix(problem.weights)
    return _gathers_rows(problem) or (weights is not None and weights.strides[1] == 1)


def _diff_src(program: Program, diff_src: View) -> tuple[View, View | None]:
    """Where (N * positions, IC) goes; scratch, and the same as diff_src's axes, if diff_src's strides forbid it."""
    last = diff_src.ndim - 1
    target = _as_positions(diff_src)
    if target is not None:
        return target, None
    result = program.scratch((diff_src.shape[0], *diff_src.shape[2:], diff_src.shape[1]), diff_src.dtype)
    return dense(result, last), result.permute((0, last, *range(1, last)))


def _as_positions(diff_src: View) -> View | None:
    """(N * positions, IC), one of which is contiguous."""
    found = merged(diff_src.permute((0, *range(2, diff_src.ndim), 1)), diff_src.ndim - 1)
    return found if found is not None and 1 in found.strides else None


def backward_weights(program: Program, problem: Problem, multiply: Multiply) -> None:
    """diff_weights = src transposed times im2col(diff_dst)."""

    def write(target: View, order: Sequence[int]) -> None:
        columns = gathered(program, problem, order)
        src = positions(program, problem.src, "src to channels last", as_it_is=True)
        multiply(program, src.permute((1, 0)), columns, target)

    _backward_weights(program, problem, write, _gathers_rows(problem))


def _backward_weights(
    program: Program, problem: Problem, write: Callable[[View, tuple[int, ...]], None], by_rows: bool = False
) -> None:
    """`write` fills (IC, the rest in an order of (OC, kernel)); `by_rows`: that order has OC last."""
    result = problem.weights
    if by_rows:
        result = program.scratch(result.shape, result.dtype, _channels_fastest(result))
    target, order = _matrix(result)
    if target is None or 1 not in target.strides:
        result = program.scratch(result.shape, result.dtype)
        target, order = _plain(program, result)
    write(target, order)
    if result is not problem.weights:
        program.copy(result, problem.weights, "weights to the asked layout")


def forward_summed(program: Program, problem: Problem, multiply: Multiply) -> None:
    """dst is the overlap-add of src times the plain weights."""
    weights, order = _arranged(program, problem)
    src = positions(program, problem.src, "src to channels last", as_it_is=multiply is by_own_code)
    columns, strides = _columns(program, problem, order, "f32")
    multiply(program, src, weights, columns)
    _add_up(program, problem, columns, strides)


def _add_up(program: Program, problem: Problem, columns: View, strides: list[int]) -> None:
    """Columns, and the bias, to their sums, and post-ops on them."""
    bias, dst = problem.bias, problem.dst
    after = fused(program, problem.tail, dst)
    kernel = kernels.overlap_add(
        _layer(problem), strides, dtypes.CODES[dst.dtype], list(dst.strides), bias is not None,
        None if bias is None else dtypes.CODES[bias.dtype], after.tail,
    )  # fmt: skip
    added = [] if bias is None else [bias]
    program.kernel(kernel, [columns, *added, *after.views], [dst], labelled("overlap-add", problem.tail))


def summed_fuses(problem: Problem, env: Env) -> bool:
    """Whether own code takes the post-ops of `forward_summed`."""
    dst = problem.dst
    return kernels.overlap_add_takes_tail(dst.shape[1], list(dst.strides)) and expressed(problem, env)


def forward(program: Program, problem: Problem, multiply: Multiply) -> None:
    """Every result is one product: src times the weights with OC as the fastest axis."""
    window, surplus = _windows(problem)
    fill_untouched(program, problem.dst, surplus, problem.bias)
    _products(program, problem, multiply, crop(problem.dst, surplus), window)


def _windows(problem: Problem) -> tuple[list[tuple[int, int]], tuple[int, ...]]:
    """Per axis: first tap and number of taps, and the rows of dst that they do not reach."""
    g = problem.geometry
    window, covered = [], []
    for n, k, s, p, size in zip(g.src, g.kernel, g.strides, g.pads_begin, g.dst, strict=True):
        taps = min(k - p, size) if n == 1 else s
        window.append((p, taps))
        covered.append(taps if n == 1 else min(n * s, size))
    return window, tuple(size - reached for size, reached in zip(g.dst, covered, strict=True))


def forward_fuses(problem: Problem, env: Env, own: bool) -> bool:
    """Whether a product takes the post-ops of `forward`, all of whose results it must write itself.

    The library's has another view of dst than operands have.
    """
    window, surplus = _windows(problem)
    if any(surplus):
        return False
    if not own:
        return post.native(problem.tail, env) and not post.views(problem.tail)
    return _direct(problem.dst, problem.geometry.src, window) is not None and expressed(problem, env)


def _products(
    program: Program, problem: Problem, multiply: Multiply, dst: View, window: Sequence[tuple[int, int]]
) -> None:
    g, tail = problem.geometry, problem.tail
    rank = g.rank
    weights = problem.weights
    for axis, (first, taps) in enumerate(window, 3):
        weights = weights.narrow(axis, first, taps)
    # (IC, kernel..., OC)
    plain = View(weights.buffer, weights.shape[1:], weights.strides[1:], weights.offset)
    plain = plain.permute((0, *range(2, plain.ndim), 1))
    right = merged(plain, rank + 1, 1)
    if right is None or 1 not in right.strides:
        copy = program.scratch(plain.shape, plain.dtype)
        program.copy(plain, copy, "weights to (IC, ..., OC)")
        right = dense(copy, rank + 1, 1)
    left = positions(program, problem.src, "src to channels last", as_it_is=multiply is by_own_code)
    bias = None if problem.bias is None else repeated_bias(program, problem.bias, prod(t for _, t in window))
    direct = _direct(dst, g.src, window)
    if direct is not None:
        multiply(program, left, right, direct, bias, tail, dst)
        return
    shape = (g.batch, *g.src, *(taps for _, taps in window), g.out_channels)
    result = program.scratch(shape, dst.dtype)
    multiply(program, left, right, dense(dense(result, rank + 1), rank + 1, 1), bias, tail)
    _spread(program, result, dst, window)


def _direct(dst: View, src: Sequence[int], window: Sequence[tuple[int, int]]) -> View | None:
    """dst as (N * src positions, taps * OC) if that is how it lies in memory."""
    ordered = dst.permute((0, *range(2, dst.ndim), 1))
    # the positions outside, the taps inside: one axis at most may have both
    both = [a for a, (n, (_, taps)) in enumerate(zip(src, window, strict=True)) if n > 1 and taps > 1]
    if len(both) > 1 or any(s * t != o for s, (_, t), o in zip(src, window, dst.shape[2:], strict=True)):
        return None
    at = both[0] if both else next((a for a, n in reversed(list(enumerate(src))) if n > 1), -1)
    if any(taps > 1 for _, taps in window[:at]) or any(n > 1 for n in src[at + 1 :]):
        return None
    if at >= 0:
        ordered = ordered.split(1 + at, (src[at], window[at][1]))
    rows = merged(ordered, 2 + at)
    result = None if rows is None else merged(rows, rows.ndim - 1, 1)
    return result if result is not None and result.strides[1] == 1 else None


def _spread(program: Program, result: View, dst: View, window: Sequence[tuple[int, int]]) -> None:
    """(N, src..., taps..., OC) to its places in dst; the last position may reach beyond it."""
    rank = len(window)
    order = [0]
    for axis in range(rank):
        order += [1 + axis, 1 + rank + axis]
    source = result.permute((*order, 2 * rank + 1))
    _spread_axes(program, source, dst.permute((0, *range(2, dst.ndim), 1)), [t for _, t in window], 0)


def _spread_axes(program: Program, source: View, dst: View, taps: Sequence[int], axis: int) -> None:
    """Axis by axis: whole positions, and the part of the last one that dst still has."""
    if axis == len(taps):
        program.copy(source, dst, "products to their places")
        return
    at = 1 + 2 * axis
    whole, rest = divmod(dst.shape[at], taps[axis])
    if whole:
        inner = dst.narrow(at, 0, whole * taps[axis]).split(at, (whole, taps[axis]))
        _spread_axes(program, source.narrow(at, 0, whole), inner, taps, axis + 1)
    if rest:
        inner = dst.narrow(at, whole * taps[axis], rest).insert(at)
        _spread_axes(program, source.narrow(at, whole, 1).narrow(at + 1, 0, rest), inner, taps, axis + 1)


def of_images(problem: Problem, env: Env) -> bool:
    """Channels first, where src is a matrix of channels against positions for each image."""
    return summed(problem, env) and channels_apart(problem) and _pixels(problem.src) is not None


def _pixels(view: View) -> View | None:
    """An activation as (N, C, positions) if its positions follow each other."""
    found = merged(view, view.ndim - 2, 2)
    return found if found is not None and found.strides[2] == 1 else None


def _images(view: View) -> View:
    """`_pixels` of a view that has them."""
    found = _pixels(view)
    if found is None:
        raise RuntimeError(f"the positions of {view.shape} with strides {view.strides} do not follow each other")
    return found


# of one image: so few rows of results, or channels that are summed, a MatMul multiplies slowly
FEW_ROWS, FEW_SUMMED = 4, range(2, 9)


def is_thin(problem: Problem, env: Env) -> bool:
    """Whether own products of images are faster than the library's."""
    channels = problem.geometry.in_channels
    return {FORWARD: channels in FEW_SUMMED, BACKWARD_DATA: channels <= FEW_ROWS}.get(problem.direction, False)


def dst_is_columns(problem: Problem) -> bool:
    """Whether the columns of an image are dst's image itself."""
    return one_tap(problem) and _pixels(problem.dst) is not None


def _image_columns(program: Program, problem: Problem, order: Sequence[int], dtype: str) -> tuple[View, list[int]]:
    """The same for each image, positions fastest: (N, OC * kernel in some order, src positions)."""
    g = problem.geometry
    places = prod(g.src)
    matrix = program.scratch((g.batch, g.out_channels * prod(g.kernel), places), dtype)
    return matrix, _column_strides(problem, order, [matrix.strides[0], *dense_strides(g.src)], places)


def forward_images(program: Program, problem: Problem, multiply: Multiply) -> None:
    """dst of an image is the overlap-add of the weights, transposed, times src."""
    weights, order = _plain(program, problem.weights)
    left, src = weights.permute((1, 0)).insert(0), _images(problem.src)
    alone, own = dst_is_columns(problem), multiply is by_own_code
    if not alone:
        columns, strides = _image_columns(program, problem, order, "f32")
        multiply(program, left, src, columns)
        _add_up(program, problem, columns, strides)
    elif own:
        # transposed, the bias is one of the columns
        multiply(program, _transposed(src), _transposed(left), _transposed(_images(problem.dst)), problem.bias)
    elif problem.bias is None:
        multiply(program, left, src, _images(problem.dst))
    else:
        dst = program.like(problem.dst, problem.dst.dtype)
        multiply(program, left, src, _images(dst))
        post.apply(program, dst, post.with_bias(problem.bias, ()), problem.dst)


def _gathered_images(program: Program, problem: Problem, order: Sequence[int]) -> View:
    """What the source positions see of diff_dst, as (N, OC * kernel in some order, src positions)."""
    if dst_is_columns(problem):
        return _images(problem.dst)
    columns, strides = _image_columns(program, problem, order, problem.dst.dtype)
    _gather(program, problem, columns, strides)
    return columns


def backward_data_images(program: Program, problem: Problem, multiply: Multiply) -> None:
    """diff_src of an image is the weights times what its positions see of diff_dst."""
    weights, order = _plain(program, problem.weights)
    columns = _gathered_images(program, problem, order)
    multiply(program, weights.insert(0), columns, _images(problem.src))


def backward_weights_images(program: Program, problem: Problem, multiply: Multiply) -> None:
    """diff_weights are rows of src times rows of what its positions see of diff_dst, summed over all images."""

    def write(target: View, order: tuple[int, ...]) -> None:
        columns = _gathered_images(program, problem, order)
        multiply(program, _images(problem.src), _transposed(columns), target)

    _backward_weights(program, problem, write)
