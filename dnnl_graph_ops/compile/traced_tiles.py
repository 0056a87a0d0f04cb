"""Makes kernels of bands of rows for other sizes than those of a trace: parts of layers are formulas of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .._core import Formula
from ..algorithms.lower import Decision
from ..convolution.problem import ConvProblem, Sizes
from ..program import epilogue as post
from ..program.program import Ints, Program, View
from ..symbolic import Trace, formula, plain
from .bands import Layer, Part
from .row_tiles import Lowered, Operand, RowTiles, lowered_part, outside_views

_UNDECIDED = Decision("", "")
_VARYING = ("batch", "y", "x", "pads_begin", "pads_end", "output_padding")
# of a trace's dims for a part of a layer: its rows, rows of the source and padding, and byte offsets in scratch
_MOST = 1 << 40


class Tiled:
    """Stands for the kernel of a step of bands in a trace, and makes the kernel for other sizes.

    `sizes`: nested tuples of the sizes that the kernel depends on, from whose values `of` makes the kernel. The parts
    of layers are formulas of their rows; a part that no formula holds for is lowered again.
    """

    def __init__(self, trace: Trace, tiles: RowTiles, chain: Sequence[Layer]) -> None:
        self.chain = tuple(replace(layer, decision=_UNDECIDED) for layer in tiles.chain)
        self.env = replace(tiles.env, threads=tiles.threads)
        self.packing = tiles.packing
        self.reads = tuple(view.buffer for view in tiles.reads)
        self.sizes = tuple(map(_sizes_of, chain))
        self.formulas: list[list[tuple[Formula, _Pattern]]] = [[] for _ in chain]
        values = [dim.value for dim in trace.dims]
        outside = [outside_views((layer,)) for layer in self.chain]
        for i, part in tiles.parts:
            if self._evaluated(outside[i], i, values, part, tiles.starts) is None:
                part_formula = _formula(trace, tiles, chain, i, part)
                if part_formula is not None:
                    self.formulas[i].append(part_formula)

    def close(self) -> None:
        """Drops what belongs to the trace, and the data of constants, which plans keep alive."""
        self.sizes = ()
        self.packing = {
            (plain(key), reads): replace(
                step, kernel=None, cache_key=None, writes=tuple(map(View.at_values, step.writes))
            )
            for (key, reads), step in self.packing.items()
            if all(view.is_constant for view in step.writes)
        }
        buffers = [view.buffer for step in self.packing.values() for view in (*step.reads, *step.writes)]
        buffers += self.reads
        for problem in (layer.problem for layer in self.chain):
            views = (problem.x, problem.y, problem.w, problem.bias, *post.views(problem.epilogue))
            buffers += (view.buffer for view in views if view is not None)
        for buffer in buffers:
            buffer.elements = plain(buffer.elements)
            buffer.array = buffer.held = None

    def of(self, dims: Sequence[int], sizes: Sequence[Any]) -> tuple[Any, int] | None:
        """Returns the kernel for the values of `dims` and of `sizes`, and its bytes of scratch; None if it has none."""
        chain = [_layer_of(layer, values) for layer, values in zip(self.chain, sizes, strict=True)]
        outside = [outside_views((layer,)) for layer in chain]

        def again(i: int, part: Part, starts: Sequence[int]) -> Lowered | None:
            return self._evaluated(outside[i], i, dims, part, starts)

        tiles = RowTiles(Program(), chain, self.env, self.packing, again)
        if not tiles.complete or tiles.fixed or tuple(view.buffer for view in tiles.reads) != self.reads:
            return None
        return tiles.kernel(), max(tiles.scratch_bytes // 4, 1) * 4 * tiles.threads

    def _evaluated(
        self, outside: Sequence[View], i: int, dims: Sequence[int], part: Part, starts: Sequence[int]
    ) -> Lowered | None:
        """Returns a part of the i-th layer, with these views outside, by the first formula that holds for it."""
        for part_formula, pattern in self.formulas[i]:
            values = part_formula((*dims, *part, *_starts(starts, i)))
            if values is None:
                continue
            kernels, places, room = values
            calls = []
            for kernel, (operands, label), offsets in zip(kernels, pattern, places, strict=True):
                placed = []
                for (what, *_, of_source, held), (at, by_image, by_row) in zip(operands, offsets, strict=True):
                    view = outside[what] if isinstance(what, int) and what >= 0 else what
                    placed.append(Operand(view, at, by_image, by_row, of_source, held))
                calls.append((kernel, placed, label))
            return Lowered(calls, [], room)
        return None


# of each call its operands, in which offsets are left open and views of the layer are numbers, and its label
_Pattern = list[tuple[list[Operand], str]]


def _starts(starts: Sequence[int], i: int) -> tuple[int, int, int]:
    return starts[i - 1] if i > 0 else 0, starts[i], starts[-1]


def _sizes_of(layer: Layer) -> tuple[Any, ...]:
    problem = layer.problem
    views = (problem.x, problem.y, *post.views(problem.epilogue))
    geometry = tuple(getattr(problem.geometry, name) for name in _VARYING)
    return geometry, tuple((view.shape, view.strides, view.offset) for view in views)


def _layer_of(layer: Layer, sizes: tuple[Any, ...]) -> Layer:
    """Returns a layer with other sizes, as `_sizes_of` has them."""
    varying, views = sizes
    problem = layer.problem
    x, y, *operands = views
    rest = iter(operands)
    epilogue = problem.epilogue
    if operands:
        epilogue = post.map_views(epilogue, lambda view: View(view.buffer, *next(rest)))
    problem = ConvProblem(
        problem.direction,
        _resized(problem.geometry, *varying),
        View(problem.y.buffer, *y),
        problem.w,
        View(problem.x.buffer, *x),
        problem.bias,
        epilogue,
        problem.narrowed,
    )
    return Layer(layer.group, problem, layer.algorithm, layer.decision)


def _resized(g: Sizes, batch: int, y: Ints, x: Ints, pads_begin: Ints, pads_end: Ints, output_padding: Ints) -> Sizes:
    """Returns the sizes with other values of `_VARYING`, in a fraction of the time of `replace`."""
    return Sizes(
        batch, g.groups, g.y_channels, g.x_channels, y, g.kernel, x, g.strides, pads_begin, pads_end, g.dilations,
        output_padding,
    )  # fmt: skip


def _formula(
    trace: Trace, tiles: RowTiles, chain: Sequence[Layer], i: int, part: Part
) -> tuple[Formula, _Pattern] | None:
    """Returns a part of a layer as a formula of the trace's dims, rows and offsets, and its operands; None without."""
    least = Part(1, 1, 0)
    rows: list[Any] = [trace.dim(value, low, _MOST) for value, low in zip(part, least, strict=True)]
    places: list[Any] = [trace.dim(value, 0, _MOST) for value in _starts(tiles.starts, i)]
    starts: list[Any] = [0] * len(chain)
    if i > 0:
        starts[i - 1] = places[0]
    starts[i] = places[1]
    if i < len(chain) - 1:
        starts[-1] = places[2]
    same = dict(tiles.same)
    with trace.apart() as conditions:
        lowered = lowered_part(tiles.program, chain, i, Part(*rows), starts, tiles.env)
        if lowered is None:
            return None
        for step in lowered.before:
            other = tiles.packing.get((step.cache_key, step.reads))
            if other is None:
                return None
            same.update((mine.buffer, theirs.buffer) for mine, theirs in zip(step.writes, other.writes, strict=True))
    outside = outside_views((chain[i],))

    def pattern_of(operand: Operand) -> Operand:
        """Returns the operand with the number of its view among those of the layer; other views are constants."""
        view = operand.what
        if isinstance(view, View):
            numbers = [number for number, other in enumerate(outside) if other is view]
            operand = operand._replace(
                what=numbers[0] if numbers else replace(view.at_values(), buffer=same.get(view.buffer, view.buffer))
            )
        return operand._replace(offset=0, by_image=0, by_row=0)

    pattern = [([pattern_of(o) for o in operands], label) for _, operands, label in lowered.calls]
    result = (
        tuple(kernel for kernel, *_ in lowered.calls),
        tuple(tuple((o.offset, o.by_image, o.by_row) for o in operands) for _, operands, _ in lowered.calls),
        lowered.room,
    )
    return formula(trace, [*trace.dims, *rows, *places], conditions, result), pattern
