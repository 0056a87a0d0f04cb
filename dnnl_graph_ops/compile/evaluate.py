"""Builds executors from the steps of a template and the values of their sizes, where kernels run all steps or some.

Both classes divide the steps of a trace into `varying`, nested tuples of what depends on sizes, for a formula to
evaluate, and the rest, which is kept. Neither keeps sizes of the trace, nor the data of constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from .. import dtypes
from .._core import Executor, PlanSteps
from ..errors import UnsupportedError
from ..ir.env import Env
from ..once import answered
from ..program.program import (
    Buffer,
    Condition,
    Edge,
    KernelStep,
    NativeOp,
    NativeStep,
    Operand,
    Step,
    View,
)
from ..runtime import reference
from ..strides import extent
from ..symbolic import frozen, plain
from .place_memory import Sharing, Use, placing, replaces, shared
from .plan import GIL_SECONDS, SERIAL_SECONDS, ByReference, assemble_packed
from .specialise import Compilation
from .traced_tiles import Tiled

# arrays of constants, each with whether others than plans keep it
Constants = Sequence[tuple[Any, bool]]


def flag_of(step: Step) -> tuple[View, ...]:
    """Returns the view of the flag of a step's condition; () without one."""
    return (step.condition.flag,) if step.condition else ()


def _varying(kernel: Any) -> Any:
    return kernel.sizes if isinstance(kernel, Tiled) else kernel


class _Shared(NamedTuple):
    """Which scratch buffers share memory: a function of sizes that places `roots`, and the steps on these places."""

    placed: Callable[[Sequence[int]], list[int]]
    roots: Sequence[int]
    steps: PlanSteps


class Kernels:
    """Steps of builtin kernels alone: what may overwrite what is known, and only places in the arena are computed."""

    def __init__(self, steps: Sequence[Any], c: Compilation, constants: Sequence[Buffer], name: str) -> None:
        self._name = name
        uses = [Use((*s.reads, *flag_of(s)), s.writes, s.in_place, s.label) for s in steps]
        over = [(number, step.overwrites) for number, step in enumerate(steps) if step.overwrites is not True]
        # the numbers of steps whose sizes decide whether they overwrite operands
        self._deciding = [number for number, _ in over]
        self._uses = _bare(uses) if over else ()
        now = tuple([bool(plain(one)) for _, one in over])
        sharing = shared(self._where(now, uses))
        numbers = {buffer: number for number, buffer in enumerate(sharing.owner)}
        # the executor's slots in order: inputs, outputs, scratch, constants
        ends = [view.buffer for view in (*c.given, *c.targets)]
        slots = {buffer: slot for slot, buffer in enumerate((*ends, *sharing.owner, *constants))}
        # the numbers of steps of bands, what makes their kernels, and the numbers of their scratch buffers
        self._bands = [
            (number, step.kernel, numbers[step.writes[0].buffer])
            for number, step in enumerate(steps)
            if isinstance(step.kernel, Tiled)
        ]
        placed = []
        for step in steps:
            flags = [((slots[view.buffer], plain(view.byte_offset)), step.condition.wanted) for view in flag_of(step)]
            operands = [slots[view.buffer] for view in (*step.reads, *step.writes)]
            placed.append((step.label, operands, flags[0] if flags else None))
        ins, outs = ([dtypes.CODES[view.dtype] for view in views] for views in (c.given, c.targets))
        self._args = ins, outs, placed
        self._shared: dict[Any, _Shared] = {now: self._sharing(sharing)}
        spans: dict[Any, int] = {}
        self.varying: Any = (
            tuple((view.shape, view.strides) for view in c.given),
            tuple((view.shape, view.strides) for view in c.targets),
            [buffer.nbytes for buffer in sharing.owner],
            tuple(one for _, one in over),
            [
                (
                    _varying(step.kernel),
                    tuple(view.byte_offset for view in (*step.reads, *step.writes)),
                    [
                        answered(spans, frozen((view.shape, view.strides, view.dtype)), partial(_nbytes, view))
                        for view in (*step.reads, *step.writes)
                    ],
                )
                for step in steps
            ],
        )

    def close(self) -> None:
        """Drops the sizes of the trace."""
        self.varying = ()

    def executor(self, dims: Sequence[int], values: Any, constants: Constants, seconds: float, env: Env) -> Any:
        """Returns the executor for the values of `varying`; None where bands are not as in the trace.

        `dims`: the unknown dims. `seconds`: of a run, roughly.
        """
        ins, outs, nbytes, over, steps = values
        for number, tiled, scratch in self._bands:
            sizes, offsets, extents = steps[number]
            made = tiled.of(dims, sizes)
            if made is None:
                return None
            kernel, nbytes[scratch] = made
            extents[-2] = nbytes[scratch]
            steps[number] = kernel, offsets, extents
        sharing = answered(self._shared, over, lambda: self._sharing(shared(self._where(over, self._uses))))
        starts = sharing.placed([nbytes[root] for root in sharing.roots])
        executor = Executor(env.engine._native, self._name)
        sharing.steps.fill(executor, ins, outs, nbytes, starts, constants, steps)
        threads = 1 if seconds < SERIAL_SECONDS else env.threads
        executor.finalize(release_gil=seconds > GIL_SECONDS, threads=threads)
        return executor

    def _where(self, over: Sequence[bool], uses: Sequence[Use]) -> list[Use]:
        """Returns uses without pairs that do not hold; `over`: whether each deciding step overwrites operands."""
        alone = {number for number, overwrites in zip(self._deciding, over, strict=True) if not overwrites}
        return [use._replace(pairs=()) if number in alone else use for number, use in enumerate(uses)]

    def _sharing(self, sharing: Sharing) -> _Shared:
        ins, outs, placed = self._args
        numbers = {buffer: number for number, buffer in enumerate(sharing.owner)}
        places = {buffer: number for number, buffer in enumerate(sharing.roots)}
        steps = PlanSteps(ins, outs, [places[root] for root in sharing.owner.values()], placed)
        return _Shared(placing(sharing.spans), [numbers[root] for root in sharing.roots], steps)


def _bare(uses: Sequence[Use]) -> list[Use]:
    """Returns the uses on views without sizes, with the pairs whose sizes let the result replace the operand."""
    views: dict[Any, View] = {}

    def bare(view: View) -> View:
        b = view.buffer
        return answered(views, b, lambda: View(Buffer(b.place, b.dtype, 0), (), ()))

    return [
        Use(
            [*map(bare, use.reads)],
            [*map(bare, use.writes)],
            [(bare(a), bare(b)) for a, b in use.pairs if replaces(use, a, b)],
            use.label,
        )
        for use in uses
    ]


def _nbytes(view: View) -> int:
    return extent(view.shape, view.strides) * dtypes.itemsize(view.dtype)


class _Op(NamedTuple):
    """An op of the library without its sizes: `names` of its attributes, and operands by number."""

    kind: str
    names: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str


class Mixed:
    """Steps of which the library computes some: these are compiled for each size, and memory is placed as of new steps.

    Operands are numbered: views, and edges between ops of the library.
    """

    def __init__(self, steps: Sequence[Any], c: Compilation, constants: Sequence[Buffer], name: str) -> None:
        self._name = name
        self._operands: dict[Operand, int] = {}
        self._given, self._targets = ([self._number(view) for view in views] for views in (c.given, c.targets))
        self._steps: list[tuple[Any, ...]] = []
        kernels, attrs = [], []
        for step in steps:
            condition = (self._number(step.condition.flag), step.condition.wanted) if step.condition else None
            if isinstance(step, KernelStep):
                reads, writes = (tuple(map(self._number, views)) for views in (step.reads, step.writes))
                pairs = tuple((self._number(a), self._number(b)) for a, b in step.in_place)
                bands = step.kernel if isinstance(step.kernel, Tiled) else None
                self._steps.append((step.label, step.group, condition, step.others, bands, reads, writes, pairs))
                kernels.append((_varying(step.kernel), step.overwrites))
                continue
            ops = tuple(
                _Op(
                    op.kind,
                    tuple(op.attrs),
                    tuple(map(self._number, op.inputs)),
                    tuple(map(self._number, op.outputs)),
                    op.name,
                )
                for op in step.ops
            )
            attrs.append(tuple(tuple(op.attrs.values()) for op in step.ops))
            self._steps.append((step.label, step.group, condition, step.choice, step.fpmath, ops))
        views = [operand for operand in self._operands if isinstance(operand, View)]
        numbers = {buffer: number for number, buffer in enumerate(dict.fromkeys(view.buffer for view in views))}
        self._constants = {numbers[buffer]: number for number, buffer in enumerate(constants)}
        held = {buffer: buffer.held for buffer in constants if buffer.shared}
        self._buffers = [(b.place, b.dtype, b.index, held.get(b)) for b in numbers]
        self._kinds = [numbers[o.buffer] if isinstance(o, View) else o.dtype for o in self._operands]
        self.varying: Any = (
            tuple(buffer.elements for buffer in numbers),
            tuple((o.shape, o.strides, o.offset) if isinstance(o, View) else (o.shape,) for o in self._operands),
            tuple(kernels),
            tuple(attrs),
        )

    def _number(self, operand: Operand) -> int:
        return self._operands.setdefault(operand, len(self._operands))

    def close(self) -> None:
        """Drops the sizes of the trace."""
        self.varying, self._operands = (), {}

    def executor(self, dims: Sequence[int], values: Any, constants: Constants, seconds: float, env: Env) -> Any:
        """Returns the executor for the values of `varying`; None where the plan is not as in the trace.

        `dims`: the unknown dims. `seconds`: of a run, roughly.
        """
        elements, shapes, kernels, attributes = values
        buffers = []
        for number, ((place, dtype, index, held), count) in enumerate(zip(self._buffers, elements, strict=True)):
            array = constants[self._constants[number]][0] if number in self._constants and held is None else None
            buffers.append(Buffer(place, dtype, count, index, array, held))
        operands: list[Any] = [
            View(buffers[kind], *shape) if isinstance(kind, int) else Edge(shape[0], kind)
            for kind, shape in zip(self._kinds, shapes, strict=True)
        ]
        steps: list[Step] = []
        made, given = iter(kernels), iter(attributes)
        for label, group, flag, *rest in self._steps:
            condition = None if flag is None else Condition(operands[flag[0]], flag[1])
            if len(rest) == _NATIVE:
                choice, fpmath, ops = rest
                natives = tuple(
                    NativeOp(
                        op.kind,
                        dict(zip(op.names, attrs, strict=True)),
                        tuple(operands[i] for i in op.inputs),
                        tuple(operands[i] for i in op.outputs),
                        op.name,
                    )
                    for op, attrs in zip(ops, next(given), strict=True)
                )
                steps.append(NativeStep(natives, label, group, condition, choice, fpmath))
                continue
            others, bands, reads, writes, pairs = rest
            kernel, overwrites = next(made)
            read, written = ([operands[i] for i in some] for some in (reads, writes))
            if bands is not None:
                banded = bands.of(dims, kernel)
                if banded is None:
                    return None
                kernel, nbytes = banded
                scratch = written[0].buffer
                scratch.elements = nbytes // dtypes.itemsize(scratch.dtype)
                written[0] = View(scratch, (scratch.elements,), (1,))
            in_place = tuple((operands[a], operands[b]) for a, b in pairs) if overwrites else ()
            steps.append(
                KernelStep(kernel, tuple(read), tuple(written), label, group, condition, in_place, None, others)
            )
        try:
            plan = assemble_packed(
                steps,
                [operands[i] for i in self._given],
                [operands[i] for i in self._targets],
                env.engine,
                fpmath_mode=env.fpmath_mode,
                seconds=seconds,
                threads=env.threads,
                name=self._name,
                known=reference.keys(env.engine),
            )
        except (ByReference, UnsupportedError):
            return None
        return plan.executor


# how many parts of a step of the library are kept next to its label, group and condition
_NATIVE = 3
