"""im2col image by image: one product for each image, whose activations are channels first and stay it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .._core import kernels
from ..lowering import tail as post
from ..lowering.cost import Counts, channels, detours, padded
from ..lowering.env import Env
from ..lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, channels_apart
from ..lowering.program import Program, View
from ..strides import dense_strides
from . import im2col, matrices
from .algorithm import NOTHING, SRC, WEIGHTS, never
from .im2col import add_up, column_strides, gather, one_tap, summed, write_gradient
from .matrices import Gemm, Multiply, by_own_code, merged, plain, transposed

# of one image: so few rows of results, or channels that are summed, a MatMul multiplies slowly
_FEW_ROWS, _FEW_SUMMED = 4, range(2, 9)
_SCATTERED = 2.0  # for columns of images that are gathered
# for columns of images that are added up: runs to begin a line of dst, and each row of columns that it takes; values to
# write an element between those of other phases
_LINE, _LINE_OF_TAP, _PHASES_IN_TURN = 100, 30, 2
_IN_F32 = 1.25  # for products in f32, of those in bf16


def _applies(problem: Problem, env: Env) -> bool:
    """Channels first, where src is a matrix of channels against positions for each image."""
    return summed(problem, env) and channels_apart(problem) and _pixels(problem.src) is not None


def _pixels(view: View) -> View | None:
    """An activation as (N, C, positions) if its positions follow each other."""
    pixels = merged(view, view.ndim - 2, 2)
    return pixels if pixels is not None and pixels.strides[2] == 1 else None


def _images(view: View) -> View:
    """`_pixels` of a view that has them."""
    pixels = _pixels(view)
    if pixels is None:
        raise RuntimeError(f"the positions of {view.shape} with strides {view.strides} do not follow each other")
    return pixels


def _is_thin(problem: Problem, env: Env) -> bool:
    """Whether own products of images are faster than the library's."""
    count = problem.geometry.in_channels
    return {FORWARD: count in _FEW_SUMMED, BACKWARD_DATA: count <= _FEW_ROWS}.get(problem.direction, False)


def _dst_is_columns(problem: Problem) -> bool:
    """Whether the columns of an image are dst's image itself."""
    return one_tap(problem) and _pixels(problem.dst) is not None


def _image_columns(program: Program, problem: Problem, order: Sequence[int], dtype: str) -> tuple[View, list[int]]:
    """The same for each image, positions fastest: (N, OC * kernel in some order, src positions)."""
    g = problem.geometry
    places = prod(g.src)
    room = program.scratch((g.batch, g.out_channels * prod(g.kernel), places), dtype)
    return room, column_strides(problem, order, [room.strides[0], *dense_strides(g.src)], places)


def _forward(program: Program, problem: Problem, multiply: Multiply) -> None:
    """dst of an image is the overlap-add of the weights, transposed, times src."""
    weights, order = plain(program, problem.weights)
    left, src = weights.permute((1, 0)).insert(0), _images(problem.src)
    alone, own = _dst_is_columns(problem), multiply is by_own_code
    if not alone:
        columns, strides = _image_columns(program, problem, order, "f32")
        multiply(program, Gemm(left, src, columns))
        add_up(program, problem, columns, strides)
    elif own:
        # transposed, the bias is one of the columns
        multiply(program, Gemm(transposed(src), transposed(left), transposed(_images(problem.dst)), problem.bias))
    elif problem.bias is None:
        multiply(program, Gemm(left, src, _images(problem.dst)))
    else:
        dst = program.like(problem.dst, problem.dst.dtype)
        multiply(program, Gemm(left, src, _images(dst)))
        post.apply(program, dst, post.with_bias(problem.bias, ()), problem.dst)


def _gathered_images(program: Program, problem: Problem, order: Sequence[int]) -> View:
    """diff_dst as (N, OC * kernel in some order, src positions): all taps that each source position meets."""
    if _dst_is_columns(problem):
        return _images(problem.dst)
    columns, strides = _image_columns(program, problem, order, problem.dst.dtype)
    gather(program, problem, columns, strides)
    return columns


def _backward_data(program: Program, problem: Problem, multiply: Multiply) -> None:
    """diff_src of an image is the weights times what its positions see of diff_dst."""
    weights, order = plain(program, problem.weights)
    columns = _gathered_images(program, problem, order)
    multiply(program, Gemm(weights.insert(0), columns, _images(problem.src)))


def _backward_weights(program: Program, problem: Problem, multiply: Multiply) -> None:
    """diff_weights are rows of src times rows of what its positions see of diff_dst, summed over all images."""

    def write(target: View, order: tuple[int, ...]) -> None:
        columns = _gathered_images(program, problem, order)
        multiply(program, Gemm(_images(problem.src), transposed(columns), target))

    write_gradient(program, problem, write)


def _work(problem: Problem, env: Env) -> Counts:
    """`im2col.work` of images that are channels first and stay it."""
    counts = im2col.work(problem, env)
    ic, oc = channels(problem)
    g = problem.geometry
    # a product for each image, with its positions as columns
    places = g.batch * padded(prod(g.src), 2 * env.lanes) * prod(g.kernel)
    alone = _dst_is_columns(problem)  # an image of dst is the product itself
    scattered = 1.0 if alone or problem.direction == FORWARD else _SCATTERED
    lines, apart = (0, 0) if alone or problem.direction != FORWARD else _added_up(problem)
    # own products are of f32, the constants those of the library's in bf16 where it has such
    slower = _IN_F32 if problem.direction == BACKWARD_DATA and env.compute_dtype(problem.dtype) != "f32" else 1.0
    return counts._replace(
        products=places * oc * ic * scattered * slower,
        values=0 if alone else counts.values * scattered * slower + apart,
        runs=counts.runs + lines,
        weights=counts.weights * g.batch,
        bytes=counts.bytes - detours(problem, env),
    )


def _added_up(problem: Problem) -> tuple[float, float]:
    """Runs and values that adding up columns of images takes: of lines of dst, and of phases beside each other."""
    g, (_, oc) = problem.geometry, channels(problem)
    lines, rows = prod(g.dst[:-1]), prod(g.src[:-1]) * prod(g.kernel)
    apart = problem.dst.size if g.strides[-1] > 1 else 0
    return g.batch * oc * (_LINE * lines + _LINE_OF_TAP * rows), _PHASES_IN_TURN * apart


def _rows_work(problem: Problem, env: Env) -> Counts:
    """`im2col.work` of own products on images: the gradient of the weights."""
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
