"""Fuses consecutive convolutions into one step by row tiling, so that results between them stay in the near caches.

The step computes a band: a few rows of the first layer, then the rows of the next layer that depend on them, and so on
to the last layer; then the next band. Rows are indices of the first spatial axis. Results between layers are larger
than the near caches and read by the next layer alone. The kernels are those of own algorithms, made for the rows of a
band. Layers are fused only where the estimate is below that of the layers one by one by their chosen algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import gcd
from operator import itemgetter, mul
from typing import Any, NamedTuple

from .. import dtypes
from ..algorithms import choice, table
from ..algorithms.algorithm import Algorithm
from ..algorithms.lower import Decision, build
from ..algorithms.views import channels_last_strides
from ..backends.backend import FusionGroup
from ..convolution.nodes import CONV_KINDS
from ..convolution.problem import ConvProblem, Sizes, at_values
from ..cost import model as cost
from ..cost import speeds
from ..ir.env import Env
from ..ir.rewrites import Rewrite
from ..program import epilogue as post
from ..program.program import Buffer, HostStep, Ints, KernelStep, Place, Program, Step, View
from ..symbolic import Formula, Trace, current, kernels, plain

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


class Part(NamedTuple):
    """Rows of a layer's target: how many, of how many rows of the source, and rows of padding before the source."""

    rows: int
    seen: int
    padding: int


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

    def at_values(self) -> Layer:
        """Returns the layer with the values that its sizes have in a trace; itself where none is open."""
        problem = at_values(self.problem)
        return self if problem is self.problem else replace(self, problem=problem)

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
        stride, pad = g.strides[0], g.pads_begin[0]
        end = (rows.stop - 1) * stride - pad + self._reach
        return range(max(rows.start * stride - pad, 0), min(end, g.x[0]))

    def padding(self, rows: range) -> int:
        """Returns how many rows of padding before the source these rows of the target depend on."""
        return max(self.problem.geometry.pads_begin[0] - rows.start * self.problem.geometry.strides[0], 0)

    def cut(self, part: Part, source: View, target: View, epilogue: post.Epilogue) -> ConvProblem:
        """Returns the problem that computes a part of one image: from `source`, the rows `seen`, to `target`."""
        g = self.problem.geometry
        end = self.inner(part.rows) - part.padding - part.seen
        first = {"y": part.rows, "x": part.seen, "pads_begin": part.padding, "pads_end": end, "output_padding": 0}
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
        chains = _chains([layer.at_values() for layer in run], env)
        if not chains:
            TILE_ROWS.declined(run[-1].algorithm.name, "the estimate says that it is faster")
        for chain in chains:
            tiles = _RowTiles(program, chain, env, packing)
            if tiles.complete:
                TILE_ROWS.fired(chain[-1].algorithm.name)
                packing = tiles.packing
                groups = [layer.group for layer in chain]
                tiles.replace_steps([layer for layer in run if layer.group in groups])


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


class _Lowered(NamedTuple):
    """The calls that compute some rows of a layer: kernel, operands and label of each.

    `before`: steps that depend on no rows, such as the packing of weights, which run once before all bands. `room`:
    bytes of scratch that the calls need beside results between layers.
    """

    calls: list[tuple[Any, list[_Operand], str]]
    before: list[KernelStep]
    room: int


def _lowered(chain: Sequence[Layer], i: int, part: Part, starts: Sequence[int], env: Env) -> _Lowered | None:
    """Lowers a part of the i-th layer of a chain on stand-in buffers; None if it cannot be computed by bands.

    `starts`: the byte offsets at which results between layers begin in a thread's scratch, and where they end.
    """
    layer = chain[i]
    moving: dict[Buffer, _Operand] = {}

    def stand_in(view: View, operand: _Operand, strides: tuple[int, ...]) -> View:
        count = part.seen if operand.of_source else part.rows
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
        place = _Operand(_SCRATCH, starts[number], 0, _row_bytes(chain[number].target), of_source, number)
        return stand_in(view, place, channels_last_strides(chain[number].target))

    source, target = layer.source, layer.target
    source = between(source, i - 1, True) if i > 0 else outside(source, source, True)
    target = between(target, i) if i < len(chain) - 1 else outside(target, _RESULT)
    epilogue = post.map_views(layer.problem.epilogue, lambda view: outside(view, view))
    problem = layer.cut(part, source, target, epilogue)
    if not layer.algorithm.applies(problem, env):
        return None
    inside = Program()
    build(inside, problem, layer.algorithm, env)
    return _as_calls(inside.steps, moving, starts[-1])


def _as_calls(steps: Sequence[Step], moving: Mapping[Buffer, _Operand], end: int) -> _Lowered | None:
    """Returns the steps of a layer cut to some rows as calls; None if one of them is conditional or no kernel.

    `end`: the byte offset in a thread's scratch at which the scratch of the steps begins.
    """
    fixed: set[Buffer] = set()
    inner: dict[Buffer, int] = {}
    lowered = _Lowered([], [], 0)
    room = 0
    for step in steps:
        if not isinstance(step, KernelStep) or step.condition:
            return None
        varies = not step.reads or any(view.buffer in moving or view.buffer in inner for view in step.reads)
        if not varies:
            lowered.before.append(step)
            fixed.update(view.buffer for view in step.writes)
            continue
        operands = []
        for view in (*step.reads, *step.writes):
            buffer = view.buffer
            if buffer in moving:
                operand = moving[buffer]
            elif buffer in fixed or (view in step.reads and buffer not in inner):
                operand = _Operand(View(buffer, (buffer.elements,), (1,)))
            else:
                if buffer not in inner:
                    inner[buffer] = end + room
                    room += cost.padded(buffer.nbytes, _ALIGNED)
                operand = _Operand(_SCRATCH, inner[buffer])
            operands.append(operand._replace(offset=operand.offset + view.byte_offset))
        lowered.calls.append((step.kernel, operands, step.label))
    return lowered._replace(room=room)


class _RowTiles:
    """Makes the kernels of a chain of layers, and the tasks that call them: lists of calls, each run by one thread."""

    def __init__(
        self,
        program: Program,
        chain: Sequence[Layer],
        env: Env,
        packing: Packing,
        again: Callable[[int, Part, Sequence[int]], _Lowered | None] = lambda i, part, starts: None,
    ) -> None:
        self.program, self.chain = program, chain
        self.env = replace(env, threads=1)
        self.threads = env.threads
        self.again = again
        self.kernels: list[Any] = []
        self.fixed: list[KernelStep] = []
        self.reads: list[View] = []
        self.numbers: dict[tuple[Any, ...], int] = {}  # of reads, as a view is compared slowly
        self.parts: dict[tuple[int, Part], list[_Call]] = {}
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
                held = [needed.start for *_, needed in band]
                for i, (new, before, needed) in enumerate(band):
                    if i < len(self.strides) and needed.start > before.start:
                        task += self._kept(i, before, needed)
                    if not new:
                        continue
                    seen = self.chain[i].seen(new)
                    calls = self._part(i, Part(len(new), len(seen), self.chain[i].padding(new)))
                    if calls is None:
                        return False
                    first = new.start, seen.start
                    task += [(call.kernel, _placed(call.operands, image, first, held)) for call in calls]
            self.tasks.append(task)
        return True

    def _kept(self, i: int, before: range, now: range) -> Iterator[_Placed]:
        """Yields calls that copy rows of the i-th result between layers, kept for the next band, to its first rows.

        Each call copies at most `shift` rows, so that its source and target do not overlap.
        """
        shift, size = now.start - before.start, self.row_bytes[i]
        for row in range(now.start, before.stop, shift):
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

    def _part(self, i: int, part: Part) -> list[_Call] | None:
        """Returns the calls that compute a part of the i-th layer; None if it cannot be computed by bands."""
        if (i, part) not in self.parts:
            if not part.seen:
                return None
            lowered = self.again(i, part, self.starts) or _lowered(self.chain, i, part, self.starts, self.env)
            if lowered is None:
                return None
            self.parts[i, part] = self._numbered(lowered)
        return self.parts[i, part]

    def _numbered(self, lowered: _Lowered) -> list[_Call]:
        """Returns the calls of a part with numbers of their kernels and operands."""
        for step in lowered.before:
            self._run_before(step)
        calls = []
        for kernel, operands, label in lowered.calls:
            numbered = ((self._read(o.what) if isinstance(o.what, View) else o.what, o) for o in operands)
            calls.append(_Call(self._number(kernel), tuple(numbered), label))
        self.room = max(self.room, lowered.room)
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

    def _read(self, view: View) -> int:
        buffer = self.same.get(view.buffer)
        view = view if buffer is None else replace(view, buffer=buffer)
        key = id(view.buffer), view.offset, view.shape, view.strides
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.reads)
            self.reads.append(view)
        return number

    # -- the step ---------------------------------------------------------------------------------------------

    def kernel(self) -> Any:
        """Returns the kernel of the step; operands are the views `reads`, scratch, and the last result."""
        numbers = {_SCRATCH: len(self.reads), _RESULT: len(self.reads) + 1}
        tasks = [
            [(kernel, [(numbers.get(n, n), at) for n, at in operands]) for kernel, operands in task]
            for task in self.tasks
        ]
        return kernels.row_tiling(self.kernels, tasks, len(self.reads) + 2, self.scratch_bytes, self.threads)

    @property
    def scratch_bytes(self) -> int:
        """Returns the bytes of scratch of each thread."""
        return self.starts[-1] + self.room

    def replace_steps(self, traced: Sequence[Layer]) -> None:
        """Replaces the program's steps of the layers by one step, with the steps that run once before it.

        Steps that depend on no rows stay in the program. `traced`: the layers of the chain with sizes of a trace, if
        one is open.
        """
        program, last = self.program, self.chain[-1]
        groups = [layer.group for layer in self.chain]
        for layer in self.chain:
            layer.decision.formulation = layer.algorithm.name
            layer.decision.compute = layer.algorithm.compute_dtype(layer.problem, self.env)
        scratch = program.scratch((max(self.scratch_bytes // 4, 1) * self.threads,), "f32")
        trace = current()
        kernel = self.kernel() if trace is None else Tiled(trace, self, traced)
        gone = self._of_rows(groups)
        # the calls of one band
        by_layer = {i: calls for (i, *_), calls in self.parts.items()}
        label = " | ".join(call.label for i in range(len(self.chain)) for call in by_layer[i])
        writes = scratch, traced[-1].target
        symbolic = dict(zip(_outside(self.chain), _outside(traced), strict=True))
        reads = tuple(symbolic.get(view, view) for view in self.reads)
        tiled = KernelStep(kernel, reads, writes, label, last.group, others=tuple(groups[:-1]))
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


def _placed(
    operands: Sequence[tuple[int, _Operand]], image: int, first: tuple[int, int], held: Sequence[int]
) -> list[tuple[int, int]]:
    """Returns numbers and byte offsets of operands for an image.

    `first`: the first rows of the layer's target and source. `held`: those of results between layers in the band.
    """
    return [
        (
            number,
            offset + image * by_image + (first[of_source] - (0 if number_held is None else held[number_held])) * by_row,
        )
        for number, (_, offset, by_image, by_row, of_source, number_held) in operands
    ]


def _outside(chain: Sequence[Layer]) -> list[View]:
    """Returns the views that parts of the layers may read: the layers' sources, and the operands of their post-ops."""
    return [view for layer in chain for view in (layer.source, *post.views(layer.problem.epilogue))]


_UNDECIDED = Decision("", "")
_VARYING = ("batch", "y", "x", "pads_begin", "pads_end", "output_padding")
# of a trace's dims for a part of a layer: its rows, rows of the source and padding, and byte offsets in scratch
_MOST = 1 << 40


class Tiled:
    """Stands for the kernel of a step of bands in a trace, and makes the kernel for other sizes.

    `sizes`: nested tuples of the sizes that the kernel depends on, from whose values `of` makes the kernel. The parts
    of layers are formulas of their rows; a part that no formula holds for is lowered again.
    """

    def __init__(self, trace: Trace, tiles: _RowTiles, chain: Sequence[Layer]) -> None:
        self.chain = tuple(replace(layer, decision=_UNDECIDED) for layer in tiles.chain)
        self.env = replace(tiles.env, threads=tiles.threads)
        self.packing = tiles.packing
        self.reads = tuple(view.buffer for view in tiles.reads)
        self.sizes = tuple(map(_sizes_of, chain))
        self.formulas: list[list[tuple[Formula, _Pattern]]] = [[] for _ in chain]
        values = [dim.value for dim in trace.dims]
        for i, part in tiles.parts:
            if self._evaluated(self.chain[i], i, values, part, tiles.starts) is None:
                formula = _formula(trace, tiles, chain, i, part)
                if formula is not None:
                    self.formulas[i].append(formula)

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

        def again(i: int, part: Part, starts: Sequence[int]) -> _Lowered | None:
            return self._evaluated(chain[i], i, dims, part, starts)

        tiles = _RowTiles(Program(), chain, self.env, self.packing, again)
        if not tiles.complete or tiles.fixed or tuple(view.buffer for view in tiles.reads) != self.reads:
            return None
        return tiles.kernel(), max(tiles.scratch_bytes // 4, 1) * 4 * tiles.threads

    def _evaluated(
        self, layer: Layer, i: int, dims: Sequence[int], part: Part, starts: Sequence[int]
    ) -> _Lowered | None:
        """Returns a part of the i-th layer by the first formula that holds for it."""
        for formula, pattern in self.formulas[i]:
            made = formula(*dims, *part, *_starts(starts, i))
            if made is None:
                continue
            kernels, places, room = made
            outside = _outside((layer,))
            calls = []
            for kernel, (operands, label), offsets in zip(kernels, pattern, places, strict=True):
                placed = []
                for (what, *_, of_source, held), (at, by_image, by_row) in zip(operands, offsets, strict=True):
                    view = outside[what] if isinstance(what, int) and what >= 0 else what
                    placed.append(_Operand(view, at, by_image, by_row, of_source, held))
                calls.append((kernel, placed, label))
            return _Lowered(calls, [], room)
        return None


# of each call its operands, in which offsets are left open and views of the layer are numbers, and its label
_Pattern = list[tuple[list[_Operand], str]]


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
    trace: Trace, tiles: _RowTiles, chain: Sequence[Layer], i: int, part: Part
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
        lowered = _lowered(chain, i, Part(*rows), starts, tiles.env)
        if lowered is None:
            return None
        for step in lowered.before:
            other = tiles.packing.get((step.cache_key, step.reads))
            if other is None:
                return None
            same.update((mine.buffer, theirs.buffer) for mine, theirs in zip(step.writes, other.writes, strict=True))
    outside = _outside((chain[i],))

    def pattern_of(operand: _Operand) -> _Operand:
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
    return Formula(trace, [*trace.dims, *rows, *places], conditions, result), pattern
