"""Builds algorithms around one GEMM, by the library or a builtin kernel, on activations and weights viewed as matrices.

Weights are read or written without a copy where their strides allow a view as a matrix (K, C * taps).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .. import dtypes
from ..convolution.problem import ConvProblem
from ..cost import model as cost
from ..ir.env import Env
from ..program import epilogue as post
from ..program.kernel_post_ops import fused
from ..program.program import Program, View, order_of
from ..strides import channels_last
from ..symbolic import kernels
from .algorithm import Algorithm, Condition, always, never
from .views import MULTIPLY, TO_CHANNELS_LAST


def ungrouped(problem: ConvProblem, env: Env) -> bool:
    """Whether the problem has one group, which is all that the algorithms of im2col need."""
    return problem.geometry.groups == 1


class Gemm(NamedTuple):
    """Describes result = a times b + bias, followed by the post-ops `epilogue`.

    Factors and result are matrices, or have a first axis of images, with a matrix each. `bias` has an element for each
    column. `dst`: the result with the axes (N, C, spatial...), from which builtin kernels read how post-ops apply.
    """

    a: View
    b: View
    result: View
    bias: View | None = None
    epilogue: post.Epilogue = ()
    dst: View | None = None


Multiply = Callable[[Program, Gemm], None]


def by_library(program: Program, p: Gemm) -> None:
    """Appends the GEMM as a MatMul of the library, with the post-ops fused."""
    program.native(post.fused("MatMul", {}, (p.a, p.b, p.bias), p.epilogue, p.result), "MatMul")


def transposed(view: View) -> View:
    """Returns the view with the last two axes exchanged: matrices, or a matrix for each image."""
    return view.permute((*range(view.ndim - 2), view.ndim - 1, view.ndim - 2))


def by_own_code(program: Program, p: Gemm) -> None:
    """Appends the GEMM as a builtin kernel: factors of any dtype and strides, sums in f32 that are rounded once.

    If the factors have several images and the result is one matrix, the products of all images are added up.
    """
    left, right = (view if view.ndim == 3 else view.insert(0) for view in (p.a, transposed(p.b)))
    images = max(left.shape[0], right.shape[0])
    factors = [(dtypes.CODES[v.dtype], [v.strides[0] * (v.shape[0] > 1), *v.strides[1:]]) for v in (left, right)]
    strides = p.result.strides if p.result.ndim == 3 else (0, *p.result.strides)
    after, described = fused(program, p.epilogue, p.dst or p.result, p.bias), {}
    if p.epilogue and p.dst is not None:
        (n, channels, *sizes), (apart, _, *steps) = p.dst.shape, p.dst.strides
        described = {
            "epilogue": after.epilogue, "epilogue_channels": channels, "epilogue_sizes": [n, *sizes],
            "epilogue_strides": [apart, *steps],
        }  # fmt: skip
    kernel = kernels.row_product(
        images, left.shape[1], right.shape[1], left.shape[2], *factors[0], *factors[1],
        dtypes.CODES[p.result.dtype], list(strides), after.bias, **described,
    )  # fmt: skip
    label = post.labelled(f"{MULTIPLY} rows", p.epilogue)
    program.kernel(kernel, [p.a, p.b, *after.views], [p.result], label)


# oneDNN 3.2 multiplies matrices of bf16 in tiles if the depth fills one, and there are at most _WIDEST columns for each
# element of the depth, or so many multiplications; else they take _WITHOUT_TILES times as long
_TILED_DEPTH, _WIDEST, _TILED, _WITHOUT_TILES = 32, 8, 60e6, 6.0


def tiles_factor(problem: ConvProblem, env: Env, rows: int, depth: int, columns: int) -> float:
    """Returns the cost factor of the library's product (rows, depth) times (depth, columns): 1 if it is in tiles."""
    if not env.has_tiles or env.compute_dtype(problem.dtype) != "bf16":
        return 1.0
    tiled = columns <= _WIDEST * depth or rows * depth * columns >= _TILED
    return 1.0 if tiled and depth >= _TILED_DEPTH else _WITHOUT_TILES


def positions(program: Program, view: View, as_it_is: bool = False) -> View:
    """Returns an activation (N, C, spatial...) as a matrix (N * positions, C): a view if strides allow it, else a copy.

    The rows are contiguous (channels last). With `as_it_is` the columns may be instead: builtin kernels read both.
    """
    order = channels_last(view.ndim)
    matrix = view.permute(order).merged(0, view.ndim - 1)
    if matrix is not None and (matrix.strides[1] == 1 or matrix.shape[1] == 1 or (as_it_is and matrix.strides[0] == 1)):
        return matrix
    return program.copied(view, view.dtype, order, TO_CHANNELS_LAST).permute(order).merge(0, view.ndim - 1)


def matrix(weights: View) -> tuple[View | None, tuple[int, ...]]:
    """Returns weights (1, K, C, kernel...) as a matrix (K, C * taps), and the memory order of its columns.

    The order lists axes of (C, kernel...), slowest first: (1, 2, 0) if C is faster than the axes of a 2-D kernel. The
    matrix is None where strides forbid such a view.
    """
    plain = View(weights.buffer, weights.shape[1:], weights.strides[1:], weights.offset)
    order = tuple(a for a in order_of(plain) if a != 0)
    return plain.permute((0, *order)).merged(1, len(order)), tuple(a - 1 for a in order)


def plain(program: Program, weights: View) -> tuple[View, tuple[int, ...]]:
    """Returns `matrix` of the weights, or of a dense copy where the weights have no such view."""
    found, order = matrix(weights)
    if found is not None and 1 in found.strides:
        return found, order
    copy = program.scratch(weights.shape, weights.dtype)
    program.copy(weights, copy, "weights in rows")
    return plain(program, copy)


def algorithm(
    name: str,
    direction: str,
    family: str,
    applies: Condition,
    counts: cost.Counting,
    build: Callable[[Program, ConvProblem, Multiply], None],
    spreads: frozenset[str],
    op: str = "MatMul",
    op_adds_bias: bool = False,
    f32_only: bool = False,
    adds_bias: Callable[[ConvProblem], bool] = always,
    fuses: Callable[[ConvProblem, Env, bool], bool] = lambda problem, env, own: not problem.epilogue,
    own_pays: Condition = never,
    by_own: Callable[[Env], Multiply] = lambda env: by_own_code,
) -> Algorithm:
    """Returns an algorithm around one GEMM: the library's if it has one of the dtype, else a builtin one of any dtype.

    `build` and `fuses` are told which of the two runs. `f32_only`: the steps around the library's GEMM take only f32,
    so other dtypes use the builtin kernel. `own_pays`: whether it is faster; `by_own` returns it. Without `op` all are
    builtin kernels.
    """

    def own(problem: ConvProblem, env: Env) -> bool:
        if not op or own_pays(problem, env):
            return True
        if problem.dtype == "f32":
            return False
        ops = [op, f"{op} with bias"] if op_adds_bias and problem.bias is not None else [op]
        return f32_only or env.compute_dtype(problem.dtype, *ops) == "f32"

    return Algorithm(
        name, direction, family, applies, counts,
        lambda program, p, e: build(program, p, by_own(e) if own(p, e) else by_library),
        spreads,
        converts=own,
        adds_bias=adds_bias,
        fuses=lambda p, e: fuses(p, e, own(p, e)),
        op=op,
        op_adds_bias=op_adds_bias,
    )  # fmt: skip
