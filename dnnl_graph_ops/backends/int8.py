"""Runs quantized convolutions and MatMuls as products of integers: finds their groups, and appends their steps.

Sums are exact in s32. Each is converted to f32 once, multiplied by the product of both scales, and then the bias is
added. Post-ops and the division by the result's scale are in f32 as well. A DynamicDequantize of the source has its
scale and zero point at the call, and so has the product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..algorithms import filtering
from ..algorithms.choice import ranked
from ..algorithms.lower import Decision
from ..algorithms.views import (
    FROM_CHANNELS_LAST,
    as_channels_last,
    channels_last_strides,
    merged_weights,
    result_view,
)
from ..convolution.nodes import make_problem, post_ops
from ..convolution.problem import DGRAD, READ, RESULT, ConvProblem
from ..cost import speeds
from ..graph import Node, Value
from ..ir import dims
from ..ir.env import Env
from ..program import elementwise
from ..program.elementwise import fused
from ..program.epilogue import labelled
from ..program.program import Buffer, Place, Program, View, argument
from ..strides import channels_last, dense_strides
from ..symbolic import kernels
from . import int8_depthwise, int8_taps, matmul
from .backend import Backend, FusionGroup, Lowering, Search
from .quantized import (
    CONVOLUTIONS,
    FUSE_INT8,
    WORDS,
    Quantized,
    as_floats,
    bounded,
    constant_weights,
    is_head,
    of_channels,
    point,
    quantized,
    zero_points,
)  # fmt: skip
from .search import behind

Array = np.ndarray[Any, Any]
ViewOf = Callable[[Value], View]

# terms of a sum in s32: with more, sums of the largest products would not fit
_MOST_TERMS = (2**31 - 1) // 255**2
# panel width and depth step to which the kernel fills up with zeros, and the most multiplications per needed one
_COLUMNS, _STEP, _MOST_WASTE = 16, 4, 2.0
# how many times as fast as f32 products of words are
_GAIN_OF_WORDS = 1.4
_CONVERTED, _CONVERTING = map(speeds.seconds, ("CONVERTED_ELEMENT", "CONVERTING_STEPS"))
_FINISHED, _FINISHED_ROW = map(speeds.seconds, ("FINISHED_ELEMENT", "FINISHED_ROW"))
# positions of rows below which, and phases and terms of few channels from which on, the library's integer products are
# slow; its time for a dgrad over the estimate of the direct form in f32 of all channels that it computes
_SHORT, _SHORT_IN_PHASES, _MANY_PHASES, _DEEP, _OF_LIBRARY = 5, 16, 64, 400, 0.19
# costs of Winograd of words, in products: to transform an element, and to read a packed weight from memory;
# and the most that tiles may cost, relative to the direct form
_TRANSFORMED, _READ, _SAVING = 3.0, 5.0, 0.95
# measured over estimated time of Winograd (minimal filtering) on several axes: the estimate is cautious
_OF_FILTERING = 0.75
# the instruction set whose tiles multiply 64 channels at once, the fewest channels for which it is used, and the set
# for fewer, which every CPU with tiles has
_TILES, _FEWEST_OF_TILES, _WITHOUT_TILES = "amxint8", 16, "avx512vnni"


def match(nodes: Sequence[Node], env: Env) -> Quantized | None:
    """Returns the parts of nodes if builtin code runs them as one product of integers, None otherwise.

    The caller sees to it that other nodes read the last node's result only.
    """
    if not env.prefers_builtin or len(nodes) < 3:
        return None
    q = quantized(nodes)
    if q is None or not kernels.int8_isa()[0]:
        return None
    problem = _problem(q, _somewhere, env)
    depthwise = int8_depthwise.applies(q, problem)
    floats, by_taps = problem, _by_taps(q, problem)
    problem = int8_taps.as_channels(problem) if by_taps else problem
    g = problem.geometry
    read, made = g.y_channels // g.groups, g.x_channels // g.groups
    if problem.direction != DGRAD:
        read, made = made, read
    waste = -(-made // _COLUMNS) * _COLUMNS / made * (-(-read // _STEP) * _STEP / read)
    laid = replace(problem.result, strides=channels_last_strides(problem.result))
    unmet = ""
    if read * prod(g.kernel) > _MOST_TERMS:
        unmet = "sums fit into 32 bits"
    elif not depthwise and waste > _MOST_WASTE:
        unmet = "padding with zeros adds few products"
    elif not depthwise and not filtering.taken(problem, filtering.direct_tile(problem)):
        unmet = "the kernel takes the layer"
    elif (
        not depthwise
        and kernels.int8_isa()[0] == WORDS
        and _floats_are_faster(floats, problem, waste * _form(q, problem, WORDS, env, floats.w).cost, env)
    ):
        unmet = "integer products are faster by estimate"
    elif not elementwise.expresses(problem.epilogue, as_floats(laid)):
        unmet = "the kernel has the post-ops"
    FUSE_INT8.tell(q.head, unmet)
    return None if unmet else q


def set_for(best: str, depth: int) -> str:
    """Returns the instruction set to multiply `depth` channels with: `best`, but AVX-512 VNNI for too few for AMX."""
    return _WITHOUT_TILES if best == _TILES and depth < _FEWEST_OF_TILES else best


def _problem(q: Quantized, view_of: ViewOf, env: Env) -> ConvProblem:
    """Returns the head as a problem on the integers that its Dequantize ops read, with the post-ops and dst."""
    head, last = q.head, (q.epilogue[-1] if q.epilogue else q.head).outputs[0]
    integers = {node.outputs[0]: node.inputs[0] for node in (q.src, q.weights)}
    if q.quantize is not None:
        integers[last] = q.quantize.outputs[0]

    def seen(value: Value) -> View:
        return view_of(integers.get(value, value))

    if head.kind not in CONVOLUTIONS:
        return matmul.problem_of(head, q.epilogue, seen, env)
    epilogue = post_ops(head, q.epilogue, view_of, env)
    inputs = list(map(seen, head.inputs))
    return make_problem(head.kind, head.attrs, inputs, seen(last), epilogue, f"{head.kind} {head.name!r}")


def _by_taps(q: Quantized, problem: ConvProblem) -> bool:
    return not q.is_dynamic and q.head.kind in CONVOLUTIONS and int8_taps.applies(problem)


def _floats_are_faster(floats: ConvProblem, problem: ConvProblem, waste: float, env: Env) -> bool:
    """Whether the fastest algorithm in f32, with the conversions, is estimated to be faster than products of words.

    `floats`: the layer as algorithms in f32 see it; `problem`: as the kernel of integers does. `waste`: how many
    multiplications that kernel executes per needed one, as it fills up with zeros and as it may filter.
    """
    direct = dict(ranked(_in_floats(problem), env)).get(filtering.DIRECT[problem.direction])
    if direct is None:
        return False
    best, seconds = ranked(_in_floats(floats), env)[0]
    if best.filters and floats.geometry.rank > 1:
        seconds *= _OF_FILTERING
    seconds += _CONVERTING + _CONVERTED * (floats.y.size + floats.x.size)
    result = problem.result
    rows = result.size // result.shape[1] * problem.geometry.groups
    return seconds < direct * waste / _GAIN_OF_WORDS + _FINISHED * result.size + _FINISHED_ROW * rows


def _leaves_registers_empty(problem: ConvProblem) -> bool:
    """Whether the library has short rows on the last axis, in each phase of a dgrad, or long sums of few channels.

    Its kernels begin a new block at the end of every row and phase, builtin ones go on with the next row; the library
    fills up few channels of each tap.
    """
    g = problem.geometry
    shortest = _SHORT
    if problem.direction == DGRAD:
        if prod(g.strides) >= _MANY_PHASES:
            return True
        whole = max(g.strides) > 1 and not any(k % s for k, s in zip(g.kernel, g.strides, strict=True))
        shortest = _SHORT_IN_PHASES if whole else _SHORT
    return (max(g.kernel) > 1 and g.y[-1] < shortest) or (
        int8_taps.applies(problem) and g.x_channels * prod(g.kernel) >= _DEEP
    )


def _floats_beat_the_library(nodes: Sequence[Node], env: Env) -> bool:
    """Whether a dgrad of few output channels is faster in f32 than by the library, which fills up its panels."""
    q = quantized(nodes) if env.prefers_builtin else None
    if q is None or q.is_dynamic or q.head.kind not in CONVOLUTIONS:
        return False
    problem = _problem(q, _somewhere, env)
    g = problem.geometry
    if problem.direction != DGRAD or g.x_channels // g.groups >= _COLUMNS // 2:
        return False
    read, made = (
        -(-size // g.groups // step) * step for size, step in ((g.y_channels, _STEP), (g.x_channels, _COLUMNS))
    )
    y, x, w = (
        argument(place, "f32", shape, dense_strides(shape))
        for place, shape in (
            (Place.SCRATCH, (g.batch, read * g.groups, *g.y)),
            (Place.SCRATCH, (g.batch, made * g.groups, *g.x)),
            (Place.CONSTANT, (g.groups, read, made, *g.kernel)),
        )
    )
    sizes = replace(g, y_channels=read * g.groups, x_channels=made * g.groups)
    filled = replace(_in_floats(problem), geometry=sizes, y=y, x=x, w=w)
    direct = dict(ranked(filled, env)).get(filtering.DIRECT[DGRAD])
    best = ranked(_in_floats(problem), env)[0][1] + _CONVERTING + _CONVERTED * (problem.y.size + problem.x.size)
    return direct is not None and best < direct * _OF_LIBRARY


class _Form(NamedTuple):
    """Results of a tile on each axis, 1 in the direct form, and the cost relative to that of the direct form."""

    tile: tuple[int, ...]
    cost: float


def _form(q: Quantized, problem: ConvProblem, isa: str, env: Env, weights: View) -> _Form:
    """Returns the form of the product that takes the least time; Winograd needs words and constant weights.

    `weights`: a view of the constant.

    Winograd is exact: data less their zero point, weights and their transforms are words, and the sums of a
    tile, 2^(axes of four points) times those of the layer, fit into 32 bits.
    """
    direct = filtering.direct_tile(problem)
    filters = isa == WORDS and q.weights.inputs[0].is_constant and env.algorithm != "direct"
    if not filters:
        return _Form(direct, 1.0)
    floats = _in_floats(problem)

    def cost(tile: tuple[int, ...]) -> float:
        counts = filtering.work(floats, env, tile)
        return counts.products + _TRANSFORMED * counts.values + _READ * counts.weights

    tiles = {direct, *(filtering.filtering_tile(problem, results) for results in (2, 3))}
    costs = {tile: cost(tile) for tile in tiles if filtering.taken(problem, tile) and _fits(q, problem, tile, weights)}
    tile = min(costs, key=lambda tile: (costs[tile] / (1.0 if tile == direct else _SAVING), tile))
    return _Form(tile, costs[tile] / costs[direct])


def _fits(q: Quantized, problem: ConvProblem, tile: tuple[int, ...], view: View) -> bool:
    """Whether the sums of tiles, with weights times 2 on each axis of four points, are below 2^31 in all channels."""
    pairs = zip(tile, filtering.taps(problem), strict=True)
    most = (2**31 - 1) // (255 << sum(m > 1 and (m, t) != (2, 2) for m, t in pairs))
    groups, y_channels, x_channels, *kernel = view.shape
    read, made = (y_channels, 2) if problem.direction == DGRAD else (x_channels, 1)
    if read * prod(kernel) * 255 <= most:
        return True
    weights = constant_weights(q, view)
    zeros = zero_points(q, groups * view.shape[made])
    shape = [size if axis in (0, made) else 1 for axis, size in enumerate(view.shape)]
    others = tuple(axis for axis in range(view.ndim) if axis not in (0, made))
    return bool(np.abs(weights - zeros.reshape(shape)).sum(axis=others, dtype=np.int64).max() <= most)


def _in_floats(problem: ConvProblem) -> ConvProblem:
    """Returns the layer in f32, with constant weights and without post-ops, as `algorithms` estimates it."""
    weights = replace(problem.w, buffer=Buffer(Place.CONSTANT, "f32", problem.w.buffer.elements))
    return replace(problem, y=as_floats(problem.y), x=as_floats(problem.x), w=weights, epilogue=())


def _somewhere(value: Value) -> View:
    return argument(Place.SCRATCH, value.dtype, dims(value), dense_strides(dims(value)))


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _is_dense(view: View) -> bool:
    """Whether a channels-last view has no gaps; strides of axes of one position may be anything."""
    wanted = channels_last_strides(view)
    return all(a == b for a, b, size in zip(view.strides, wanted, view.shape, strict=True) if size > 1)


# ---- steps -----------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A layer, the kernel's description of it, and its src in rows, with strides (N, spatial...) in elements."""

    problem: ConvProblem
    description: Any
    rows: View
    strides: list[int]


class Source(NamedTuple):
    """The zero point of src, where it is known, and views of one element of what the call tells."""

    point: int = 0
    scale: tuple[View, ...] = ()
    zero: tuple[View, ...] = ()


class _Steps:
    """Appends the steps of one convolution of integers: src to rows, packed weights, sums for zero points."""

    def __init__(
        self,
        program: Program,
        problem: ConvProblem,
        source: Source,
        threads: int = 0,
        varies: bool = False,
        by_taps: bool = False,
    ) -> None:
        self.program, self.source, self.whole = program, source, problem
        self.threads, self.varies, self.by_taps = threads, varies, by_taps
        if by_taps:
            problem = int8_taps.as_channels(problem, int8_taps.merged(program, problem.w))
        self.problem, g = problem, problem.geometry
        read = g.y_channels if problem.direction == DGRAD else g.x_channels
        self.depth = read // g.groups
        self.isa = set_for(kernels.int8_isa()[0], self.depth)
        self.tile = filtering.direct_tile(problem)
        self.code = dtypes.CODES[(problem.y if problem.direction == DGRAD else problem.x).dtype]
        _, pitch, _ = kernels.int8_layout(read, self.code, self.isa)
        # the kernel reads the zeros that fill up each position as channels as well, so that positions are contiguous
        self.reads = pitch if g.groups == 1 else read

    def described(self, problem: ConvProblem) -> Any:
        """Returns the kernel's description of the layer or a part."""
        changes: dict[str, Any] = {"y_channels" if problem.direction == DGRAD else "x_channels": self.reads}
        problem = replace(problem, geometry=replace(problem.geometry, **changes))
        return filtering.filter_problem(problem, self.tile, self.varies)

    def parts(self, rows: View, strides: Sequence[int], target: View) -> list[Part]:
        """Returns the layer with src in rows, or the layers that a dilated one is split into."""
        problem, src = self.problem, READ[self.problem.direction][0]
        item, _, _ = kernels.int8_layout(self.reads, self.code, self.isa)
        sizes = getattr(problem, src).shape
        places = View(rows.buffer, (sizes[0], 1, *sizes[2:]), (strides[0] * item, 1, *(item * s for s in strides[1:])))
        views = {src: replace(places, offset=rows.offset), RESULT[problem.direction]: target}
        parts = []
        for part in filtering.parts(problem.with_views(**views), self.tile):
            view: View = getattr(part, src)
            at = [view.strides[0], *view.strides[2:]]
            parts.append(Part(part, self.described(part), view, [stride // item for stride in at]))
        return parts

    def rows(self) -> tuple[View, list[int]]:
        """Returns the left factor of the product, src in the kernel's row layout, and its strides (N, spatial...).

        The factor is src itself where the kernel can read that, else a copy in bytes.
        """
        problem = self.problem
        if self.by_taps:
            return int8_taps.rows(self.program, self.whole, self.source.point, self.threads, self.isa)
        view = problem.y if problem.direction == DGRAD else problem.x
        view = as_channels_last(self.program, view)
        channels = view.shape[1]
        item, pitch, as_it_is = kernels.int8_layout(channels, self.code, self.isa)
        sizes, strides = ([some[0], *some[2:]] for some in (view.shape, view.strides))
        if as_it_is:
            return view, strides
        # 64 bytes more, as the kernel reads past the last element
        rows = self.program.scratch((prod(sizes) * pitch * item + 64,), "u8")
        kernel = kernels.int8_rows(
            sizes, strides, channels, *self.read(), self.threads, self.isa, has_zero=bool(self.source.zero)
        )
        self.program.kernel(kernel, [view, *self.source.zero], [rows], "rows of integers")
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

    def sums(self, rows: View, strides: Sequence[int]) -> View:
        """Appends sums of src over the window of each position of dst; returns the sums (N, spatial..., groups).

        The sums, in s32, correct a product for zero points of weights that packing has not subtracted.
        """
        problem = self.problem
        result = problem.result
        sums = self.program.scratch((result.shape[0], *result.shape[2:], problem.geometry.groups), "s32")
        kernel = kernels.int8_sums(
            self.described(problem), problem.direction, strides, self.depth, *self.read(), self.threads,
            bool(self.source.zero),
        )  # fmt: skip
        self.program.kernel(kernel, [rows, *self.source.zero], [sums], "sums of what is read")
        return sums

    def read(self) -> tuple[int, int]:
        return self.code, self.source.point

    def append(self, zeros: Array, scales: Array | None = None, to: Node | None = None) -> None:
        """Appends all steps.

        zeros: zero points (OC) of the weights, in s32. scales: (OC) in f32; None: results are the sums, in s32. to: the
        Quantize of the results, or None.
        """
        program, problem, (_, scale, zero) = self.program, self.problem, self.source
        early, result = kernels.int8_pack_subtracts(self.isa), problem.result
        # kernels of bytes multiply by s8, and subtract 128 from u8 as they pack
        points = zeros - np.int32(128 if problem.w.dtype == "u8" and not early else 0)
        late = bool(points.any()) and not early
        rows, strides = self.rows()
        target = result_view(program, result)
        if late and not _is_dense(target):
            # the kernel indexes sums by the position in a dense result
            target = program.scratch(result.shape, result.dtype, channels_last(result.ndim))
        parts, merged = self.parts(rows, strides, target), merged_weights(program, problem.w)
        packed = self.packed(parts[0].description, merged, merged.strides, points if early and points.any() else None)
        reads = [packed, *(() if scales is None else (program.constant(scales),)), *scale, *zero]
        if problem.bias is not None:
            reads.append(program.in_a_row(problem.bias))
        if late:
            reads += [program.constant(points), self.sums(rows, strides)]
        by = "" if self.isa == kernels.int8_isa()[0] else f" by {self.isa}"
        label = labelled(filtering.tile_label(self.tile, by), problem.epilogue)
        for part, description, src, at in parts:
            epilogue, low, high = (part.epilogue, -128, 255) if to is None else bounded(part.epilogue, to)
            after, made = fused(program, epilogue, as_floats(part.result)), part.result
            kernel = kernels.int8_product(
                description, part.direction, at, dtypes.CODES[made.dtype], [made.strides[0], *made.strides[2:]],
                *self.read(), 1.0 if to is None else to.attrs["scales"][0], 0 if to is None else point(to), low, high,
                late, 0 if problem.bias is None else dtypes.CODES["f32"], made.shape[1], self.threads, after.epilogue,
                self.isa, bool(scale), bool(zero),
            )  # fmt: skip
            scratch = program.scratch((max(-(-kernel.scratch_bytes // 4), 1),), "f32")
            program.kernel(kernel, [src, *reads, *after.views], [scratch, made], label)
        if target is not result:
            program.copy(target, result, FROM_CHANNELS_LAST)


def build(lowering: Lowering, group: FusionGroup) -> Decision:
    q, env = group.match, lowering.env
    problem = _problem(q, lowering.view, env)
    lowering.macs += problem.macs
    if int8_depthwise.applies(q, problem):
        return int8_depthwise.build(lowering.program, q, problem, env)
    scale, zero = (tuple(map(lowering.view, values)) for values in (q.src.inputs[1:2], q.src.inputs[2:]))
    source, by_taps = Source(point(q.src), scale, zero), _by_taps(q, problem)
    steps = _Steps(lowering.program, problem, source, env.threads, env.varies, by_taps)
    steps.tile = _form(q, steps.problem, steps.isa, env, problem.w).tile
    makes = problem.result.shape[1]
    scales = of_channels(makes, q.weights.attrs["scales"], np.float32)
    if not q.is_dynamic:
        scales *= np.float32(q.src.attrs["scales"][0])
    steps.append(zero_points(q, makes), scales, q.quantize)
    return Decision("builtin integer" if max(steps.tile) == 1 else filtering.INTEGERS, q.src.inputs[0].dtype)


def append_sums(program: Program, problem: ConvProblem, source: Source, zeros: Sequence[int]) -> None:
    """Appends a convolution of integers with sums in s32; `zeros`: zero points of the weights, (OC) or (1)."""
    _Steps(program, problem, source).append(of_channels(problem.result.shape[1], zeros, np.int32))


def fits(problem: ConvProblem) -> bool:
    """Whether the kernel takes a convolution of integers, and its sums fit into 32 bits."""
    g = problem.geometry
    read = g.y_channels if problem.direction == DGRAD else g.x_channels
    return read // g.groups * prod(g.kernel) <= _MOST_TERMS and filtering.taken(problem, filtering.direct_tile(problem))


# ---- groups ----------------------------------------------------------------------------------------------------------


def _find(search: Search) -> None:
    """Takes from a search each quantized product with its Dequantize ops, post-ops and Quantize.

    Products in an exact partition of the library together with both Dequantize ops are left to the library.
    """
    joining = set(search.elementwise)
    for number, node in enumerate(search.nodes):
        makers = [search.numbers[value.node] for value in node.inputs[:2] if value.node in search.numbers]
        if len(makers) < 2 or not is_head(node):
            continue
        group, head = _longest(makers, number, joining, search), {*makers, number}
        if group is None and _floats_beat_the_library([search.nodes[i] for i in head], search.env):
            search.partitions = [partition for partition in search.partitions if not head.issubset(partition)]
        if group is not None:
            members = [search.numbers[member] for member in group.nodes]
            joining.difference_update(members)
            problem = _problem(group.match, _somewhere, search.env)
            depthwise = int8_depthwise.applies(group.match, problem)
            ours = int8_depthwise.beats_library(problem) if depthwise else _leaves_registers_empty(problem)
            if ours or not any(head.issubset(partition) for partition in search.partitions):
                search.take(group)


def _longest(makers: list[int], head: int, joining: set[int], search: Search) -> FusionGroup | None:
    """Returns the longest group of a product that builtin code runs; None where there is none.

    Tried are the group with post-ops and a Quantize, without the Quantize, and without both.
    """
    _, *epilogue = behind(head, joining, search)
    last = search.nodes[epilogue[-1] if epilogue else head].outputs[0]
    after = search.of(last)
    rounds = len(after) == 1 and search.nodes[after[0]].kind == "Quantize" and not search.leaves(last)
    for more in ([*epilogue, *(after if rounds else ())], epilogue, []):
        members = [search.nodes[number] for number in (*makers, head, *more)]
        parts = match(members, search.env)
        if parts is not None:
            return FusionGroup(search.sorted(members), INT8, parts)
    return None


INT8 = Backend("int8", build, find=_find)
