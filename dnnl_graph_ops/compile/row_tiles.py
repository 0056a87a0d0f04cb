"""Makes the kernel of a chain of layers that runs by bands of rows, and puts its step in the place of the layers'."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .. import dtypes
from ..algorithms.lower import build
from ..algorithms.views import channels_last_strides
from ..cost import model as cost
from ..ir.env import Env
from ..program import epilogue as post
from ..program.arrays import ALIGNMENT
from ..program.program import Buffer, KernelStep, Place, Program, Step, View
from ..symbolic import kernels
from . import bands
from .bands import Layer, Part

# operands that are no view, by their numbers from the end: the thread's scratch, and the last result
_SCRATCH, _RESULT = -2, -1
# of an operand: its number, and the fields of `Operand` but for the first one
Numbered = tuple[int, int, int, int, bool, int]
Packing = dict[tuple[Hashable, tuple[View, ...]], KernelStep]


class Operand(NamedTuple):
    """Describes an operand of a kernel call: a view, or the number _SCRATCH or _RESULT.

    The operand begins at an offset in bytes, to which each image and each row add `by_image` and `by_row`. The rows are
    those of the layer's target, or `of_source`. They count from the first row that the band holds of the result
    between layers of number `held`; -1: from the first row of the image.
    """

    what: View | int
    offset: int = 0
    by_image: int = 0
    by_row: int = 0
    of_source: bool = False
    held: int = -1


class Call(NamedTuple):
    """Describes a call of a kernel on the rows of a band."""

    kernel: Any
    operands: Sequence[Numbered]
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
        held = chain[number]
        place = Operand(_SCRATCH, starts[number], 0, held.rows.nbytes, of_source, number)
        return stand_in(view, place, channels_last_strides(held.target))

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
        for number, view in enumerate((*step.reads, *step.writes)):
            buffer, offset = view.buffer, view.byte_offset
            if buffer in moving:
                what, start, by_image, by_row, of_source, held = moving[buffer]
                operands.append(Operand(what, start + offset, by_image, by_row, of_source, held))
                continue
            if buffer in fixed or (number < len(step.reads) and buffer not in inner):
                operands.append(Operand(View(buffer, (buffer.elements,), (1,)), offset))
                continue
            if buffer not in inner:
                inner[buffer] = end + room
                room += cost.padded(buffer.nbytes, ALIGNMENT)
            operands.append(Operand(_SCRATCH, inner[buffer] + offset))
        lowered.calls.append((step.kernel, operands, step.label))
    return lowered._replace(room=room)


class RowTiles:
    """Makes the kernels of a chain of layers, each for a part of one; `complete`: whether bands can be computed.

    In a trace only those of the first part of each layer are made, as they show what the layers read.
    """

    def __init__(
        self, program: Program, chain: Sequence[Layer], env: Env, packing: Packing, traced: bool = False
    ) -> None:
        self.program, self.chain = program, chain
        self.env = replace(env, threads=1)
        self.threads = env.threads
        self.fixed: list[KernelStep] = []
        self.reads: list[View] = []
        self.numbers: dict[tuple[Any, ...], int] = {}  # of reads, as a view is compared slowly
        self.packing = dict(packing)
        # results of steps in front of the bands: by buffer, the program's own buffer that already has the same data
        self.same: dict[Buffer, Buffer] = {}
        self.room = 0  # bytes of scratch inside a layer, besides results between layers
        self.divided = bands.bands_of([layer.rows for layer in chain], chain[-1].target.shape[0], env.threads)
        self.starts = self.divided.starts
        self.calls: dict[tuple[int, Part], list[Call]] = {}
        self.parts = bands.parts_of(self.divided)
        lowered = sorted({i: (i, part) for i, part in reversed(self.parts)}.values()) if traced else self.parts
        readable = self.divided.count > 0 and all(part.seen for _, part in self.parts)
        self.complete = readable and all(self._lower(i, part) for i, part in lowered)

    def _lower(self, i: int, part: Part) -> bool:
        """Adds the calls that compute a part of the i-th layer; returns False if it cannot be computed by bands."""
        lowered = lowered_part(self.program, self.chain, i, part, self.starts, self.env)
        if lowered is None:
            return False
        for step in lowered.before:
            self._run_before(step)
        self.calls[i, part] = [
            Call(kernel, [(self._number(operand.what), *operand[1:]) for operand in operands], label)
            for kernel, operands, label in lowered.calls
        ]
        self.room = max(self.room, lowered.room)
        return True

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

    def known(self, view: View) -> int | None:
        """Returns the number of a view among `reads`; None where it is none of them."""
        return self.numbers.get(_key(view))

    def _number(self, what: View | int) -> int:
        """Returns the number of an operand; a view that is new is added to `reads`."""
        if isinstance(what, int):
            return what
        buffer = self.same.get(what.buffer)
        view = what if buffer is None else View(buffer, what.shape, what.strides, what.offset)
        number = self.numbers.setdefault(_key(view), len(self.reads))
        if number == len(self.reads):
            self.reads.append(view)
        return number

    # -- the step ---------------------------------------------------------------------------------------------

    def kernel(self) -> Any:
        """Returns the kernel of the step; operands are the views `reads`, scratch, and the last result."""
        calls = [[call[:2] for call in self.calls[part]] for part in self.parts]
        return kernels.row_tiling(self.divided, calls, len(self.reads) + 2, self.scratch_bytes)

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
        by_layer = {i: calls for (i, _), calls in self.calls.items()}
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


def _key(view: View) -> tuple[Any, ...]:
    return id(view.buffer), view.offset, view.shape, view.strides


def outside_views(chain: Sequence[Layer]) -> list[View]:
    """Returns the views that parts of the layers may read: the layers' sources, and the operands of their post-ops."""
    return [view for layer in chain for view in (layer.source, *post.views(layer.problem.epilogue))]
