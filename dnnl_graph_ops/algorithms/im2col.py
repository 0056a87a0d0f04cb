"""Computes layers as one GEMM with the columns of x: im2col before it (fprop, wgrad), or col2im after it (dgrad)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

from .. import dtypes
from ..convolution.problem import DGRAD, FPROP, WGRAD, ConvProblem, Sizes
from ..cost.model import Counts, Far, beyond_near, channels, detours, fresh, nbytes, packing, padded, untouched, waits
from ..ir.env import Env
from ..once import answered
from ..program.epilogue import labelled
from ..program.kernel_post_ops import fused
from ..program.program import Program, View
from ..strides import channels_last, dense_strides
from ..symbolic import kernels
from . import filtering, matrices
from .algorithm import NOTHING, W, Y, by_library_without_operands, expressed
from .depthwise import MOST_PHASES
from .matrices import Gemm, Multiply, by_own_code, matrix, plain, positions, tiles_factor, ungrouped
from .views import FROM_CHANNELS_LAST, MULTIPLY, layer_sizes

# rows at a distance of a multiple of so many elements would share few sets of a cache
_SAME_SETS = 1024
_MOST_CACHED = 6 << 20  # elements of columns that stay in the caches
_FAR, _ROWS_FAR = Far(1.0, 2.0, True), Far(1.2, 2.0)
_NARROW = 2.0  # cost factor of the library's products of 16 bits with less than half a vector of columns
_ROWS_ACROSS = 8  # most columns (C * taps) for which an own GEMM of wgrad does not transpose y
# col2im of single channels: runs for each line of x, and for each row of columns that is added to a line; values for
# each element that is written between those of other phases, and for each column that is gathered from between channels
_LINE, _LINE_OF_TAP, _PHASES_IN_TURN, _GATHERED = 100, 30, 2, 4
_FEWEST = 8  # channels that col2im adds up side by side
# gradients of more bytes and at most so many positions are written past the caches
_STREAMED, _FEW_POSITIONS = 8 << 20, 36
# most positions, or most channels of y with fewest of x, for which weights are read as they lie rather than packed
_AS_THEY_LIE, _NARROW_Y, _DEEP_X = 16, 4, 128


def col2im_applies(problem: ConvProblem, env: Env) -> bool:
    """Whether the problem has one group, and strides that the im2col and col2im kernels take."""
    return max(problem.geometry.strides) <= MOST_PHASES and ungrouped(problem, env)


def _matrix_of(problem: ConvProblem) -> tuple[View | None, tuple[int, ...]]:
    """Returns `matrix` of the weights, maybe in the buffer of a layer that is alike."""
    return answered(problem.answers, matrix, lambda: matrix(problem.w))


def _gathers_rows(problem: ConvProblem) -> bool:
    """Whether to make C the weights' fastest axis by a copy: im2col then copies all channels of a position at once.

    The copy needs a channels-last x, and saves time if the columns have more than twice the elements of the weights.
    """
    g, x = problem.geometry, problem.x
    columns = g.batch * prod(g.y) * prod(g.kernel) * g.x_channels
    scattered = _matrix_of(problem)[1][-1] != 0
    return scattered and x.strides[1] == 1 and columns > 2 * problem.w.size


def _channels_fastest(weights: View) -> tuple[int, ...]:
    """Returns the axes of weights (G, K, C, kernel...) from slowest to fastest if C is the fastest."""
    return (0, 1, *range(3, weights.ndim), 2)


def _arranged(program: Program, problem: ConvProblem) -> tuple[View, tuple[int, ...]]:
    """Returns the weights as a matrix (K, C * taps), and the order of its columns as axes of (C, kernel...).

    Appends a copy of the weights that makes C the fastest axis if `_gathers_rows`.
    """
    weights = problem.w
    if _gathers_rows(problem):
        weights = program.copied(weights, weights.dtype, _channels_fastest(weights), "weights, channels fastest")
    return plain(program, weights)


def column_strides(problem: ConvProblem, order: Sequence[int], rows: Sequence[int], unit: int) -> list[int]:
    """Returns strides of columns with the axes (N, y..., kernel..., C).

    `rows` are the strides of (N, y...). The other axes lie densely in `order`, a permutation of (C, kernel...),
    slowest first, with `unit` elements from one column to the next.
    """
    sizes = (problem.geometry.x_channels, *problem.geometry.kernel)
    inner = [0] * len(sizes)
    for axis, stride in zip(order, dense_strides([sizes[a] for a in order]), strict=True):
        inner[axis] = stride * unit
    return [*rows, *inner[1:], inner[0]]


def _columns(program: Program, problem: ConvProblem, order: Sequence[int], dtype: str) -> tuple[View, list[int]]:
    """Allocates columns (N * y positions, C * taps in `order`); returns this matrix and its `column_strides`."""
    g = problem.geometry
    width = g.x_channels * prod(g.kernel)
    distance = width + 16 * (width % _SAME_SETS == 0)
    rows = (g.batch, *g.y)
    room = program.scratch((prod(rows), distance), dtype).narrow(1, 0, width)
    return room, column_strides(problem, order, dense_strides([*rows, distance])[:-1], 1)


def one_tap(problem: ConvProblem) -> bool:
    """Whether the kernel has a single tap, stride 1 and no padding, so that x itself is the matrix of columns."""
    g = problem.geometry
    return max(g.kernel) == max(g.strides) == 1 and g.y == g.x and not any(g.pads_begin)


def _gathered(program: Program, problem: ConvProblem, order: Sequence[int]) -> View:
    """Returns im2col of x as a matrix (N * y positions, C * taps in `order`), and appends its steps."""
    x = problem.x
    if one_tap(problem):
        return positions(program, x)
    columns, strides = _columns(program, problem, order, x.dtype)
    gather(program, problem, columns, strides)
    return columns


def gather(program: Program, problem: ConvProblem, columns: View, strides: list[int]) -> None:
    """Appends im2col of x into `columns`, whose axes (N, y..., kernel..., C) have these strides."""
    x = problem.x
    code = dtypes.CODES[x.dtype]
    kernel = kernels.im2col(layer_sizes(problem), code, list(x.strides), code, strides)
    program.kernel(kernel, [x], [columns], "im2col")


def _fprop(program: Program, problem: ConvProblem, multiply: Multiply) -> None:
    """Appends y (N * positions, K) = im2col of x (N * positions, C * taps) times weights transposed."""
    weights, order = _arranged(program, problem)
    columns = _gathered(program, problem, order)
    result = problem.y
    target = _as_positions(result)
    if target is None:
        order = channels_last(result.ndim)
        result = program.scratch(result.shape, result.dtype, order)
        target = result.permute(order).merge(0, result.ndim - 1)
    multiply(program, Gemm(columns, weights.permute((1, 0)), target, problem.bias, problem.epilogue, result))
    if result is not problem.y:
        program.copy(result, problem.y, FROM_CHANNELS_LAST)


def _fprop_fuses(problem: ConvProblem, env: Env, own: bool) -> bool:
    """Whether the GEMM applies the post-ops; builtin kernels do only if they write y channels last."""
    if not own:
        return by_library_without_operands(problem, env, "MatMul")
    target = answered(problem.answers, _as_positions, lambda: _as_positions(problem.y))
    return (target is None or target.strides[1] == 1) and expressed(problem, env)


def _whole_rows(problem: ConvProblem, env: Env) -> bool:
    """Whether a builtin kernel can read the weights (C * taps) of each channel of y as one contiguous row.

    Constant weights of one tap in f32 are packed once by "builtin direct", which then is faster for many positions.
    """
    if not col2im_applies(problem, env) or _is_direct(problem):
        return False
    weights, _ = _matrix_of(problem)
    return _gathers_rows(problem) or (weights is not None and weights.strides[1] == 1)


def _is_direct(problem: ConvProblem) -> bool:
    """Whether a layer of one tap in f32 has constant weights, and too many positions to read them as they lie."""
    if problem.dtype != "f32" or not problem.w.is_constant or not one_tap(problem):
        return False
    y_channels, x_channels = channels(problem)
    if y_channels <= _NARROW_Y and x_channels >= _DEEP_X:
        return False
    return problem.geometry.batch * prod(problem.geometry.y) > _AS_THEY_LIE


def _as_positions(y: View) -> View | None:
    """Returns y as a matrix (N * positions, K) with contiguous rows or columns; None if strides forbid it."""
    matrix = y.permute(channels_last(y.ndim)).merged(0, y.ndim - 1)
    return matrix if matrix is not None and 1 in matrix.strides else None


def _wgrad(program: Program, problem: ConvProblem, multiply: Multiply) -> None:
    """Appends w (K, C * taps) = y transposed times im2col of x (N * positions, C * taps)."""
    with gradient(program, problem, _gathers_rows(problem)) as (target, order):
        columns = _gathered(program, problem, order)
        y = positions(program, problem.y, as_it_is=True)
        multiply(program, Gemm(y.permute((1, 0)), columns, target))


def _streams(problem: ConvProblem, env: Env) -> bool:
    """Whether the gradient of few positions in f32 is so large that writing it takes longer than its sums."""
    g = problem.geometry
    return problem.dtype == "f32" and g.batch * prod(g.y) <= _FEW_POSITIONS and nbytes(problem.w) > _STREAMED


def _by_direct(env: Env) -> Multiply:
    """Returns the GEMM of wgrad as the builtin direct gradient of one tap; in other dtypes than f32 `by_own_code`."""

    def multiply(program: Program, p: Gemm) -> None:
        if p.a.dtype != "f32":
            by_own_code(program, p)
            return
        (y_channels, places), x_channels = p.a.shape, p.b.shape[1]
        sizes = Sizes(1, 1, y_channels, x_channels, (places,), (1,), (places,), (1,), (0,), (0,), (1,), (0,))
        y, x = p.a.insert(0), p.b.permute((1, 0)).insert(0)
        layer = ConvProblem(WGRAD, sizes, y, p.result.insert(0).insert(3), x)
        description = filtering.filter_problem(layer, filtering.direct_tile(layer), env.varies)
        filtering.wgrad(program, layer, description, env.threads, MULTIPLY, kernels.filter_wgrad)

    return multiply


@contextmanager
def gradient(program: Program, problem: ConvProblem, by_rows: bool = False) -> Iterator[tuple[View, tuple[int, ...]]]:
    """Yields a matrix (K, C * taps) to fill and the order of its columns, as axes of (C, kernel...).

    The matrix lies in the weights' own memory if possible, else in scratch that is copied to the weights. `by_rows`: C
    is the fastest axis of the columns.
    """
    result = problem.w
    if by_rows:
        result = program.scratch(result.shape, result.dtype, _channels_fastest(result))
    target, order = matrix(result)
    if target is None or 1 not in target.strides:
        result = program.scratch(result.shape, result.dtype)
        target, order = plain(program, result)
    yield target, order
    if result is not problem.w:
        program.copy(result, problem.w, "weights to the asked layout")


def _dgrad(program: Program, problem: ConvProblem, multiply: Multiply) -> None:
    """Appends columns (N * positions, C * taps) = y (N * positions, K) times weights, and their col2im to x."""
    weights, order = _arranged(program, problem)
    y = positions(program, problem.y, as_it_is=multiply is by_own_code)
    columns, strides = _columns(program, problem, order, "f32")
    multiply(program, Gemm(y, weights, columns))
    add_up(program, problem, columns, strides)


def add_up(program: Program, problem: ConvProblem, columns: View, strides: list[int]) -> None:
    """Appends col2im: x = bias + the sums of `columns`, then the post-ops. `strides` are the columns' own."""
    x = problem.x
    after = fused(program, problem.epilogue, x, problem.bias)
    kernel = kernels.col2im(
        layer_sizes(problem), strides, dtypes.CODES[x.dtype], list(x.strides), after.bias > 0,
        after.bias or None, after.epilogue,
    )  # fmt: skip
    program.kernel(kernel, [columns, *after.views], [x], labelled("col2im", problem.epilogue))


def _dgrad_fuses(problem: ConvProblem, env: Env) -> bool:
    x = problem.x
    return kernels.col2im_takes_epilogue(x.shape[1], list(x.strides)) and expressed(problem, env)


def work(problem: ConvProblem, env: Env, far: Far = _FAR) -> Counts:
    """Counts the work of one GEMM with the columns of x, and of im2col before or col2im after it."""
    # the library's GEMM and the builtin one differ in `far` alone
    counts = answered(problem.answers, (work, env.token), lambda: _near_work(problem, env))
    return counts.moving(waits(problem, env, far))


def _near_work(problem: ConvProblem, env: Env) -> Counts:
    """Counts `work` without waiting for memory."""
    y_channels, x_channels = channels(problem)
    g = problem.geometry
    places = g.batch * prod(g.y) * prod(g.kernel)
    # wgrad transposes y, except in builtin kernels for few columns
    own = problem.dtype != "f32" and env.compute_dtype(problem.dtype) == "f32"
    across = not (own and problem.direction == WGRAD and prod(g.kernel) * x_channels <= _ROWS_ACROSS)
    # columns that exceed the caches are written to memory and read again
    beyond: float = 8 * places * x_channels if places * x_channels > _MOST_CACHED and not one_tap(problem) else 0
    # in 16 bits a builtin kernel multiplies, which reads weights as they lie
    packed = fresh(problem, env, problem.w.size) if problem.dtype == "f32" else 0.0
    products: float = places * x_channels * padded(y_channels, env.lanes)
    if problem.dtype != "f32" and problem.direction == DGRAD:
        rows = g.batch * prod(g.y)
        products = kernels.row_product_work(rows, x_channels * prod(g.kernel), y_channels, env.vectors).products
    elif problem.direction == FPROP and y_channels < env.lanes / 2 and _by_library_in_halves(problem, env):
        products *= _NARROW
    if problem.direction != DGRAD:
        sizes = places // prod(g.kernel), prod(g.kernel) * x_channels, y_channels
        # wgrad sums over positions
        products *= tiles_factor(problem, env, *(sizes if problem.direction == FPROP else (sizes[2], *sizes[:2])))
    elif not one_tap(problem):
        beyond += untouched(problem)
    if problem.direction == FPROP and prod(g.kernel) == 1 and not one_tap(problem):
        # positions of strided x are read from far away, and their columns again
        beyond += beyond_near(problem, env, 4 * places * x_channels)
    return Counts(
        products=products,
        values=places * x_channels + problem.y.size * across,
        runs=0 if one_tap(problem) else places,
        weights=problem.w.size,
        variable=packing(problem, problem.w.size),
        bytes=detours(problem, env) + beyond + packed,
        calls=2,
    )


def _work(problem: ConvProblem, env: Env) -> Counts:
    """Counts `work`, and col2im of single channels where these are too few to be added up side by side."""
    counts, g = work(problem, env), problem.geometry
    # a single channel's columns are added up tap by tap where a stride has enough
    by_taps = g.x_channels == 1 and g.strides[-1] >= _FEWEST
    if problem.direction != DGRAD or g.x_channels >= _FEWEST or by_taps or one_tap(problem):
        return counts
    runs, values = added_up(problem)
    gathered = _GATHERED * problem.macs / max(g.y_channels, 1)
    return counts._replace(runs=counts.runs + runs, values=counts.values + values + gathered)


def added_up(problem: ConvProblem) -> tuple[float, float]:
    """Returns the runs and values of col2im channel by channel: runs for lines of x, values for strided writes."""
    g = problem.geometry
    lines, rows = prod(g.x[:-1]), prod(g.y[:-1]) * prod(g.kernel)
    apart = problem.x.size if g.strides[-1] > 1 else 0
    return g.batch * g.x_channels * (_LINE * lines + _LINE_OF_TAP * rows), _PHASES_IN_TURN * apart


def _by_library_in_halves(problem: ConvProblem, env: Env) -> bool:
    return problem.dtype != "f32" and env.compute_dtype(problem.dtype) != "f32" and not env.has_tiles


def _rows_work(problem: ConvProblem, env: Env) -> Counts:
    """Counts `work` for a builtin kernel that reads weights unpacked, and transposes them if there are many rows."""
    g = problem.geometry
    y_channels, x_channels = channels(problem)
    own = kernels.row_product_work(g.batch * prod(g.y), y_channels, x_channels * prod(g.kernel), env.vectors)
    return work(problem, env, _ROWS_FAR)._replace(products=own.products, variable=own.weights)


FAMILY, ROWS_FAMILY = "im2col", "builtin im2col"

ALGORITHMS = (
    matrices.algorithm(
        FAMILY, DGRAD, FAMILY, col2im_applies, _work, _dgrad, NOTHING,
        f32_only=True, fuses=lambda p, e, own: _dgrad_fuses(p, e),
    ),
    matrices.algorithm(
        FAMILY, FPROP, FAMILY, ungrouped, work, _fprop, W,
        op_adds_bias=True, fuses=_fprop_fuses,
    ),
    matrices.algorithm(
        ROWS_FAMILY, FPROP, ROWS_FAMILY, _whole_rows, _rows_work, _fprop, W,
        op="", fuses=_fprop_fuses,
    ),
    matrices.algorithm(FAMILY, WGRAD, FAMILY, ungrouped, work, _wgrad, Y, own_pays=_streams, by_own=_by_direct),
)  # fmt: skip
