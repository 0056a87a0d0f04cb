"""Computes layers as one GEMM per image with im2col or col2im, on channels-first activations as they are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .._core import kernels
from ..lowering import epilogue as post
from ..lowering.cost import Counts, channels, detours, padded
from ..lowering.env import Env
from ..lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, channels_apart
from ..lowering.program import Program, View
from ..strides import dense_strides
from . import im2col, matrices
from .algorithm import NOTHING, SRC, WEIGHTS, never
from .im2col import add_up, column_strides, gather, gradient, one_tap, summed
from .matrices import Gemm, Multiply, by_own_code, plain, transposed

# in a GEMM of one image: rows, or summed channels, so few that the library's MatMul is slow
_FEW_ROWS, _FEW_SUMMED = 4, range(2, 9)
_SCATTERED = 2.0  # cost factor of a GEMM per image with im2col
# col2im per image: runs for each line of dst, and for each row of columns that is added to a line; values for each
# element that is written between those of other phases
_LINE, _LINE_OF_TAP, _PHASES_IN_TURN = 100, 30, 2
_IN_F32 = 1.25  # cost of products in f32 over that of products in bf16


def _applies(problem: Problem, env: Env) -> bool:
    """Whether activations are channels first, and each image of src is a matrix (IC, positions)."""
    return summed(problem, env) and channels_apart(problem) and _pixels(problem.src) is not None


def _pixels(view: View) -> View | None:
    """Returns an activation (N, C, spatial...) as (N, C, positions); None where its positions are not contiguous."""
    pixels = view.merged(2, view.ndim - 2)
    return pixels if pixels is not None and pixels.strides[2] == 1 else None


def _images(view: View) -> View:
    """Returns an activation (N, C, spatial...) whose positions are contiguous as (N, C, positions)."""
    return view.merge(2, view.ndim - 2)


def _is_thin(problem: Problem, env: Env) -> bool:
    """Whether a GEMM of one image has so few rows or summed channels that own kernels are faster than the library."""
    count = problem.geometry.in_channels
    return {FORWARD: count in _FEW_SUMMED, BACKWARD_DATA: count <= _FEW_ROWS}.get(problem.direction, False)


def _dst_is_columns(problem: Problem) -> bool:
    """Whether an image of dst is itself its matrix of columns (OC, positions), because the kernel has one tap."""
    return one_tap(problem) and _pixels(problem.dst) is not None


def _image_columns(program: Program, problem: Problem, order: Sequence[int], dtype: str) -> tuple[View, list[int]]:
    """Allocates columns (N, OC * taps in `order`, src positions); returns the view and its `column_strides`."""
    g = problem.geometry
    places = prod(g.src)
    room = program.scratch((g.batch, g.out_channels * prod(g.kernel), places), dtype)
    return room, column_strides(problem, order, [room.strides[0], *dense_strides(g.src)], places)


def _forward(program: Program, problem: Problem, multiply: Multiply) -> None:
    """Appends columns (OC * taps, positions) = weights (OC * taps, IC) times src (IC, positions) per image, and col2im.

    If the kernel has one tap, the GEMM writes dst itself.
    """
    weights, order = plain(program, problem.weights)
    left, src = weights.permute((1, 0)).insert(0), _images(problem.src)
    alone, own = _dst_is_columns(problem), multiply is by_own_code
    if not alone:
        columns, strides = _image_columns(program, problem, order, "f32")
        multiply(program, Gemm(left, src, columns))
        add_up(program, problem, columns, strides)
    elif own:
        # transposed, the columns are channels, as the bias of a GEMM needs
        multiply(program, Gemm(transposed(src), transposed(left), transposed(_images(problem.dst)), problem.bias))
    elif problem.bias is None:
        multiply(program, Gemm(left, src, _images(problem.dst)))
    else:
        dst = program.like(problem.dst, problem.dst.dtype)
        multiply(program, Gemm(left, src, _images(dst)))
        post.apply(program, dst, post.with_bias(problem.bias, ()), problem.dst)


def _gathered_images(program: Program, problem: Problem, order: Sequence[int]) -> View:
    """Returns im2col of diff_dst (N, OC * taps in `order`, src positions), and appends its step."""
    if _dst_is_columns(problem):
        return _images(problem.dst)
    columns, strides = _image_columns(program, problem, order, problem.dst.dtype)
    gather(program, problem, columns, strides)
    return columns


def _backward_data(program: Program, problem: Problem, multiply: Multiply) -> None:
    """Appends diff_src (IC, positions) = weights (IC, OC * taps) times im2col of diff_dst per image."""
    weights, order = plain(program, problem.weights)
    columns = _gathered_images(program, problem, order)
    multiply(program, Gemm(weights.insert(0), columns, _images(problem.src)))


def _backward_weights(program: Program, problem: Problem, multiply: Multiply) -> None:
    """Appends diff_weights (IC, OC * taps): src times transposed im2col of diff_dst, summed over all positions."""
    with gradient(program, problem) as (target, order):
        columns = _gathered_images(program, problem, order)
        multiply(program, Gemm(_images(problem.src), transposed(columns), target))


def _work(problem: Problem, env: Env) -> Counts:
    """Counts `im2col.work` with one GEMM per image, and without the copies to channels last."""
    counts = im2col.work(problem, env)
    ic, oc = channels(problem)
    g = problem.geometry
    # a product for each image, with its positions as columns
    places = g.batch * padded(prod(g.src), 2 * env.lanes) * prod(g.kernel)
    alone = _dst_is_columns(problem)  # the GEMM reads or writes dst itself
    scattered = 1.0 if alone or problem.direction == FORWARD else _SCATTERED
    lines, apart = (0, 0) if alone or problem.direction != FORWARD else _added_up(problem)
    # the GEMM is an own one in f32, but the constants are those of the library in bf16 where it has such kernels
    slower = _IN_F32 if problem.direction == BACKWARD_DATA and env.compute_dtype(problem.dtype) != "f32" else 1.0
    return counts._replace(
        products=places * oc * ic * scattered * slower,
        values=0 if alone else counts.values * scattered * slower + apart,
        runs=counts.runs + lines,
        weights=counts.weights * g.batch,
        bytes=counts.bytes - detours(problem, env),
    )


def _added_up(problem: Problem) -> tuple[float, float]:
    """Returns the runs and values of col2im per image: runs for lines of dst, values for strided writes of phases."""
    g, (_, oc) = problem.geometry, channels(problem)
    lines, rows = prod(g.dst[:-1]), prod(g.src[:-1]) * prod(g.kernel)
    apart = problem.dst.size if g.strides[-1] > 1 else 0
    return g.batch * oc * (_LINE * lines + _LINE_OF_TAP * rows), _PHASES_IN_TURN * apart


def _rows_work(problem: Problem, env: Env) -> Counts:
    """Counts the work of backward weights by own GEMMs of images, and of im2col."""
    ic, oc = channels(problem)
    g = problem.geometry
    taps, places = prod(g.kernel), g.batch * prod(g.src)
    gathered = not one_tap(problem)
    return Counts(
        products=kernels.row_product_work(ic, taps * oc, places, env.vectors).products,
        values=places * taps * oc * (1 + gathered) + problem.src.size,
        runs=places * taps * oc / g.src[-1] if gathered else 0,
        weights=problem.weights.size,
        variable=0.0,
        calls=1 + gathered,
    )


_NAME = "columns of images"

ALGORITHMS = (
    matrices.algorithm(
        _NAME, FORWARD, im2col.FAMILY, _applies, _work, _forward, NOTHING, f32_only=True, own_pays=_is_thin
    ),
    matrices.algorithm(
        _NAME, BACKWARD_DATA, im2col.FAMILY, _applies, _work, _backward_data, WEIGHTS,
        f32_only=True, adds_bias=never, own_pays=_is_thin,
    ),
    matrices.algorithm(
        _NAME, BACKWARD_WEIGHTS, im2col.ROWS_FAMILY, _applies, _rows_work, _backward_weights, SRC, op=""
    ),
)  # fmt: skip
