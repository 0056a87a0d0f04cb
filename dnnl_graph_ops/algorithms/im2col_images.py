"""Computes layers as one GEMM per image with im2col or col2im, on channels-first activations as they are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..convolution.problem import DGRAD, FPROP, WGRAD, ConvProblem, channels_apart
from ..cost.model import Counts, channels, detours, padded
from ..ir.env import Env
from ..program import epilogue as post
from ..program.program import Program, View
from ..strides import dense_strides
from ..symbolic import kernels
from . import im2col, matrices
from .algorithm import NOTHING, W, Y, never
from .im2col import add_up, added_up, col2im_applies, column_strides, gather, gradient, one_tap
from .matrices import Gemm, Multiply, by_own_code, plain, transposed

# in a GEMM of one image: rows, or summed channels, so few that the library's MatMul is slow
_FEW_ROWS, _FEW_SUMMED = 4, range(2, 9)
_SCATTERED = 2.0  # cost factor of a GEMM per image with im2col
_IN_F32 = 1.25  # cost of products in f32 over that of products in bf16


def _applies(problem: ConvProblem, env: Env) -> bool:
    """Whether activations are channels first, and each image of y is a matrix (K, positions)."""
    return col2im_applies(problem, env) and channels_apart(problem) and _pixels(problem.y) is not None


def _pixels(view: View) -> View | None:
    """Returns an activation (N, C, spatial...) as (N, C, positions); None where its positions are not contiguous."""
    pixels = view.merged(2, view.ndim - 2)
    return pixels if pixels is not None and pixels.strides[2] == 1 else None


def _images(view: View) -> View:
    """Returns `_pixels` of a view; raises RuntimeError where its positions are not contiguous."""
    pixels = _pixels(view)
    if pixels is None:
        raise RuntimeError(f"the positions of {view.shape} with strides {view.strides} do not follow each other")
    return pixels


def _is_thin(problem: ConvProblem, env: Env) -> bool:
    """Whether a GEMM of one image has so few rows or summed channels that builtin kernels are faster."""
    count = problem.geometry.y_channels
    return {DGRAD: count in _FEW_SUMMED, FPROP: count <= _FEW_ROWS}.get(problem.direction, False)


def _x_is_columns(problem: ConvProblem) -> bool:
    """Whether an image of x is itself its matrix of columns (C, positions), because the kernel has one tap."""
    return one_tap(problem) and _pixels(problem.x) is not None


def _image_columns(program: Program, problem: ConvProblem, order: Sequence[int], dtype: str) -> tuple[View, list[int]]:
    """Allocates columns (N, C * taps in `order`, y positions); returns the view and its `column_strides`."""
    g = problem.geometry
    places = prod(g.y)
    room = program.scratch((g.batch, g.x_channels * prod(g.kernel), places), dtype)
    return room, column_strides(problem, order, [room.strides[0], *dense_strides(g.y)], places)


def _dgrad(program: Program, problem: ConvProblem, multiply: Multiply) -> None:
    """Appends columns (C * taps, positions) = weights (C * taps, K) times y (K, positions) per image, and col2im.

    If the kernel has one tap, the GEMM writes x itself.
    """
    weights, order = plain(program, problem.w)
    left, y = weights.permute((1, 0)).insert(0), _images(problem.y)
    alone, own = _x_is_columns(problem), multiply is by_own_code
    if not alone:
        columns, strides = _image_columns(program, problem, order, "f32")
        multiply(program, Gemm(left, y, columns))
        add_up(program, problem, columns, strides)
    elif own:
        # transposed, the columns are channels, as the bias of a GEMM needs
        multiply(program, Gemm(transposed(y), transposed(left), transposed(_images(problem.x)), problem.bias))
    elif problem.bias is None:
        multiply(program, Gemm(left, y, _images(problem.x)))
    else:
        x = program.like(problem.x, problem.x.dtype)
        multiply(program, Gemm(left, y, _images(x)))
        post.apply(program, x, post.with_bias(problem.bias, ()), problem.x)


def _gathered_images(program: Program, problem: ConvProblem, order: Sequence[int]) -> View:
    """Returns im2col of x (N, C * taps in `order`, y positions), and appends its step."""
    if _x_is_columns(problem):
        return _images(problem.x)
    columns, strides = _image_columns(program, problem, order, problem.x.dtype)
    gather(program, problem, columns, strides)
    return columns


def _fprop(program: Program, problem: ConvProblem, multiply: Multiply) -> None:
    """Appends y (K, positions) = weights (K, C * taps) times im2col of x per image."""
    weights, order = plain(program, problem.w)
    columns = _gathered_images(program, problem, order)
    multiply(program, Gemm(weights.insert(0), columns, _images(problem.y)))


def _wgrad(program: Program, problem: ConvProblem, multiply: Multiply) -> None:
    """Appends w (K, C * taps): y times transposed im2col of x, summed over all positions."""
    with gradient(program, problem) as (target, order):
        columns = _gathered_images(program, problem, order)
        multiply(program, Gemm(_images(problem.y), transposed(columns), target))


def _work(problem: ConvProblem, env: Env) -> Counts:
    """Counts `im2col.work` with one GEMM per image, and without the copies to channels last."""
    counts = im2col.work(problem, env)
    y_channels, x_channels = channels(problem)
    g = problem.geometry
    # a product for each image, with its positions as columns
    places = g.batch * padded(prod(g.y), 2 * env.lanes) * prod(g.kernel)
    alone = _x_is_columns(problem)  # the GEMM reads or writes x itself
    scattered = 1.0 if alone or problem.direction == DGRAD else _SCATTERED
    lines, apart = (0, 0) if alone or problem.direction != DGRAD else added_up(problem)
    # the GEMM is an own one in f32, but the constants are those of the library in bf16 where it has such kernels
    slower = _IN_F32 if problem.direction == FPROP and env.compute_dtype(problem.dtype) != "f32" else 1.0
    return counts._replace(
        products=places * x_channels * y_channels * scattered * slower,
        values=0 if alone else counts.values * scattered * slower + apart,
        runs=counts.runs + lines,
        weights=counts.weights * g.batch,
        bytes=counts.bytes - detours(problem, env),
    )


def _rows_work(problem: ConvProblem, env: Env) -> Counts:
    """Counts the work of wgrad by builtin GEMMs of images, and of im2col."""
    y_channels, x_channels = channels(problem)
    g = problem.geometry
    taps, places = prod(g.kernel), g.batch * prod(g.y)
    gathered = not one_tap(problem)
    return Counts(
        products=kernels.row_product_work(y_channels, taps * x_channels, places, env.vectors).products,
        values=places * taps * x_channels * (1 + gathered) + problem.y.size,
        runs=places * taps * x_channels / g.y[-1] if gathered else 0,
        weights=problem.w.size,
        variable=0.0,
        calls=1 + gathered,
    )


_NAME = "im2col per image"

ALGORITHMS = (
    matrices.algorithm(
        _NAME, DGRAD, im2col.FAMILY, _applies, _work, _dgrad, NOTHING, f32_only=True, own_pays=_is_thin
    ),
    matrices.algorithm(
        _NAME, FPROP, im2col.FAMILY, _applies, _work, _fprop, W,
        f32_only=True, adds_bias=never, own_pays=_is_thin,
    ),
    matrices.algorithm(
        _NAME, WGRAD, im2col.ROWS_FAMILY, _applies, _rows_work, _wgrad, Y, op=""
    ),
)  # fmt: skip
