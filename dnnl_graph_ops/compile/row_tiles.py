"""Makes the kernel of a chain of layers that runs by bands of rows, and puts its step in the place of the layers'."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import mul
from typing import Any, NamedTuple

from .. import dtypes
from ..algorithms.lower import build
from ..algorithms.views import channels_last_strides
from ..cost import model as cost
from ..ir.env import Env
from ..program import epilogue as post
from ..program.program import Buffer, KernelStep, Place, Program, Step, View
from ..symbolic import kernels
from . import bands
from .bands import Layer, Part

_ALIGNED = 64  # bytes
# operands that are no view: the thread's scratch, and the last result
_SCRATCH, _RESULT = -1, -2
# a call of a kernel: the kernel's number in `RowTiles.kernels`, and the number and byte offset of each operand
_Placed = tuple[int, list[tuple[int, int]]]
Packing = dict[tuple[Hashable, tuple[View, ...]], KernelStep]


class Operand(NamedTuple):
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
    """Describes a call of a kernel, by its number in `RowTiles.kernels`, on the rows of a band."""

    kernel: int
    operands: tuple[tuple[int, Operand], ...]  # each with its number
    label: str


class Lowered(NamedTuple):
    """The calls that compute some rows of a layer: kernel, operands and label of each.

    `before`: steps that depend on no rows, such as the packing of weights, which run once before all bands. `room`:
    bytes of scratch that the calls need apart from results between layers.
    """

    calls: list[tuple[Any, list[Operand], str]]
    before: list[KernelStep]
    room: int


def lowered_part(
    program: Program, chain: Sequence[Layer], i: int, part: Part, starts: Sequence[int], env: Env
) -> Lowered | None:
    """Lowers a part of the i-th layer of a chain on stand-in buffers; None if it cannot be computed by bands.

    `program`: that the chain is of, with which parts that are alike are shared. `starts`: the byte offsets at which
    results between layers begin in a thread's scratch, and where they end.
    """
    layer = chain[i]
    moving: dict[Buffer, Operand] = {}

    def stand_in(view: View, operand: Operand, strides: tuple[int, ...]) -> View:
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
        return stand_in(view, Operand(what, 0, by_image, by_row, of_source), view.strides)

    def between(view: View, number: int, of_source: bool = False) -> View:
        place = Operand(_SCRATCH, starts[number], 0, bands.row_bytes(chain[number].target), of_source, number)
        return stand_in(view, place, channels_last_strides(chain[number].target))

    source, target = layer.source, layer.target
    source = between(source, i - 1, True) if i > 0 else outside(source, source, True)
    target = between(target, i) if i < len(chain) - 1 else outside(target, _RESULT)
    epilogue = post.map_views(layer.problem.epilogue, lambda view: outside(view, view))
    problem = layer.cut(part, source, target, epilogue)
    if not layer.algorithm.applies(problem, env):
        return None
    inside = Program()
    inside.lowered = program.lowered
    build(inside, problem, layer.algorithm, env)
    return _as_calls(inside.steps, moving, starts[-1])


def _as_calls(steps: Sequence[Step], moving: Mapping[Buffer, Operand], end: int) -> Lowered | None:
    """Returns the steps of a layer cut to some rows as calls; None if one of them is conditional or no kernel.

    `end`: the byte offset in a thread's scratch at which the scratch of the steps begins.
    """
    fixed: set[Buffer] = set()
    inner: dict[Buffer, int] = {}
    lowered = Lowered([], [], 0)
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
                operand = Operand(View(buffer, (buffer.elements,), (1,)))
            else:
                if buffer not in inner:
                    inner[buffer] = end + room
                    room += cost.padded(buffer.nbytes, _ALIGNED)
                operand = Operand(_SCRATCH, inner[buffer])
            operands.append(operand._replace(offset=operand.offset + view.byte_offset))
        lowered.calls.append((step.kernel, operands, step.label))
    return lowered._replace(room=room)


class RowTiles:
    """Makes the kernels of a chain of layers, and the tasks that call them: lists of calls, each run by one thread."""

    def __init__(
        self,
        program: Program,
        chain: Sequence[Layer],
        env: Env,
        packing: Packing,
        again: Callable[[int, Part, Sequence[int]], Lowered | None] = lambda i, part, starts: None,
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
        self.row_bytes = [bands.row_bytes(layer.target) for layer in chain[:-1]]
        self.count = bands.rows_of_a_band(chain)
        # the byte offsets at which results between layers begin in a thread's scratch, and where they end
        sizes = map(mul, bands.rows_between(chain, self.count), self.row_bytes)
        self.starts = [0, *accumulate(cost.padded(size, _ALIGNED) for size in sizes)]
        self.complete = self.count > 0 and self._all_parts()

    # -- how rows are divided ---------------------------------------------------------------------------------

    def _tasks(self) -> Iterator[tuple[int, range]]:
        """Yields an image and a range of rows of the last result for each task, which computes them band by band."""
        images, rows = self.chain[-1].target.shape[0], self.chain[-1].rows
        each = bands.parts_of_rows(self.chain, self.count, self.threads)
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
                    if i < len(self.row_bytes) and needed.start > before.start:
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
            lowered = self.again(i, part, self.starts) or lowered_part(
                self.program, self.chain, i, part, self.starts, self.env
            )
            if lowered is None:
                return None
            self.parts[i, part] = self._numbered(lowered)
        return self.parts[i, part]

    def _numbered(self, lowered: Lowered) -> list[_Call]:
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

    def replace_steps(self, kernel: Any, traced: Sequence[Layer]) -> None:
        """Replaces the program's steps of the layers by one step, with the steps that run once before it.

        Steps that depend on no rows stay in the program. `kernel`: of the step. `traced`: the layers of the chain with
        sizes of a trace, if one is open.
        """
        program, last = self.program, self.chain[-1]
        groups = [layer.group for layer in self.chain]
        for layer in self.chain:
            layer.decision.formulation = layer.algorithm.name
            layer.decision.compute = layer.algorithm.compute_dtype(layer.problem, self.env)
        scratch = program.scratch((max(self.scratch_bytes // 4, 1) * self.threads,), "f32")
        gone = self._of_rows(groups)
        # the calls of one band
        by_layer = {i: calls for (i, *_), calls in self.parts.items()}
        label = " | ".join(call.label for i in range(len(self.chain)) for call in by_layer[i])
        writes = scratch, traced[-1].target
        symbolic = dict(zip(outside_views(self.chain), outside_views(traced), strict=True))
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
    operands: Sequence[tuple[int, Operand]], image: int, first: tuple[int, int], held: Sequence[int]
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


def outside_views(chain: Sequence[Layer]) -> list[View]:
    """Returns the views that parts of the layers may read: the layers' sources, and the operands of their post-ops."""
    return [view for layer in chain for view in (layer.source, *post.views(layer.problem.epilogue))]
