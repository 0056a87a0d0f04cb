"""Makes kernels of bands of rows for other sizes than those of a trace: parts of layers are formulas of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain as joined
from typing import Any

from .._core import Formula
from ..algorithms.lower import Decision
from ..convolution.problem import ConvProblem
from ..program import epilogue as post
from ..program.program import Buffer, Program, View
from ..symbolic import Trace, formula, kernels, plain
from .bands import Layer, Part, bands_of, parts_of
from .row_tiles import Numbered, RowTiles, lowered_part, outside_views

_UNDECIDED = Decision("", "")
_VARYING = ("batch", "y", "x", "pads_begin", "pads_end", "output_padding")
# of a trace's dims for a part of a layer: its least rows, rows of the source and padding; the most, and byte offsets
_LEAST, _MOST = Part(1, 1, 0), 1 << 40
# the kernels and operands of the calls that compute a part, and the bytes of scratch that they need
_Calls = tuple[Sequence[tuple[Any, Sequence[Numbered]]], int]


class Tiled:
    """Stands for the kernel of a step of bands in a trace, and makes the kernel for other sizes.

    `sizes`: nested tuples of the sizes that the kernel depends on, from whose values `of` makes the kernel. The parts
    of layers are formulas of their rows; a part that no formula holds for is lowered again.
    """

    def __init__(self, trace: Trace, tiles: RowTiles, chain: Sequence[Layer]) -> None:
        self.chain = tuple(replace(layer, decision=_UNDECIDED) for layer in tiles.chain)
        self.env, self.threads = tiles.env, tiles.threads
        self.packing = tiles.packing
        self.reads = len(tiles.reads)
        # numbers of what parts read: views outside by layer, and whole buffers
        outside = [outside_views((layer,)) for layer in tiles.chain]
        self.outside = [[tiles.known(view) for view in views] for views in outside]
        numbers: dict[int, View] = {}
        for number, view in zip(joined.from_iterable(self.outside), outside_views(chain), strict=True):
            # they have one number for other sizes as well: the comparison adds its conditions
            if number is not None and numbers.setdefault(number, view) != view:
                raise RuntimeError("views are one in a trace, but differ in its sizes")
        seen = {id(view) for views in outside for view in views}
        self.whole = {view.buffer: number for number, view in enumerate(tiles.reads) if id(view) not in seen}
        rows = tuple(tuple(layer.rows) for layer in chain)
        self.sizes: tuple[Any, ...] = rows, chain[-1].target.shape[0], tuple(map(_sizes_of, chain))
        self.formulas: list[list[Formula]] = [[] for _ in chain]
        values, starts = [dim.value for dim in trace.dims], tiles.starts
        for i, part in tiles.parts:
            if self._evaluated(i, (*values, *part, *_starts(starts, i))) is None:
                part_formula = self._formula(trace, tiles.program, chain, i, part, starts)
                if part_formula is not None:
                    self.formulas[i].append(part_formula)

    def close(self) -> None:
        """Drops what belongs to the trace, and the data of constants, which plans keep alive."""
        self.sizes = ()
        weights = [layer.problem.w.buffer for layer in self.chain]
        self.packing = {
            (plain(key), reads): replace(
                step, kernel=None, cache_key=None, writes=tuple(map(View.at_values, step.writes))
            )
            for (key, reads), step in self.packing.items()
            if reads[0].buffer in weights and all(view.is_constant for view in step.writes)
        }
        buffers = [view.buffer for step in self.packing.values() for view in (*step.reads, *step.writes)]
        buffers += self.whole
        for problem in (layer.problem for layer in self.chain):
            views = (problem.x, problem.y, problem.w, problem.bias, *post.views(problem.epilogue))
            buffers += (view.buffer for view in views if view is not None)
        for buffer in buffers:
            buffer.elements = plain(buffer.elements)
            buffer.array = buffer.held = None

    def of(self, dims: Sequence[int], sizes: Sequence[Any]) -> tuple[Any, int] | None:
        """Returns the kernel for the values of `dims` and of `sizes`, and its bytes of scratch; None if it has none."""
        rows, images, layers = sizes
        divided = bands_of(rows, images, self.threads)
        if not divided.count:
            return None
        chain: list[Layer] = []
        calls = []
        room, starts = 0, divided.starts
        for i, part in parts_of(divided):
            if not part.seen:
                return None
            computed = self._evaluated(i, (*dims, *part, *_starts(starts, i)))
            if computed is None:
                chain = chain or [_layer_of(layer, values) for layer, values in zip(self.chain, layers, strict=True)]
                computed = self._lowered(Program(), chain, i, part, starts)
                if computed is None:
                    return None
            calls.append(computed[0])
            room = max(room, computed[1])
        scratch_bytes = starts[-1] + room
        kernel = kernels.row_tiling(divided, calls, self.reads + 2, scratch_bytes)
        return kernel, max(scratch_bytes // 4, 1) * 4 * self.threads

    def _evaluated(self, i: int, values: Sequence[int]) -> _Calls | None:
        """Returns the calls of a part of the i-th layer by the first formula that holds for these values."""
        results = (part_formula(values) for part_formula in self.formulas[i])
        return next((result for result in results if result is not None), None)

    def _lowered(
        self, program: Program, chain: Sequence[Layer], i: int, part: Part, starts: Sequence[int]
    ) -> _Calls | None:
        """Lowers a part of the i-th layer; None if this is impossible, or if the part reads what the step does not."""
        lowered = lowered_part(program, chain, i, part, starts, self.env)
        if lowered is None:
            return None
        same: dict[Buffer, Buffer] = {}
        for step in lowered.before:
            other = self.packing.get((step.cache_key, step.reads))
            if other is None:
                return None
            same.update((mine.buffer, theirs.buffer) for mine, theirs in zip(step.writes, other.writes, strict=True))
        numbers = {id(view): number for view, number in zip(outside_views((chain[i],)), self.outside[i], strict=True)}
        calls = []
        for kernel, operands, _ in lowered.calls:
            numbered: list[Numbered] = []
            for operand in operands:
                number: int | None
                if isinstance(operand.what, int):
                    number = operand.what
                else:
                    buffer = operand.what.buffer
                    number = numbers.get(id(operand.what), self.whole.get(same.get(buffer, buffer)))
                if number is None:
                    return None
                numbered.append((number, *operand[1:]))
            calls.append((kernel, tuple(numbered)))
        return calls, lowered.room

    def _formula(
        self, trace: Trace, program: Program, chain: Sequence[Layer], i: int, part: Part, starts: Sequence[int]
    ) -> Formula | None:
        """Returns the calls of a part as a formula of the trace's dims, rows and offsets."""
        rows: list[Any] = [trace.dim(value, low, _MOST) for value, low in zip(part, _LEAST, strict=True)]
        places: list[Any] = [trace.dim(value, 0, _MOST) for value in _starts(starts, i)]
        symbolic: list[Any] = [0] * len(chain)
        if i > 0:
            symbolic[i - 1] = places[0]
        symbolic[i] = places[1]
        if i < len(chain) - 1:
            symbolic[-1] = places[2]
        with trace.apart() as conditions:
            computed = self._lowered(program, chain, i, Part(*rows), symbolic)
        if computed is None:
            return None
        calls, room = computed
        return formula(trace, [*trace.dims, *rows, *places], conditions, (tuple(calls), room))


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
        problem.geometry.resized(*varying),
        View(problem.y.buffer, *y),
        problem.w,
        View(problem.x.buffer, *x),
        problem.bias,
        epilogue,
        problem.narrowed,
    )
    return Layer(layer.group, problem, layer.algorithm, layer.decision)
