"""Layers behind each other as one step, by bands of rows: what lies between them stays in the near caches.

A result that is larger than those caches, and that only the next layer reads, is computed a few rows at a time; behind
them come the rows of the next layer that see these. Rows are positions on the first spatial axis. The kernels are those
of own algorithms, made for as many rows as a band has. A chain of layers runs so where that takes less time by estimate
than the layers one by one by the algorithms that were chosen for them, with what lies between them in far caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd
from operator import itemgetter, mul
from typing import Any, NamedTuple

from .. import dtypes
from .._core import kernels
from ..lowering import cost
from ..lowering import tail as post
from ..lowering.env import Env
from ..lowering.problem import Problem
from ..lowering.program import Buffer, HostStep, KernelStep, Place, Program, Step, View, dense_in
from ..lowering.rewrites import Rewrite
from . import choice, table
from .algorithm import Algorithm
from .lower import Decision, build, with_own_bias

NEAR = 512 * 1024  # bytes of a thread between layers that stay in its near caches
MOVED = 5e-11  # seconds of a byte that a band moves: rows that the one before it has seen, and many weights
CALL = 1e-6  # seconds of a kernel's call
_ALIGNED = 64
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
    """A layer as it was lowered, and the algorithm that could compute it by rows. `group`: the number of its steps'."""

    group: int
    problem: Problem
    algorithm: Algorithm
    decision: Decision

    @property
    def source(self) -> View:
        """The activation that the layer reads, a few rows at a time."""
        return self.problem.dst

    @property
    def target(self) -> View:
        return self.problem.src

    @property
    def rows(self) -> int:
        return self.problem.geometry.src[0]

    @property
    def _reach(self) -> int:
        g = self.problem.geometry
        return g.dilations[0] * (g.kernel[0] - 1) + 1

    @property
    def overlap(self) -> int:
        """The rows of the source that two bands see."""
        return max(self._reach - self.problem.geometry.strides[0], 0)

    def chosen(self, env: Env) -> float:
        """Seconds of the layer by itself."""
        return self.decision.candidates[0][1] * self._scale(env)

    def by_rows(self, env: Env) -> float:
        """Seconds of the algorithm that could compute it by rows."""
        return dict(self.decision.candidates)[self.algorithm.name] * self._scale(env)

    def _scale(self, env: Env) -> float:
        return 1.0 if self.decision.measured else choice.scale(self.problem, env)

    def inner(self, count: int) -> int:
        """The rows of the source that so many rows of the target see, away from its ends."""
        return (count - 1) * self.problem.geometry.strides[0] + self._reach

    def seen(self, rows: range) -> range:
        """The rows of the source that these rows of the target see."""
        g = self.problem.geometry
        first, last = (row * g.strides[0] - g.pads_begin[0] for row in (rows.start, rows[-1]))
        return range(max(first, 0), min(last + self._reach, g.dst[0]))

    def padding(self, rows: range) -> int:
        """How many rows before the source's first one these rows of the target see."""
        return max(self.problem.geometry.pads_begin[0] - rows.start * self.problem.geometry.strides[0], 0)

    def cut(self, rows: range, source: View, target: View, tail: post.Tail) -> Problem:
        """The problem of these rows of one image alone."""
        g, seen, begin = self.problem.geometry, self.seen(rows), self.padding(rows)
        end = self.inner(len(rows)) - begin - len(seen)
        first = {"src": len(rows), "dst": len(seen), "pads_begin": begin, "pads_end": end, "output_padding": 0}
        lists: dict[str, Any] = {name: (value, *getattr(g, name)[1:]) for name, value in first.items()}
        geometry = replace(g, batch=1, **lists)
        return self.problem.with_views(geometry=geometry, src=target, dst=source, tail=tail)


def layers(group: int, problem: Problem, decision: Decision) -> list[Layer]:
    """A layer with the cheapest algorithm that computes it by rows, whichever it was lowered by; none without one."""
    weighed = (table.named(name, problem.direction) for name, _ in decision.candidates)
    algorithm = next((a for a in weighed if a is not None and a.tiles_rows), None)
    return [] if algorithm is None else [Layer(group, with_own_bias(problem), algorithm, decision)]


def in_bands(program: Program, layers: Sequence[Layer], env: Env) -> None:
    """Replace the steps of layers by one that computes them by bands, where that saves time."""
    if not env.prefers_own:
        return
    for run in _runs(program, layers):
        chains = _chains(run, env)
        if not chains:
            TILE_ROWS.declined(run[-1].algorithm.name, "the estimate says that it is faster")
        for chain in chains:
            tiles = _Bands(program, chain, env)
            if tiles.complete:
                TILE_ROWS.fired(chain[-1].algorithm.name)
                tiles.replace_steps()


def _chains(run: Sequence[Layer], env: Env) -> list[Sequence[Layer]]:
    """The parts of a run of layers that save the most seconds together."""
    best: list[tuple[float, list[Sequence[Layer]]]] = [(0.0, [])]  # by the number of layers from the first one on
    for stop in range(1, len(run) + 1):
        ways = [best[-1]]
        for start in range(stop - 1):
            saved = saving(run[start:stop], env)
            if saved > 0:
                ways.append((best[start][0] + saved, [*best[start][1], run[start:stop]]))
        best.append(max(ways, key=itemgetter(0)))
    return best[-1][1]


def _runs(program: Program, layers: Sequence[Layer]) -> Iterator[list[Layer]]:
    """Layers each of which reads what the one before it gives, that to nobody else."""
    readers = {layer.source.buffer: layer for layer in layers}
    touching: dict[Buffer, set[int | None]] = {}
    for step in program.steps:
        for view in (*step.reads, *step.writes):
            touching.setdefault(view.buffer, set()).add(step.group if _is_plain(step) else None)
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


def _is_plain(step: Step) -> bool:
    return not isinstance(step, HostStep) and step.condition is None


def _fits(first: Layer, after: Layer) -> bool:
    """Whether what lies between two layers is theirs alone, and dense with the channels as the last axis."""
    between = first.target
    alone = between.buffer.place is Place.SCRATCH and between.buffer.elements == between.size
    others = (*post.views(after.problem.tail), after.problem.weights, after.problem.bias)
    read_once = all(view is None or view.buffer is not between.buffer for view in others)
    return alone and read_once and after.source == between and between.strides == _band_strides(between)


def _band_strides(view: View) -> tuple[int, ...]:
    return dense_in(view.shape, (0, *range(2, view.ndim), 1))


def saving(chain: Sequence[Layer], env: Env) -> float:
    """Seconds that bands save: what of the results between layers exceeds the near caches stays in them."""
    beyond = sum(max(cost.nbytes(layer.target) - NEAR * env.threads, 0) for layer in chain[:-1])
    count = _rows_of_a_band(chain) if beyond else 0
    if not count:
        return 0.0
    alone = sum(layer.chosen(env) for layer in chain)
    # written, and read again
    return alone + 2 * cost.passing(beyond, env.threads) - _tiled(chain, count, env)


def _tiled(chain: Sequence[Layer], count: int, env: Env) -> float:
    """Seconds of a chain by bands of so many rows: threads may lack a part, or compute rows that another one does."""
    images, each = chain[-1].target.shape[0], _parts(chain, count, env.threads)
    seconds = chain[-1].by_rows(env)
    moved = max(sum(cost.nbytes(layer.problem.weights) for layer in chain) - NEAR, 0)
    for layer, after in pairwise(chain):
        seconds += layer.by_rows(env) * (1 + (each - 1) * after.overlap / layer.rows)
        moved += after.overlap * _row_bytes(layer.target)
    seconds += images * -(-chain[-1].rows // count) * (moved * MOVED + len(chain) * CALL) / env.threads
    turns = -(-images * each // env.threads)
    return seconds * turns * env.threads / (images * each)


def _rows_of_a_band(chain: Sequence[Layer]) -> int:
    """0: not even one row of all stays near."""
    rows, bytes_of_rows = chain[-1].rows, [_row_bytes(layer.target) for layer in chain[:-1]]
    # every further row of the last layer takes as many bytes
    first, second = (sum(map(mul, _between(chain, count), bytes_of_rows)) for count in (1, 2))
    if first > NEAR:
        return 0
    count = min(rows, 1 + (NEAR - first) // (second - first))
    return -(-rows // -(-rows // count))


def _between(chain: Sequence[Layer], count: int) -> list[int]:
    """Rows of each result between layers that so many rows of the last one see."""
    counts = []
    for layer in reversed(chain[1:]):
        count = layer.inner(count)
        counts.append(count)
    return counts[::-1]


def _parts(chain: Sequence[Layer], count: int, threads: int) -> int:
    """How many threads divide the rows of an image."""
    images, rows = chain[-1].target.shape[0], chain[-1].rows
    return min(threads // gcd(images, threads), -(-rows // count))


def _row_bytes(view: View) -> int:
    return _band_strides(view)[2] * dtypes.itemsize(view.dtype)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


_SOURCE, _TARGET, _SCRATCH = "source", "target", "scratch"


class _Operand(NamedTuple):
    """Of a kernel in bands: the layer's source or target, a thread's scratch, or a view; from an offset in bytes on.

    A view may move on with images and rows, by so many bytes each.
    """

    what: View | str
    offset: int = 0
    by_image: int = 0
    by_row: int = 0


class _Call(NamedTuple):
    kernel: int
    operands: tuple[_Operand, ...]
    label: str


class _Bands:
    """The kernels of a chain of layers, and who computes what with them."""

    def __init__(self, program: Program, chain: Sequence[Layer], env: Env) -> None:
        self.program, self.chain = program, chain
        self.env = replace(env, threads=1)
        self.threads = env.threads
        self.kernels: list[Any] = []
        self.fixed: list[KernelStep] = []
        self.reads: list[View] = []
        self.parts: dict[tuple[int, int, int, int], list[_Call] | None] = {}
        self.copies: dict[int, int] = {}
        # buffers of steps that only a sub-program has, by those that the program has already
        self.same: dict[Buffer, Buffer] = {}
        self.room = 0  # bytes of the kernels' own scratch
        self.tasks: list[list[tuple[int, list[tuple[int, int]]]]] = []
        self.strides = [_band_strides(layer.target) for layer in chain[:-1]]
        self.row_bytes = [_row_bytes(layer.target) for layer in chain[:-1]]
        self.count = _rows_of_a_band(chain)
        self.complete = self.count > 0 and self._all_parts()

    # -- how rows are divided ---------------------------------------------------------------------------------

    def _tasks(self) -> Iterator[tuple[int, range]]:
        """An image and the rows of the last result that a thread computes one band after the other."""
        images, rows = self.chain[-1].target.shape[0], self.chain[-1].rows
        each = _parts(self.chain, self.count, self.threads)
        for image in range(images):
            for part in range(each):
                yield image, range(rows * part // each, rows * (part + 1) // each)

    def _bands(self, rows: range) -> Iterator[list[tuple[range, range]]]:
        """For each band, of every layer the rows that are new and those of its result that the band sees."""
        held = [range(0)] * len(self.chain)
        for start in range(rows.start, rows.stop, self.count):
            new = held[-1] = range(start, min(start + self.count, rows.stop))
            found = [(new, new)]
            for i in range(len(self.chain) - 2, -1, -1):
                if len(new):
                    seen = self.chain[i + 1].seen(new)
                    new = range(max(seen.start, held[i].stop), seen.stop)
                    held[i] = seen
                found.append((new, held[i]))
            yield found[::-1]

    # -- kernels ----------------------------------------------------------------------------------------------

    def _all_parts(self) -> bool:
        """Make the tasks and all that they call; False where a layer cannot be cut like this."""
        for image, rows in self._tasks():
            task: list[tuple[int, list[tuple[int, int]]]] = []
            held = [range(0)] * len(self.strides)
            for band in self._bands(rows):
                for i, (new, seen) in enumerate(band):
                    if i < len(held):
                        task += self._kept(i, held[i], seen)
                        held[i] = seen
                    if not len(new):
                        continue
                    calls = self._part(i, new)
                    if calls is None:
                        return False
                    task += (self._placed(call, i, image, new, held) for call in calls)
            self.tasks.append(task)
        return True

    def _kept(self, i: int, before: range, now: range) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Rows that were there go to the front, as few at a time as lie apart."""
        shift, size = now.start - before.start, self.row_bytes[i]
        for row in range(now.start, before.stop, max(shift, 1)) if shift > 0 else ():
            count = min(shift, before.stop - row) * size
            if count not in self.copies:
                code = dtypes.CODES[self.chain[i].target.dtype]
                elements = count // dtypes.itemsize(self.chain[i].target.dtype)
                self.copies[count] = self._number(kernels.copy((elements,), code, (1,), code, (1,)))
            source = self._start(i) + (row - before.start) * size
            yield self.copies[count], [(-1, source), (-1, source - shift * size)]

    def _start(self, i: int) -> int:
        """Where the rows of a result between layers begin in a thread's scratch."""
        most = _between(self.chain, self.count)
        return sum(_aligned(most[j] * self.row_bytes[j]) for j in range(i))

    def _number(self, kernel: Any) -> int:
        self.kernels.append(kernel)
        return len(self.kernels) - 1

    def _part(self, i: int, rows: range) -> list[_Call] | None:
        """The calls for some rows of a layer; the same for all that see as much."""
        layer = self.chain[i]
        key = i, len(rows), len(layer.seen(rows)), layer.padding(rows)
        if key not in self.parts:
            self.parts[key] = self._made(i, rows)
        return self.parts[key]

    def _made(self, i: int, rows: range) -> list[_Call] | None:
        layer = self.chain[i]
        moving: dict[Buffer, _Operand] = {}

        def stand_in(view: View, count: int, meant: _Operand, strides: tuple[int, ...] | None = None) -> View:
            shape = (1, view.shape[1], count if view.shape[2] > 1 else 1, *view.shape[3:])
            twin = View(Buffer(Place.SCRATCH, view.dtype, view.size), shape, strides or view.strides)
            moving[twin.buffer] = meant
            return twin

        def beside(view: View) -> View:
            if view.ndim < 3:
                return view
            item = dtypes.itemsize(view.dtype)
            steps = (stride * item if size > 1 else 0 for stride, size in zip(view.strides, view.shape, strict=True))
            by_image, _, by_row, *_ = steps
            return stand_in(view, len(rows), _Operand(view, 0, by_image, by_row))

        before = self.strides[i - 1] if i > 0 else None
        after = self.strides[i] if i < len(self.strides) else None
        source = stand_in(layer.source, len(layer.seen(rows)), _Operand(_SOURCE), before)
        target = stand_in(layer.target, len(rows), _Operand(_TARGET), after)
        if not len(layer.seen(rows)):
            return None
        part = layer.cut(rows, source, target, post.map_views(layer.problem.tail, beside))
        if not layer.algorithm.applies(part, self.env):
            return None
        inside = Program()
        build(inside, part, layer.algorithm, self.env)
        return self._calls(inside.steps, moving)

    def _calls(self, steps: Sequence[Step], moving: Mapping[Buffer, _Operand]) -> list[_Call] | None:
        """Steps on stand-ins as calls; those that no row has a part in run before them all."""
        fixed: set[Buffer] = set()
        own: dict[Buffer, int] = {}
        start = self._start(len(self.strides))
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
                        own[buffer] = start + sum(_aligned(other.nbytes) for other in own)
                    operand = _Operand(_SCRATCH, own[buffer])
                operands.append(operand._replace(offset=operand.offset + view.byte_offset))
            calls.append(_Call(self._number(step.kernel), tuple(operands), step.label))
        self.room = max(self.room, sum(_aligned(buffer.nbytes) for buffer in own))
        return calls

    def _run_before(self, step: KernelStep) -> None:
        """Once, where the program does not do the same already."""
        for other in (*self.program.steps, *self.fixed):
            alike = isinstance(other, KernelStep) and step.recipe is not None and other.recipe == step.recipe
            if alike and other.reads == step.reads and other.condition is None:
                for mine, theirs in zip(step.writes, other.writes, strict=True):
                    self.same[mine.buffer] = theirs.buffer
                return
        self.fixed.append(replace(step, group=self.chain[-1].group))

    def _placed(
        self, call: _Call, i: int, image: int, rows: range, held: Sequence[range]
    ) -> tuple[int, list[tuple[int, int]]]:
        """A call for these rows: numbers of operands, -1 for scratch, -2 for the last result, and offsets."""
        layer, found = self.chain[i], []
        for what, offset, by_image, by_row in call.operands:
            if what == _SOURCE:
                row = layer.seen(rows).start
                number, at = self._in_view(layer.source, image, row) if i == 0 else self._in_band(i - 1, row, held)
            elif what == _TARGET:
                last, row = i == len(self.strides), rows.start
                number, at = self._in_view(layer.target, image, row, -2) if last else self._in_band(i, row, held)
            else:
                number = self._read(what) if isinstance(what, View) else -1
                at = image * by_image + rows.start * by_row
            found.append((number, at + offset))
        return call.kernel, found

    def _read(self, view: View) -> int:
        if view not in self.reads:
            self.reads.append(view)
        return self.reads.index(view)

    def _in_view(self, view: View, image: int, row: int, number: int | None = None) -> tuple[int, int]:
        at = (image * view.strides[0] + row * view.strides[2]) * dtypes.itemsize(view.dtype)
        return (self._read(view) if number is None else number), at

    def _in_band(self, i: int, row: int, held: Sequence[range]) -> tuple[int, int]:
        return -1, self._start(i) + (row - held[i].start) * self.row_bytes[i]

    # -- the step ---------------------------------------------------------------------------------------------

    def replace_steps(self) -> None:
        """The program's steps of the layers, of which those stay that no row has a part in, with one in their place."""
        program, last = self.program, self.chain[-1]
        groups = [layer.group for layer in self.chain]
        for layer in self.chain:
            layer.decision.formulation = layer.algorithm.name
            layer.decision.compute = layer.algorithm.compute_dtype(layer.problem, self.env)
        each = self._start(len(self.strides)) + self.room
        scratch = program.scratch((max(each // 4, 1) * self.threads,), "f32")
        numbers = {-1: len(self.reads), -2: len(self.reads) + 1}
        tasks = [
            [(kernel, [(numbers.get(n, n), at) for n, at in operands]) for kernel, operands in task]
            for task in self.tasks
        ]
        kernel = kernels.bands(self.kernels, tasks, len(self.reads) + 2, each, self.threads)
        gone = self._of_rows(groups)
        label = " | ".join(self._labels())
        writes = scratch, last.target
        tiled = KernelStep(kernel, tuple(self.reads), writes, label, last.group, others=tuple(groups[:-1]))
        program.steps = [
            one
            for at, step in enumerate(program.steps)
            for one in ([*self.fixed, tiled] if at == gone[-1] else [] if at in gone else [step])
        ]

    def _labels(self) -> Iterator[str]:
        """The labels of a band's calls, layer by layer."""
        by_layer = {i: calls or () for (i, *_), calls in self.parts.items()}
        for i in range(len(self.chain)):
            yield from (call.label for call in by_layer[i])

    def _of_rows(self, groups: Sequence[int]) -> list[int]:
        """Where the program has steps of the layers that rows have a part in."""
        moving = {self.chain[0].source.buffer}
        moving.update(view.buffer for layer in self.chain for view in post.views(layer.problem.tail) if view.ndim > 2)
        found = []
        for at, step in enumerate(self.program.steps):
            if step.group not in groups:
                continue
            if not step.reads or any(view.buffer in moving for view in step.reads):
                moving.update(view.buffer for view in step.writes)
                found.append(at)
        return self._read_by_none(found)

    def _read_by_none(self, found: list[int]) -> list[int]:
        """Those of the steps whose results, but for the last one's, no other step reads: a copy may serve several."""
        steps, result = self.program.steps, self.chain[-1].target.buffer
        while True:
            read = {view.buffer for at, step in enumerate(steps) if at not in found for view in step.reads}
            rest = [
                at for at in found if not any(v.buffer in read and v.buffer is not result for v in steps[at].writes)
            ]
            if len(rest) == len(found):
                return found
            found = rest
