"""Fuses consecutive convolutions into one step by row tiling, so that results between them stay in the near caches.

The step computes a band: a few rows of the first layer, then the rows of the next layer that depend on them, and so on
to the last layer; then the next band. Rows are indices of the first spatial axis. Results between layers are larger
than the near caches and read by the next layer alone. The kernels are those of own algorithms, made for the rows of a
band. Layers are fused only where the estimate is below that of the layers one by one by their chosen algorithms.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import gcd
from operator import itemgetter, mul
from typing import Any, NamedTuple

from .. import dtypes
from .._core import kernels
from ..algorithms import choice, table
from ..algorithms.algorithm import Algorithm
from ..algorithms.lower import Decision, build
from ..algorithms.views import channels_last_strides
from ..backends.backend import FusionGroup
from ..convolution.nodes import CONV_KINDS
from ..convolution.problem import ConvProblem
from ..cost import model as cost
from ..cost import speeds
from ..ir.env import Env
from ..ir.rewrites import Rewrite
from ..program import epilogue as post
from ..program.program import Buffer, HostStep, KernelStep, Place, Program, Step, View

NEAR = 512 * 1024  # bytes of results between layers that stay in the near caches of a thread
# what a band moves: rows kept from the band before, and weights that exceed NEAR
_MOVED, _CALL = map(speeds.seconds, ("BAND_BYTE", "BAND_CALL"))
_ALIGNED = 64  # bytes
TILE_ROWS = Rewrite(
    "tile_rows",
    "convolutions behind each other run a few rows at a time",
    (
        "the next layer alone reads what lies between, which is dense and channels last",
        "the estimate says that it is faster",
    ),
)


@dataclass(frozen=True)
class Layer:
    """Describes a lowered convolution, as fprop, and the cheapest algorithm that could compute it by rows.

    `group`: the number that the program's steps of the layer have. `decision`: how the layer was lowered.
    """

    group: int
    problem: ConvProblem
    algorithm: Algorithm
    decision: Decision

    @property
    def source(self) -> View:
        """Returns the activation that the layer reads: its problem is fprop, which reads x."""
        return self.problem.x

    @property
    def target(self) -> View:
        return self.problem.y

    @property
    def rows(self) -> int:
        return self.problem.geometry.y[0]

    @property
    def _reach(self) -> int:
        g = self.problem.geometry
        return g.dilations[0] * (g.kernel[0] - 1) + 1

    def chosen(self, env: Env) -> float:
        """Returns the seconds of the layer alone, by the algorithm that was chosen for it."""
        return self.decision.candidates[0][1] * self._scale(env)

    def by_rows(self, env: Env) -> float:
        """Returns the seconds of the layer by `algorithm`, on all rows at once."""
        return dict(self.decision.candidates)[self.algorithm.name] * self._scale(env)

    def _scale(self, env: Env) -> float:
        return 1.0 if self.decision.measured else choice.scale(self.problem, env)

    def inner(self, count: int) -> int:
        """Returns how many rows of the source `count` neighbouring rows of the target depend on, padding included."""
        return (count - 1) * self.problem.geometry.strides[0] + self._reach

    def seen(self, rows: range) -> range:
        """Returns the rows of the source that these rows of the target depend on."""
        g = self.problem.geometry
        first, last = (row * g.strides[0] - g.pads_begin[0] for row in (rows.start, rows[-1]))
        return range(max(first, 0), min(last + self._reach, g.x[0]))

    def padding(self, rows: range) -> int:
        """Returns how many rows of padding before the source these rows of the target depend on."""
        return max(self.problem.geometry.pads_begin[0] - rows.start * self.problem.geometry.strides[0], 0)

    def cut(self, rows: range, source: View, target: View, epilogue: post.Epilogue) -> ConvProblem:
        """Returns the problem that computes these rows of one image: from `source`, the rows `seen`, to `target`."""
        g, seen, begin = self.problem.geometry, self.seen(rows), self.padding(rows)
        end = self.inner(len(rows)) - begin - len(seen)
        first = {"y": len(rows), "x": len(seen), "pads_begin": begin, "pads_end": end, "output_padding": 0}
        lists: dict[str, Any] = {name: (value, *getattr(g, name)[1:]) for name, value in first.items()}
        geometry = replace(g, batch=1, **lists)
        return self.problem.with_views(geometry=geometry, y=target, x=source, epilogue=epilogue)


def layers(decisions: Sequence[tuple[FusionGroup, Decision]]) -> list[Layer]:
    """Returns the convolutions of a program, as far as a candidate can compute them by rows: the cheapest such one.

    It need not be the algorithm that the convolution was lowered by.
    """
    found = []
    for number, (group, decision) in enumerate(decisions):
        problem = decision.problem
        if problem is not None and group.nodes[0].kind in CONV_KINDS:
            weighed = (table.named(name, problem.direction) for name, _ in decision.candidates)
            algorithm = next((a for a in weighed if a is not None and a.tiles_rows), None)
            if algorithm is not None:
                found.append(Layer(number, problem, algorithm, decision))
    return found


def tile_rows(program: Program, layers: Sequence[Layer], env: Env) -> None:
    """Replaces the steps of consecutive layers by one step that computes bands of rows, where this saves time."""
    if not env.prefers_builtin:
        return
    # steps that pack weights, by what the packed weights depend on; the first of equal ones
    packing: Packing = {
        (step.cache_key, step.reads): step
        for step in reversed(program.steps)
        if isinstance(step, KernelStep) and step.cache_key is not None and step.reads and step.condition is None
    }
    for run in _runs(program, layers):
        chains = _chains(run, env)
        if not chains:
            TILE_ROWS.declined(run[-1].algorithm.name, "the estimate says that it is faster")
        for chain in chains:
            tiles = _RowTiles(program, chain, env, packing)
            if tiles.complete:
                TILE_ROWS.fired(chain[-1].algorithm.name)
                tiles.replace_steps()
                packing = tiles.packing


def _chains(run: Sequence[Layer], env: Env) -> list[Sequence[Layer]]:
    """Returns the parts of a run of layers that should each become one step, so that they save the most seconds."""
    best: list[tuple[float, list[Sequence[Layer]]]] = [(0.0, [])]  # by number of layers
    for stop in range(1, len(run) + 1):
        ways = [best[-1]]
        for start in range(stop - 1):
            saved = saving(run[start:stop], env)
            if saved > 0:
                ways.append((best[start][0] + saved, [*best[start][1], run[start:stop]]))
        best.append(max(ways, key=itemgetter(0)))
    return best[-1][1]


def _runs(program: Program, layers: Sequence[Layer]) -> Iterator[list[Layer]]:
    """Yields the longest runs of layers in which each layer alone reads the result of the layer before."""
    readers = {layer.source.buffer: layer for layer in layers}
    touching: dict[Buffer, set[int | None]] = {}
    for step in program.steps:
        for view in (*step.reads, *step.writes):
            plain = not isinstance(step, HostStep) and step.condition is None
            touching.setdefault(view.buffer, set()).add(step.group if plain else None)
    joined: dict[int, Layer] = {}
    for layer in layers:
        after = readers.get(layer.target.buffer)
        if after is None:
            continue
        if touching[layer.target.buffer] != {layer.group, after.group} or not _fits(layer, after):
            TILE_ROWS.declined(
                after.algorithm.name, "the next layer alone reads what lies between, which is dense and channels last"
            )
        else:
            joined[layer.group] = after
    behind = {layer.group for layer in joined.values()}
    for layer in layers:
        if layer.group in joined and layer.group not in behind:
            run = [layer]
            while run[-1].group in joined:
                run.append(joined[run[-1].group])
            yield run


def _fits(first: Layer, after: Layer) -> bool:
    """Whether the result of `first` can stay in bands: scratch that `after` reads once, as its source.

    The result must be dense and channels last, and fill its buffer.
    """
    between = first.target
    alone = between.buffer.place is Place.SCRATCH and between.buffer.elements == between.size
    others = (*post.views(after.problem.epilogue), after.problem.w, after.problem.bias)
    read_once = all(view is None or view.buffer is not between.buffer for view in others)
    return alone and read_once and after.source == between and between.strides == channels_last_strides(between)


def saving(chain: Sequence[Layer], env: Env) -> float:
    """Returns the seconds that computing the chain by bands saves; negative if it takes longer.

    Bands save writing and reading the bytes of results between layers that exceed the near caches. If no bytes exceed
    the near caches, or not even one row fits into them, 0 is returned.
    """
    beyond = sum(max(cost.nbytes(layer.target) - NEAR * env.threads, 0) for layer in chain[:-1])
    count = _rows_of_a_band(chain) if beyond else 0
    if not count:
        return 0.0
    alone = sum(layer.chosen(env) for layer in chain)
    # bytes beyond the near caches would be written, and read again
    return alone + 2 * cost.passing(beyond, env.threads) - _tiled(chain, count, env)


def _tiled(chain: Sequence[Layer], count: int, env: Env) -> float:
    """Estimates the seconds of a chain by bands of `count` rows.

    The estimate includes rows that several threads compute, and the time of threads that have fewer parts than others.
    """
    images, each = chain[-1].target.shape[0], _parts(chain, count, env.threads)
    seconds = chain[-1].by_rows(env)
    moved = max(sum(cost.nbytes(layer.problem.w) for layer in chain) - NEAR, 0)
    for layer, after in pairwise(chain):
        # rows of the result between them that two neighbouring bands both read
        overlap = max(after.inner(1) - after.problem.geometry.strides[0], 0)
        seconds += layer.by_rows(env) * (1 + (each - 1) * overlap / layer.rows)
        moved += overlap * _row_bytes(layer.target)
    seconds += images * -(-chain[-1].rows // count) * (moved * _MOVED + len(chain) * _CALL) / env.threads
    turns = -(-images * each // env.threads)
    return seconds * turns * env.threads / (images * each)


def _rows_of_a_band(chain: Sequence[Layer]) -> int:
    """Returns how many rows of the last result a band has so that it fits the near caches; 0 if not even one fits."""
    rows, bytes_of_rows = chain[-1].rows, [_row_bytes(layer.target) for layer in chain[:-1]]
    # each further row of the last result adds the same number of bytes
    first, second = (sum(map(mul, _between(chain, count), bytes_of_rows)) for count in (1, 2))
    if first > NEAR:
        return 0
    count = min(rows, 1 + (NEAR - first) // (second - first))
    return -(-rows // -(-rows // count))


def _between(chain: Sequence[Layer], count: int) -> list[int]:
    """Returns, for each result between layers, how many of its rows `count` rows of the last result depend on."""
    counts = []
    for layer in reversed(chain[1:]):
        count = layer.inner(count)
        counts.append(count)
    return counts[::-1]


def _parts(chain: Sequence[Layer], count: int, threads: int) -> int:
    """Returns into how many parts the rows of an image are divided, so that all threads have work."""
    images, rows = chain[-1].target.shape[0], chain[-1].rows
    return min(threads // gcd(images, threads), -(-rows // count))


def _row_bytes(view: View) -> int:
    return channels_last_strides(view)[2] * dtypes.itemsize(view.dtype)


# operands that are no view: the thread's scratch, and the last result
_SCRATCH, _RESULT = -1, -2
# a call of a kernel: the kernel's number in `_RowTiles.kernels`, and the number and byte offset of each operand
_Placed = tuple[int, list[tuple[int, int]]]
Packing = dict[tuple[Hashable, tuple[View, ...]], KernelStep]


class _Operand(NamedTuple):
    """Describes an operand of a kernel call: a view, or the number _SCRATCH or _RESULT.

    The operand begins at an offset in bytes, to which each image and each row add `by_image` and `by_row`. The rows are
    those of the layer's target, or `of_source`. They count from the first row that the band holds of the result
    between layers of number `held`; None: from the first row of the image.
    """

    what: View | int
    offset: int = 0
    by_image: int = 0
    by_row: int = 0
    of_source: bool = False
    held: int | None = None


class _Call(NamedTuple):
    """Describes a call of a kernel, by its number in `_RowTiles.kernels`, on the rows of a band."""

    kernel: int
    operands: tuple[tuple[int, _Operand], ...]  # each with its number
    label: str


class _RowTiles:
    """Makes the kernels of a chain of layers, and the tasks that call them: lists of calls, each run by one thread."""

    def __init__(self, program: Program, chain: Sequence[Layer], env: Env, packing: Packing) -> None:
        self.program, self.chain = program, chain
        self.env = replace(env, threads=1)
        self.threads = env.threads
        self.kernels: list[Any] = []
        self.fixed: list[KernelStep] = []
        self.reads: list[View] = []
        self.parts: dict[tuple[int, int, int, int], list[_Call]] = {}
        self.copies: dict[int, int] = {}
        self.packing = dict(packing)
        # results of steps in front of the bands: by buffer, the program's own buffer that already has the same data
        self.same: dict[Buffer, Buffer] = {}
        self.room = 0  # bytes of scratch inside a layer, besides results between layers
        self.tasks: list[list[_Placed]] = []
        self.strides = [channels_last_strides(layer.target) for layer in chain[:-1]]
        self.row_bytes = [_row_bytes(layer.target) for layer in chain[:-1]]
        self.count = _rows_of_a_band(chain)
        # the byte offsets at which results between layers begin in a thread's scratch, and where they end
        sizes = map(mul, _between(chain, self.count), self.row_bytes)
        self.starts = [0, *accumulate(cost.padded(size, _ALIGNED) for size in sizes)]
        self.complete = self.count > 0 and self._all_parts()

    # -- how rows are divided ---------------------------------------------------------------------------------

    def _tasks(self) -> Iterator[tuple[int, range]]:
        """Yields an image and a range of rows of the last result for each task, which computes them band by band."""
        images, rows = self.chain[-1].target.shape[0], self.chain[-1].rows
        each = _parts(self.chain, self.count, self.threads)
        for image in range(images):
            for part in range(each):
                yield image, range(rows * part // each, rows * (part + 1) // each)

    def _bands(self, rows: range) -> Iterator[list[tuple[range, range, range]]]:
        """Yields for each band, by layer, ranges of target rows: to compute, held by the band before, and needed.

        Needed rows that the band before has computed are not computed again.
        """
        held = [range(0)] * len(self.chain)
        for start in range(rows.start, rows.stop, self.count):
            new = range(start, min(start + self.count, rows.stop))
            band = [(new, new, new)]
            for i in range(len(self.chain) - 2, -1, -1):
                before = held[i]
                if len(new):
                    held[i] = self.chain[i + 1].seen(new)
                    new = range(max(held[i].start, before.stop), held[i].stop)
                band.append((new, before, held[i]))
            yield band[::-1]

    # -- kernels ----------------------------------------------------------------------------------------------

    def _all_parts(self) -> bool:
        """Fills `tasks` and the kernels that they call; returns False if some layer cannot be computed by bands."""
        for image, rows in self._tasks():
            task: list[_Placed] = []
            for band in self._bands(rows):
                held = [needed for *_, needed in band]
                for i, (new, before, needed) in enumerate(band):
                    if i < len(self.strides):
                        task += self._kept(i, before, needed)
                    if not len(new):
                        continue
                    calls = self._part(i, new)
                    if calls is None:
                        return False
                    task += (self._placed(call, i, image, new, held) for call in calls)
            self.tasks.append(task)
        return True

    def _kept(self, i: int, before: range, now: range) -> Iterator[_Placed]:
        """Yields calls that copy rows of the i-th result between layers, kept for the next band, to its first rows.

        Each call copies at most `shift` rows, so that its source and target do not overlap.
        """
        shift, size = now.start - before.start, self.row_bytes[i]
        for row in range(now.start, before.stop, max(shift, 1)) if shift > 0 else ():
            count = min(shift, before.stop - row) * size
            if count not in self.copies:
                code = dtypes.CODES[self.chain[i].target.dtype]
                elements = count // dtypes.itemsize(self.chain[i].target.dtype)
                self.copies[count] = self._number(kernels.copy((elements,), code, (1,), code, (1,)))
            source = self.starts[i] + (row - before.start) * size
            yield self.copies[count], [(_SCRATCH, source), (_SCRATCH, source - shift * size)]

    def _number(self, kernel: Any) -> int:
        self.kernels.append(kernel)
        return len(self.kernels) - 1

    def _part(self, i: int, rows: range) -> list[_Call] | None:
        """Returns the calls that compute some rows of the i-th layer; None if it cannot be computed by bands.

        The layer cut to these rows is lowered on stand-in buffers, and its steps become calls. Rows of equal number,
        source rows and padding have the same calls.
        """
        layer = self.chain[i]
        key = i, len(rows), len(layer.seen(rows)), layer.padding(rows)
        if key in self.parts:
            return self.parts[key]
        moving: dict[Buffer, _Operand] = {}

        def stand_in(view: View, operand: _Operand, strides: tuple[int, ...]) -> View:
            count = len(layer.seen(rows) if operand.of_source else rows)
            shape = (1, view.shape[1], count if view.shape[2] > 1 else 1, *view.shape[3:])
            twin = View(Buffer(Place.SCRATCH, view.dtype, view.size), shape, strides)
            moving[twin.buffer] = operand
            return twin

        def outside(view: View, what: View | int, of_source: bool = False) -> View:
            if view.ndim < 3:
                return view
            item = dtypes.itemsize(view.dtype)
            by_image, _, by_row, *_ = (s * item if n > 1 else 0 for s, n in zip(view.strides, view.shape, strict=True))
            return stand_in(view, _Operand(what, 0, by_image, by_row, of_source), view.strides)

        def between(view: View, number: int, of_source: bool = False) -> View:
            place = _Operand(_SCRATCH, self.starts[number], 0, self.row_bytes[number], of_source, number)
            return stand_in(view, place, self.strides[number])

        if not len(layer.seen(rows)):
            return None
        source, target = layer.source, layer.target
        source = between(source, i - 1, True) if i > 0 else outside(source, source, True)
        target = between(target, i) if i < len(self.strides) else outside(target, _RESULT)
        epilogue = post.map_views(layer.problem.epilogue, lambda view: outside(view, view))
        part = layer.cut(rows, source, target, epilogue)
        if not layer.algorithm.applies(part, self.env):
            return None
        inside = Program()
        build(inside, part, layer.algorithm, self.env)
        calls = self._calls(inside.steps, moving)
        if calls is not None:
            self.parts[key] = calls
        return calls

    def _calls(self, steps: Sequence[Step], moving: Mapping[Buffer, _Operand]) -> list[_Call] | None:
        """Returns the steps of a layer cut to some rows as calls; None if one of them is conditional or no kernel.

        Steps that depend on no rows, such as the packing of weights, run once before all bands instead.
        """
        fixed: set[Buffer] = set()
        own: dict[Buffer, int] = {}
        calls = []
        for step in steps:
            if not isinstance(step, KernelStep) or step.condition:
                return None
            varies = not step.reads or any(view.buffer in moving or view.buffer in own for view in step.reads)
            if not varies:
                self._run_before(step)
                fixed.update(view.buffer for view in step.writes)
                continue
            operands = []
            for view in (*step.reads, *step.writes):
                buffer = view.buffer
                if buffer in moving:
                    operand = moving[buffer]
                elif buffer in fixed or (view in step.reads and buffer not in own):
                    buffer = self.same.get(buffer, buffer)
                    operand = _Operand(View(buffer, (buffer.elements,), (1,)))
                else:
                    if buffer not in own:
                        own[buffer] = self.starts[-1] + sum(cost.padded(other.nbytes, _ALIGNED) for other in own)
                    operand = _Operand(_SCRATCH, own[buffer])
                number = self._read(operand.what) if isinstance(operand.what, View) else operand.what
                operands.append((number, operand._replace(offset=operand.offset + view.byte_offset)))
            calls.append(_Call(self._number(step.kernel), tuple(operands), step.label))
        self.room = max(self.room, sum(cost.padded(buffer.nbytes, _ALIGNED) for buffer in own))
        return calls

    def _run_before(self, step: KernelStep) -> None:
        """Adds a step to those that run once before all bands.

        If the program has an equal step already, its results are used instead.
        """
        key = step.cache_key, step.reads
        other = self.packing.get(key) if step.cache_key is not None else None
        if other is None:
            self.fixed.append(replace(step, group=self.chain[-1].group))
            if step.cache_key is not None:
                self.packing[key] = step
            return
        for mine, theirs in zip(step.writes, other.writes, strict=True):
            self.same[mine.buffer] = theirs.buffer

    def _placed(self, call: _Call, i: int, image: int, rows: range, held: Sequence[range]) -> _Placed:
        """Returns a call for these rows of the i-th layer's target."""
        places = []
        for number, operand in call.operands:
            row = self.chain[i].seen(rows).start if operand.of_source else rows.start
            row -= 0 if operand.held is None else held[operand.held].start
            places.append((number, operand.offset + image * operand.by_image + row * operand.by_row))
        return call.kernel, places

    def _read(self, view: View) -> int:
        if view not in self.reads:
            self.reads.append(view)
        return self.reads.index(view)

    # -- the step ---------------------------------------------------------------------------------------------

    def replace_steps(self) -> None:
        """Replaces the program's steps of the layers by one step, with the steps that run once before it.

        Steps that depend on no rows stay in the program.
        """
        program, last = self.program, self.chain[-1]
        groups = [layer.group for layer in self.chain]
        for layer in self.chain:
            layer.decision.formulation = layer.algorithm.name
            layer.decision.compute = layer.algorithm.compute_dtype(layer.problem, self.env)
        each = self.starts[-1] + self.room
        scratch = program.scratch((max(each // 4, 1) * self.threads,), "f32")
        numbers = {_SCRATCH: len(self.reads), _RESULT: len(self.reads) + 1}
        tasks = [
            [(kernel, [(numbers.get(n, n), at) for n, at in operands]) for kernel, operands in task]
            for task in self.tasks
        ]
        kernel = kernels.row_tiling(self.kernels, tasks, len(self.reads) + 2, each, self.threads)
        gone = self._of_rows(groups)
        # the calls of one band
        by_layer = {i: calls for (i, *_), calls in self.parts.items()}
        label = " | ".join(call.label for i in range(len(self.chain)) for call in by_layer[i])
        writes = scratch, last.target
        tiled = KernelStep(kernel, tuple(self.reads), writes, label, last.group, others=tuple(groups[:-1]))
        program.steps = [
            one
            for at, step in enumerate(program.steps)
            for one in ([*self.fixed, tiled] if at == gone[-1] else [] if at in gone else [step])
        ]

    def _of_rows(self, groups: Sequence[int]) -> list[int]:
        """Returns the indices of the program's steps to replace: steps of these groups that depend on rows.

        Steps whose results others read are left out.
        """
        moving = {self.chain[0].source.buffer}
        moving.update(
            view.buffer for layer in self.chain for view in post.views(layer.problem.epilogue) if view.ndim > 2
        )
        of_rows = []
        for at, step in enumerate(self.program.steps):
            if step.group in groups and (not step.reads or any(view.buffer in moving for view in step.reads)):
                moving.update(view.buffer for view in step.writes)
                of_rows.append(at)
        # steps stay whose results, the last layer's apart, other steps read: a channels-last copy, for example
        result, read, gone = self.chain[-1].target.buffer, set[Buffer](), list[int]()
        for at in range(len(self.program.steps) - 1, of_rows[0] - 1, -1):
            step = self.program.steps[at]
            if at in of_rows and not any(v.buffer in read and v.buffer is not result for v in step.writes):
                gone.append(at)
            else:
                read.update([view.buffer for view in step.reads])
        return gone[::-1]
