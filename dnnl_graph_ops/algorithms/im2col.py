"""Computes layers as one GEMM with the columns of dst: im2col before it (backward), or col2im after it (forward)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

from .. import dtypes
from .._core import kernels
from ..lowering.chain import fused
from ..lowering.cost import Counts, channels, detours, fresh, packing, padded
from ..lowering.env import Env
from ..lowering.epilogue import labelled
from ..lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem
from ..lowering.program import Program, View
from ..strides import channels_last, dense_strides
from . import matrices
from .algorithm import NOTHING, SRC, WEIGHTS, by_library_without_operands, expressed
from .depthwise import MOST_PHASES
from .matrices import Gemm, Multiply, by_own_code, matrix, plain, positions, single
from .views import layer_sizes

# rows at a distance of a multiple of so many elements would share few sets of a cache
_SAME_SETS = 1024
_MOST_CACHED = 6 << 20  # elements of columns that stay in the caches
_ROWS_ACROSS = 8  # most columns (OC * taps) for which an own GEMM of backward weights does not transpose src


def summed(problem: Problem, env: Env) -> bool:
    """Whether the problem has one group, and strides that the im2col and col2im kernels take."""
    return max(problem.geometry.strides) <= MOST_PHASES and single(problem, env)


def _gathers_rows(problem: Problem) -> bool:
    """Whether to make OC the weights' fastest axis by a copy: im2col then copies all channels of a position at once.

    The copy needs a channels-last dst, and saves time if the columns have more than twice the elements of the weights.
    """
    g, dst = problem.geometry, problem.dst
    columns = g.batch * prod(g.src) * prod(g.kernel) * g.out_channels
    scattered = matrix(problem.weights)[1][-1] != 0
    return scattered and dst.strides[1] == 1 and columns > 2 * problem.weights.size


def _channels_fastest(weights: View) -> tuple[int, ...]:
    """Returns the axes of weights (G, IC, OC, kernel...) from slowest to fastest if OC is the fastest."""
    return (0, 1, *range(3, weights.ndim), 2)


def _arranged(program: Program, problem: Problem) -> tuple[View, tuple[int, ...]]:
    """Returns the weights as a matrix (IC, OC * taps), and the order of its columns as axes of (OC, kernel...).

    Appends a copy of the weights that makes OC the fastest axis if `_gathers_rows`.
    """
    weights = problem.weights
    if _gathers_rows(problem):
        weights = program.copied(weights, weights.dtype, _channels_fastest(weights), "weights to (IC, kernel, OC)")
    return plain(program, weights)


def column_strides(problem: Problem, order: Sequence[int], rows: Sequence[int], unit: int) -> list[int]:
    """Returns strides of columns with the axes (N, src..., kernel..., OC).

    `rows` are the strides of (N, src...). The other axes lie densely in `order`, a permutation of (OC, kernel...),
    slowest first, with `unit` elements from one column to the next.
    """
    sizes = (problem.geometry.out_channels, *problem.geometry.kernel)
    inner = [0] * len(sizes)
    for axis, stride in zip(order, dense_strides([sizes[a] for a in order]), strict=True):
        inner[axis] = stride * unit
    return [*rows, *inner[1:], inner[0]]


def _columns(program: Program, problem: Problem, order: Sequence[int], dtype: str) -> tuple[View, list[int]]:
    """Allocates columns (N * src positions, OC * taps in `order`); returns this matrix and its `column_strides`."""
    g = problem.geometry
    width = g.out_channels * prod(g.kernel)
    distance = width + 16 * (width % _SAME_SETS == 0)
    rows = (g.batch, *g.src)
    room = program.scratch((prod(rows), distance), dtype).narrow(1, 0, width)
    return room, column_strides(problem, order, dense_strides([*rows, distance])[:-1], 1)


def one_tap(problem: Problem) -> bool:
    """Whether the kernel has a single tap, stride 1 and no padding, so that dst itself is the matrix of columns."""
    g = problem.geometry
    pointwise = all(k == s == 1 for k, s in zip(g.kernel, g.strides, strict=True))
    return pointwise and g.src == g.dst and not any(g.pads_begin)


def _gathered(program: Program, problem: Problem, order: Sequence[int]) -> View:
    """Returns im2col of diff_dst as a matrix (N * src positions, OC * taps in `order`), and appends its steps."""
    diff_dst = problem.dst
    if one_tap(problem):
        return positions(program, diff_dst, "diff_dst to channels last")
    columns, strides = _columns(program, problem, order, diff_dst.dtype)
    gather(program, problem, columns, strides)
    return columns


def gather(program: Program, problem: Problem, columns: View, strides: list[int]) -> None:
    """Appends im2col of diff_dst into `columns`, whose axes (N, src..., kernel..., OC) have these strides."""
    diff_dst = problem.dst
    code = dtypes.CODES[diff_dst.dtype]
    kernel = kernels.im2col(layer_sizes(problem), code, list(diff_dst.strides), code, strides)
    program.kernel(kernel, [diff_dst], [columns], "im2col of diff_dst")


def _backward_data(program: Program, problem: Problem, multiply: Multiply) -> None:
    """Appends diff_src (N * positions, IC) = im2col of diff_dst (N * positions, OC * taps) times weights transposed."""
    weights, order = _arranged(program, problem)
    columns = _gathered(program, problem, order)
    result = problem.src
    target = _as_positions(result)
    if target is None:
        order = channels_last(result.ndim)
        result = program.scratch(result.shape, result.dtype, order)
        target = result.permute(order).merge(0, result.ndim - 1)
    multiply(program, Gemm(columns, weights.permute((1, 0)), target, problem.bias, problem.epilogue, result))
    if result is not problem.src:
        program.copy(result, problem.src, "diff_src from channels last")


def _backward_data_fuses(problem: Problem, env: Env, own: bool) -> bool:
    """Whether the GEMM applies the post-ops; own kernels do only if they write diff_src channels last."""
    if not own:
        return by_library_without_operands(problem, env)
    target = _as_positions(problem.src)
    return (target is None or target.strides[1] == 1) and expressed(problem, env)


def _whole_rows(problem: Problem, env: Env) -> bool:
    """Whether an own kernel can read the weights (OC * taps) of each in channel as one contiguous row."""
    if not summed(problem, env):
        return False
    weights, _ = matrix(problem.weights)
    return _gathers_rows(problem) or (weights is not None and weights.strides[1] == 1)


def _as_positions(diff_src: View) -> View | None:
    """Returns diff_src as a matrix (N * positions, IC) with contiguous rows or columns; None if strides forbid it."""
    matrix = diff_src.permute(channels_last(diff_src.ndim)).merged(0, diff_src.ndim - 1)
    return matrix if matrix is not None and 1 in matrix.strides else None


def _backward_weights(program: Program, problem: Problem, multiply: Multiply) -> None:
    """Appends diff_weights (IC, OC * taps) = src transposed times im2col of diff_dst (N * positions, OC * taps)."""
    with gradient(program, problem, _gathers_rows(problem)) as (target, order):
        columns = _gathered(program, problem, order)
        src = positions(program, problem.src, "src to channels last", as_it_is=True)
        multiply(program, Gemm(src.permute((1, 0)), columns, target))


@contextmanager
def gradient(program: Program, problem: Problem, by_rows: bool = False) -> Iterator[tuple[View, tuple[int, ...]]]:
    """Yields a matrix (IC, OC * taps) to fill and the order of its columns, as axes of (OC, kernel...).

    The matrix lies in the weights' own memory if possible, else in scratch that is copied to the weights. `by_rows`: OC
    is the fastest axis of the columns.
    """
    result = problem.weights
    if by_rows:
        result = program.scratch(result.shape, result.dtype, _channels_fastest(result))
    target, order = matrix(result)
    if target is None or 1 not in target.strides:
        result = program.scratch(result.shape, result.dtype)
        target, order = plain(program, result)
    yield target, order
    if result is not problem.weights:
        program.copy(result, problem.weights, "weights to the asked layout")


def _forward(program: Program, problem: Problem, multiply: Multiply) -> None:
    """Appends columns (N * positions, OC * taps) = src (N * positions, IC) times weights, and their col2im to dst."""
    weights, order = _arranged(program, problem)
    src = positions(program, problem.src, "src to channels last", as_it_is=multiply is by_own_code)
    columns, strides = _columns(program, problem, order, "f32")
    multiply(program, Gemm(src, weights, columns))
    add_up(program, problem, columns, strides)


def add_up(program: Program, problem: Problem, columns: View, strides: list[int]) -> None:
    """Appends col2im: dst = bias + the sums of `columns`, then the post-ops. `strides` are the columns' own."""
    dst = problem.dst
    after = fused(program, problem.epilogue, dst, problem.bias)
    kernel = kernels.overlap_add(
        layer_sizes(problem), strides, dtypes.CODES[dst.dtype], list(dst.strides), after.bias > 0,
        after.bias or None, after.epilogue,
    )  # fmt: skip
    program.kernel(kernel, [columns, *after.views], [dst], labelled("overlap-add", problem.epilogue))


def _forward_fuses(problem: Problem, env: Env) -> bool:
    dst = problem.dst
    return kernels.overlap_add_takes_tail(dst.shape[1], list(dst.strides)) and expressed(problem, env)


def work(problem: Problem, env: Env) -> Counts:
    """Counts the work of one GEMM with the columns of dst, and of im2col before or col2im after it."""
    ic, oc = channels(problem)
    g = problem.geometry
    places = g.batch * prod(g.src) * prod(g.kernel)
    # backward weights transposes src, except in own kernels for few columns
    own = problem.dtype != "f32" and env.compute_dtype(problem.dtype) == "f32"
    across = not (own and problem.direction == BACKWARD_WEIGHTS and prod(g.kernel) * oc <= _ROWS_ACROSS)
    # columns that exceed the caches are written to memory and read again
    beyond = 8 * places * oc if places * oc > _MOST_CACHED and not one_tap(problem) else 0
    return Counts(
        products=places * oc * padded(ic, env.lanes),
        values=places * oc + problem.src.size * across,
        runs=0 if one_tap(problem) else places,
        weights=problem.weights.size,
        variable=packing(problem, problem.weights.size),
        bytes=detours(problem, env) + beyond + fresh(problem, env, problem.weights.size),
        calls=2,
    )


def _rows_work(problem: Problem, env: Env) -> Counts:
    """Counts `work` for an own kernel that reads weights unpacked, and transposes them if there are many rows."""
    g = problem.geometry
    ic, oc = channels(problem)
    own = kernels.row_product_work(g.batch * prod(g.src), ic, oc * prod(g.kernel), env.vectors)
    return work(problem, env)._replace(products=own.products, variable=own.weights)


FAMILY, ROWS_FAMILY = "columns", "own columns"

ALGORITHMS = (
    matrices.algorithm(
        FAMILY, FORWARD, FAMILY, summed, work, _forward, NOTHING,
        f32_only=True, fuses=lambda p, e, own: _forward_fuses(p, e),
    ),
    matrices.algorithm(
        FAMILY, BACKWARD_DATA, FAMILY, single, work, _backward_data, WEIGHTS,
        op_adds_bias=True, fuses=_backward_data_fuses,
    ),
    matrices.algorithm(
        ROWS_FAMILY, BACKWARD_DATA, ROWS_FAMILY, _whole_rows, _rows_work, _backward_data, WEIGHTS,
        op="", fuses=_backward_data_fuses,
    ),
    matrices.algorithm(FAMILY, BACKWARD_WEIGHTS, FAMILY, single, work, _backward_weights, SRC),
)  # fmt: skip
