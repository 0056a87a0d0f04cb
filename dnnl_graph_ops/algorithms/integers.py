"""Computes layers of 8-bit integers by builtin products of integers, directly or by Winograd.

Sums are exact in s32. Each is converted to f32 once, multiplied by the product of both scales, and then the bias is
added. Post-ops and the division by the result's scale are in f32 as well. Winograd is exact, too: data less their zero
point, weights and their transforms are words, and the sums of a tile, 2^(axes of four points) times those of the layer,
fit into 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from .. import dtypes
from ..convolution.problem import DGRAD, FPROP, READ, RESULT, ConvProblem, as_floats
from ..cost import integers as cost
from ..cost.model import Counts
from ..ir.env import Env
from ..program.epilogue import labelled
from ..program.kernel_post_ops import fused, laid_as
from ..program.program import Program, View, array_of, has_data
from ..strides import dense_strides
from ..symbolic import kernels
from . import filtering, integer_taps
from .algorithm import NOTHING, Algorithm, Build, always
from .filtering import direct_tile
from .views import (
    FROM_CHANNELS_LAST,
    as_channels_last,
    merged_weights,
    result_view,
)

Array = np.ndarray[Any, Any]

# the instruction set without integer dot products, which every CPU has
WORDS = "avx2words"
# the instruction set whose tiles multiply 64 channels at once, the fewest channels for which it is used, and the set
# for fewer, which every CPU with tiles has
_TILES, _FEWEST_OF_TILES, _WITHOUT_TILES = "amxint8", 16, "avx512vnni"
# terms of a sum in s32: with more, sums of the largest products would not fit
_MOST_TERMS = (2**31 - 1) // 255**2
# results of a tile of Winograd on words, as `filtering.filtering_tile` names them
_RESULTS = (2, 3)


def set_for(best: str, depth: int) -> str:
    """Returns the instruction set to multiply `depth` channels with: `best`, but AVX-512 VNNI for too few for AMX."""
    return _WITHOUT_TILES if best == _TILES and depth < _FEWEST_OF_TILES else best


def depth_of(problem: ConvProblem) -> int:
    """Returns how many channels of the source a group has."""
    g = problem.geometry
    return (g.y_channels if problem.direction == DGRAD else g.x_channels) // g.groups


def sums_fit(problem: ConvProblem) -> bool:
    """Whether the sums of a layer fit into 32 bits.

    Each position of the source meets a result at one tap at most: padding adds zeros.
    """
    g = problem.geometry
    positions = g.y if problem.direction == DGRAD else g.x
    return depth_of(problem) * prod(map(min, g.kernel, positions)) <= _MOST_TERMS


def fits(problem: ConvProblem) -> bool:
    """Whether the kernel takes a convolution of integers, and its sums fit into 32 bits."""
    return sums_fit(problem) and filtering.taken(problem, direct_tile(problem))


def takes_residual(problem: ConvProblem) -> bool:
    """Whether the kernel adds other integers to a layer's: no post-ops precede the sum, and the layer is not split."""
    q = problem.quantization
    if q is None or q.dst is None:
        return False
    rest, *_ = q.bounded(problem.epilogue, problem.result.dtype)
    return not rest and max(problem.geometry.dilations) == 1


def applies(problem: ConvProblem, env: Env) -> bool:
    """Whether builtin products of integers compute a layer with its post-ops, whatever their time."""
    has_integers = problem.quantization is not None and bool(kernels.int8_isa()[0])
    return has_integers and fits(problem) and problem.takes_epilogue


# ---- which tiles -----------------------------------------------------------------------------------------------------


def _tile_fits(problem: ConvProblem, tile: tuple[int, ...]) -> bool:
    """Whether the sums of tiles, with weights times 2 on each axis of four points, are below 2^31 in all channels."""
    pairs = zip(tile, filtering.taps(problem), strict=True)
    most = (2**31 - 1) // (255 << sum(m > 1 and (m, t) != (2, 2) for m, t in pairs))
    if depth_of(problem) * prod(problem.geometry.kernel) * 255 <= most:
        return True
    view = problem.w
    if problem.quantization is None or not has_data(view.buffer):
        return False
    others = tuple(axis for axis in range(view.ndim) if axis not in (0, problem.weights_axis))
    _, zeros = problem.quantization.of_weights(view.shape, problem.weights_axis)
    # exact: integers of 8 bits
    centred = np.abs(array_of(view).astype(np.float32) - zeros)
    return bool(centred.sum(axis=others, dtype=np.float64).max() <= most)


def _tiles(problem: ConvProblem) -> list[tuple[int, ...]]:
    """Returns the tiles that Winograd on words may have in a layer of constant weights."""
    if _isa_of(problem) != WORDS or not problem.w.is_constant:
        return []
    tiles = {filtering.filtering_tile(problem, results) for results in _RESULTS} - {direct_tile(problem)}
    return sorted(tile for tile in tiles if filtering.taken(problem, tile) and _tile_fits(problem, tile))


def key(problem: ConvProblem) -> Hashable:
    """Returns the properties of a layer's integers that affect the ranking of its algorithms; None of floats."""
    return problem.quantization and (problem.quantization.key, tuple(_tiles(problem)))


def _isa_of(problem: ConvProblem) -> str:
    """Returns the instruction set that multiplies a layer, as it has many or few channels."""
    return set_for(kernels.int8_isa()[0], depth_of(problem))


def _work(problem: ConvProblem, env: Env, source: int, filters: bool) -> Counts:
    """Counts the work of a layer; `source`: elements that are read, `filters`: by the best tiles of Winograd."""
    direct = filtering.work(problem.floats, env, direct_tile(problem))
    factor = _filtered(problem, env, _best(problem, env)) if filters else 1.0
    copies = not kernels.int8_layout(depth_of(problem) * problem.geometry.groups, _code(problem), _isa_of(problem))[2]
    return cost.products(problem, _isa_of(problem), direct, source, copies=copies, filtered=factor)


def _filtered(problem: ConvProblem, env: Env, tile: tuple[int, ...]) -> float:
    return cost.filtered(*(filtering.work(problem.floats, env, each) for each in (tile, direct_tile(problem))))


def _best(problem: ConvProblem, env: Env) -> tuple[int, ...]:
    return min(_tiles(problem), key=lambda tile: (_filtered(problem, env, tile), tile))


# ---- steps -----------------------------------------------------------------------------------------------------------


def _code(problem: ConvProblem) -> int:
    return dtypes.CODES[problem.dtype]


class _Steps:
    """Appends the steps of one layer: src to rows, packed weights, products.

    `env`: of the threads, and of sizes that vary. `by_taps`: the taps of the last axis are channels.
    """

    def __init__(self, program: Program, problem: ConvProblem, threads: int, varies: bool, by_taps: bool) -> None:
        assert problem.quantization is not None
        self.program, self.whole, self.quantization = program, problem, problem.quantization
        self.threads, self.varies, self.by_taps = threads, varies, by_taps
        if by_taps:
            problem = integer_taps.as_channels(problem, integer_taps.merged(program, problem.w))
        self.problem, self.depth, self.code = problem, depth_of(problem), _code(problem)
        self.isa = _isa_of(problem)
        self.tile = direct_tile(problem)
        groups = problem.geometry.groups
        _, pitch, _ = kernels.int8_layout(self.depth * groups, self.code, self.isa)
        # the kernel reads the zeros that fill up each position as channels as well, so that positions are contiguous
        self.reads = pitch if groups == 1 else self.depth * groups

    def described(self, problem: ConvProblem) -> Any:
        """Returns the kernel's description of the layer or a part."""
        changes: dict[str, Any] = {"y_channels" if problem.direction == DGRAD else "x_channels": self.reads}
        problem = replace(problem, geometry=replace(problem.geometry, **changes))
        return filtering.filter_problem(problem, self.tile, self.varies)

    def parts(self, rows: View, strides: Sequence[int], target: View) -> list[ConvProblem]:
        """Returns the layer with src in rows, or the layers that a dilated one is split into; strides are in bytes."""
        problem, src = self.problem, READ[self.problem.direction][0]
        item, _, _ = kernels.int8_layout(self.reads, self.code, self.isa)
        sizes = getattr(problem, src).shape
        places = View(rows.buffer, (sizes[0], 1, *sizes[2:]), (strides[0] * item, 1, *(item * s for s in strides[1:])))
        views = {src: replace(places, offset=rows.offset), RESULT[problem.direction]: target}
        return list(filtering.parts(problem.with_views(**views), self.tile))

    def rows(self) -> tuple[View, list[int]]:
        """Returns the left factor of the product, src in the kernel's row layout, and its strides (N, spatial...).

        The factor is src itself where the kernel can read that, else a copy in bytes.
        """
        problem = self.problem
        if self.by_taps:
            return integer_taps.rows(self.program, self.whole, self.quantization.src_zero, self.threads, self.isa)
        view = as_channels_last(self.program, problem.read[0])
        channels = view.shape[1]
        item, pitch, as_it_is = kernels.int8_layout(channels, self.code, self.isa)
        sizes, strides = ([some[0], *some[2:]] for some in (view.shape, view.strides))
        if as_it_is:
            return view, strides
        # 64 bytes more, as the kernel reads past the last element
        rows = self.program.scratch((prod(sizes) * pitch * item + 64,), "u8")
        zero = self.quantization.zero
        kernel = kernels.int8_rows(sizes, strides, channels, *self.read(), self.threads, self.isa, has_zero=bool(zero))
        self.program.kernel(kernel, [view, *zero], [rows], "rows of integers")
        return rows, [stride * pitch for stride in dense_strides(sizes)]

    def packed(self, description: Any, weights: View, strides: Sequence[int], points: Array | None) -> View:
        """Appends the packing of weights, once for constants, and returns the right factor of the product.

        `points`: zero points (OC) to be subtracted from the weights, or None.
        """
        direction, code = self.problem.direction, dtypes.CODES[weights.dtype]
        packed = self.program.scratch((kernels.int8_packed_size(description, direction, self.isa),), "u8")
        kernel = kernels.int8_pack(
            description, direction, code, list(strides), self.depth, points is not None, self.threads, self.isa
        )
        how = kernels.int8_packing(description, direction, self.isa), None if points is None else points.tobytes()
        cache_key = ("integers", direction, *how, self.depth, weights.dtype, weights.shape, tuple(strides))
        reads = [weights] if points is None else [weights, self.program.constant(points)]
        self.program.kernel(kernel, reads, [packed], "pack weights", cache_key=cache_key)
        return packed

    def read(self) -> tuple[int, int]:
        return self.code, self.quantization.src_zero

    def append(self) -> None:
        """Appends all steps."""
        program, problem, q = self.program, self.problem, self.quantization
        early, result = kernels.int8_pack_subtracts(self.isa), problem.result
        zeros = q.zeros(result.shape[1])
        # kernels of bytes multiply by s8, and subtract 128 from u8 as they pack
        points = zeros - np.int32(128 if problem.w.dtype == "u8" and not early else 0)
        late = bool(points.any()) and not early
        rows, strides = self.rows()
        target = result_view(program, result)
        parts, merged = self.parts(rows, strides, target), merged_weights(program, problem.w)
        descriptions = [self.described(part) for part in parts]
        packed = self.packed(descriptions[0], merged, merged.strides, points if early and points.any() else None)
        scales = [] if result.dtype == "s32" else [program.constant(q.scales(result.shape[1]))]
        reads = [packed, *scales, *q.scale, *q.zero]
        if problem.bias is not None:
            reads.append(program.in_a_row(problem.bias))
        reads += [program.constant(points)] if late else []
        by = "" if self.isa == kernels.int8_isa()[0] else f" by {self.isa}"
        label = labelled(filtering.tile_label(self.tile, by), problem.epilogue)
        item, _, _ = kernels.int8_layout(self.reads, self.code, self.isa)
        for part, description in zip(parts, descriptions, strict=True):
            src, dst = part.read[0], part.result
            at = [stride // item for stride in (src.strides[0], *src.strides[2:])]
            epilogue, integers = q.bounded(part.epilogue, dst.dtype)
            after, added = fused(program, epilogue, as_floats(dst)), None
            if q.residual is not None:
                added = dtypes.CODES[q.residual.view.dtype], *q.residual.of_view, integers
                reads = [*reads, laid_as(program, q.residual.view, dst.strides)]
                integers = q.of_sum(dst.dtype)
            kernel = kernels.int8_product(
                description, part.direction, at, dtypes.CODES[dst.dtype], [dst.strides[0], *dst.strides[2:]],
                *self.read(), integers, late, 0 if problem.bias is None else dtypes.CODES["f32"], self.depth,
                self.threads, after.epilogue, self.isa, bool(q.scale), bool(q.zero), added,
            )  # fmt: skip
            scratch = program.scratch((max(-(-kernel.scratch_bytes // 4), 1),), "f32")
            program.kernel(kernel, [src, *reads, *after.views], [scratch, dst], label)
        if target is not result:
            program.copy(target, result, FROM_CHANNELS_LAST)


def append_sums(program: Program, problem: ConvProblem) -> None:
    """Appends a convolution of integers whose result has the sums in s32."""
    _Steps(program, problem, 0, False, False).append()


def _algorithms(direction: str, by_taps: bool = False) -> tuple[Algorithm, Algorithm]:
    """Returns the direct algorithm of a direction and Winograd; `by_taps`: on the taps of the last axis as channels."""

    def seen(problem: ConvProblem) -> ConvProblem:
        return integer_taps.as_channels(problem) if by_taps else problem

    def suits(problem: ConvProblem, env: Env) -> bool:
        return not by_taps or integer_taps.applies(problem)

    def filters(problem: ConvProblem, env: Env) -> bool:
        allowed = env.algorithm != "direct" and suits(problem, env) and applies(problem, env)
        return allowed and bool(_tiles(seen(problem)))

    def build(tile: Callable[[ConvProblem, Env], tuple[int, ...]]) -> Build:
        def append(program: Program, problem: ConvProblem, env: Env) -> None:
            steps = _Steps(program, problem, env.threads, env.varies, by_taps)
            steps.tile = tile(seen(problem), env)
            steps.append()

        return append

    direct = Algorithm(
        f"{NAME}{TAPS}" if by_taps else NAME, direction, "integers",
        lambda p, e: suits(p, e) and applies(p, e) and fits(seen(p)),
        lambda p, e: _work(seen(p), e, p.read[0].size, False),
        build(lambda p, e: direct_tile(p)), NOTHING,
        fuses=always, adds=takes_residual, multiplies="s8", row=lambda p: (p.direction, _isa_of(seen(p))),
    )  # fmt: skip
    return direct, replace(
        direct, name=f"{FILTERING}{TAPS}" if by_taps else FILTERING, applies=filters,
        counts=lambda p, e: _work(seen(p), e, p.read[0].size, True), build=build(_best), filters=True,
    )  # fmt: skip


NAME, FILTERING, TAPS = "builtin integer", "Winograd, integer products", ", taps as channels"
ALGORITHMS = (*_algorithms(FPROP), *_algorithms(DGRAD), *_algorithms(FPROP, by_taps=True))
