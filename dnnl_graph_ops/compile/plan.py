"""Builds an executor from a program: folds constants, compiles native steps and places buffers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from .. import dtypes
from .._core import Executor, check_fork
from ..cost import model as cost
from ..cost import speeds
from ..errors import UnsupportedError
from ..ir.stages import Stage, run
from ..onednn.partition import Compiled, Partitioned, compile_partitions, partitioned, separated
from ..onednn.reference import may_rule
from ..onednn.workarounds import staged
from ..program.program import Buffer, HostStep, KernelStep, NativeStep, Program, Step, View, data_of
from ..runtime import cpu, follow, reference
from ..runtime import threads as pool
from ..runtime.engines import Engine
from ..runtime.reference import Keys
from ..runtime.verbose import Record
from ..strides import extent
from . import listings
from .check_written import check
from .pack_weights import fold_constants, parted
from .place_memory import Use, place
from .release_constants import bake, nothing_of

_T = TypeVar("_T")

# A shorter run keeps the GIL: it ends before another thread could use it (0.1 us to release and take it back).
GIL_SECONDS = speeds.seconds("GIL")
# A shorter run uses one thread: to wake others takes longer than they save.
SERIAL_SECONDS = speeds.seconds("SERIAL")
_BYTE, _PRODUCT = map(speeds.seconds, ("PLAN_BYTE", "PLAN_PRODUCT"))


@dataclass(frozen=True)
class Plan:
    """An executor, the steps (`parts`) that it runs, and data for explain().

    `executed`: the library's log records of parts, by the part's number; explain() fills it.
    """

    executor: Any
    parts: tuple[Compiled | KernelStep | HostStep, ...]
    scratch_bytes: int
    executed: dict[int, tuple[Record, ...]] = field(default_factory=dict)


def assemble(
    program: Program,
    inputs: Sequence[View],
    outputs: Sequence[View],
    engine: Engine,
    *,
    fpmath_mode: str = "strict",
    macs: int = 0,
    threads: int | None = None,
    name: str = "",
    literal: bool = False,
    bakes: bool = False,
    known: Keys | None = None,
) -> Plan:
    """Compiles the steps of `program` into an executor whose inputs and outputs are the given views.

    `literal`: runs the library's ops on their views without copies wherever the library can. Otherwise, copies are
    added where they save time, and partitions that a reference kernel would run are compiled in parts. `bakes`: lets
    large weights go that the library has packed, which other plans would have to read again. `known`: the keys of
    choices by reference kernels when the program was made; None: the library's log is not read for others.

    Raises:
        Error: the steps leave elements of an output, or of a view that a step reads, unwritten.
        ByReference: reference kernels would run steps by choices that were not known; they are now.
    """
    own = not literal and engine.on_host
    a = _Assembly(program, outputs, engine, fpmath_mode, not own, known is not None)
    seconds = _seconds(program.steps, macs)
    return _assembled(STAGES, a, inputs, seconds, threads, name, bakes, known)


def assemble_packed(
    steps: Sequence[Step],
    inputs: Sequence[View],
    outputs: Sequence[View],
    engine: Engine,
    *,
    fpmath_mode: str,
    seconds: float,
    threads: int,
    name: str,
    known: Keys,
) -> Plan:
    """Compiles steps, of which those on constants alone have run, as `assemble` does; `seconds`: of a run, roughly."""
    a = _Assembly(Program(), outputs, engine, fpmath_mode, False, True, steps)
    return _assembled(STAGES[_PACKED:], a, inputs, seconds, threads, name, False, known)


def _assembled(
    stages: Sequence[Stage[_Assembly]],
    a: _Assembly,
    inputs: Sequence[View],
    seconds: float,
    threads: int | None,
    name: str,
    bakes: bool,
    known: Keys | None,
) -> Plan:
    check_fork()
    engine, outputs = a.engine, a.outputs
    count = pool.get_num_threads() if threads is None else threads
    if seconds < SERIAL_SECONDS:
        count = 1
    with pool.using(count):
        run(stages, a)
        if known is not None:
            _judge(a.parts, engine, known)
        baked = bake(a.parts, engine, count) if bakes and any(isinstance(part, Compiled) for part in a.parts) else ()
        executor = executor_of(a.parts, inputs, outputs, a.offsets, engine, name, baked)
    # on a device, copies take long even if the computation is short
    executor.finalize(release_gil=seconds > GIL_SECONDS or engine._native.on_device, threads=count)
    return Plan(executor, tuple(a.parts), a.scratch_bytes)


class ByReference(Exception):
    """Reference kernels of the library would run some steps of a program: another one can be made without them."""


def settled(attempt: Callable[[Keys], _T], engine: Engine) -> _T:
    """Returns what `attempt` makes of a plan, given the known keys, once reference kernels run no more steps of it.

    Each further attempt knows choices to go round, of which there are few for a layer.
    """
    while True:
        try:
            return attempt(reference.keys(engine))
        except ByReference:
            continue


def _judge(parts: Sequence[Compiled | KernelStep | HostStep], engine: Engine, known: Keys) -> None:
    """Remembers the choices that reference kernels would run, and raises if any is new; warns of those that are left.

    Steps that run for Inf or NaN alone do not count.
    """
    usual = (part for part in parts if isinstance(part, Compiled) and not (part.condition and part.condition.wanted))
    slow = [part for part in usual if part.reference and may_rule(part.dtypes)]
    new = {part.step.choice for part in slow if part.step.choice}.difference(known)
    if new:
        reference.remember(engine, new)
        raise ByReference
    for part in slow:
        types = ", ".join(part.dtypes)
        warnings.warn(
            f"{', '.join(part.names)} of {types}: only a reference kernel of oneDNN, which is slow, computes it "
            f"({part.reference}); use f32 there",
            RuntimeWarning,
            stacklevel=2,
        )


def worked_around(program: Program, engine: Engine, literal: bool = False) -> list[Any]:
    """Returns the program's steps, with copies around those that the library would compute wrong or slowly."""
    tiles = engine.kind == "cpu" and cpu.has_tiles(engine.runtime)
    return [
        step
        for given in program.steps
        for step in (staged(given, literal, tiles) if isinstance(given, NativeStep) else [given])
    ]


@dataclass
class _Assembly:
    """A program on its way to an executor: its steps, the compiled parts, and their buffers' byte offsets in scratch.

    `literal`: whether the library's ops run on their views as they are. `watched`: see `partitioned`.
    """

    program: Program
    outputs: Sequence[View]
    engine: Engine
    fpmath_mode: str
    literal: bool
    watched: bool = False
    steps: Sequence[Step] = ()
    parts: Sequence[Compiled | KernelStep | HostStep] = ()
    uses: Sequence[Use] = ()
    offsets: Mapping[Buffer, int] = field(default_factory=dict)
    scratch_bytes: int = 0

    def work_around(self) -> None:
        self.steps = worked_around(self.program, self.engine, self.literal)

    def pack_weights(self) -> None:
        self.steps = fold_constants(self.steps)

    def compile_partitions(self) -> None:
        natives = [step for step in self.steps if isinstance(step, NativeStep)]
        watched = self.watched and self.engine.kind == "cpu"
        given = iter(partitioned(natives, self.engine, self.fpmath_mode, judged=not self.literal, watched=watched))
        self.parts = [
            part
            for step in self.steps
            for part in (_compiled(self.program, next(given)) if isinstance(step, NativeStep) else [step])
        ]
        self.uses = [_use(part) for part in self.parts]

    def place_memory(self) -> None:
        check(self.uses, self.outputs)
        self.offsets, self.scratch_bytes, merged = place(self.uses)
        one_place = set(merged)
        self.parts = [
            replace(part, in_place=tuple(pair for pair in part.in_place if pair in one_place))
            if isinstance(part, Compiled)
            else part
            for part in self.parts
        ]


STAGES = (
    Stage("onednn_workarounds", _Assembly.work_around, lambda a: listings.of_steps(a.steps)),
    Stage("pack_weights", _Assembly.pack_weights, lambda a: listings.of_steps(a.steps)),
    Stage("compile_partitions", _Assembly.compile_partitions, lambda a: listings.of_steps(a.uses)),
    Stage("place_memory", _Assembly.place_memory, lambda a: listings.of_memory(a.offsets, a.scratch_bytes)),
)
# how many stages have run once weights are packed
_PACKED = 2


def scratch_bytes(program: Program, engine: Engine, literal: bool) -> int:
    """Returns the bytes of intermediate results that a plan of `program` holds in the arena; compiles nothing."""
    _, steps = parted(worked_around(program, engine, literal or not engine.on_host))
    return place([_use(step) for step in steps])[1]


def _seconds(steps: Sequence[Step], macs: int) -> float:
    """Estimates roughly the seconds of a run on one thread; steps that run for Inf or NaN only do not count."""
    usual = [step for step in steps if not (step.condition and step.condition.wanted)]
    return estimated(sum(map(bytes_of, usual)), macs)


def estimated(nbytes: int, macs: int) -> float:
    """Estimates roughly the seconds on one thread to move so many bytes and to multiply so often."""
    return nbytes * _BYTE + macs * _PRODUCT


def views_of(step: Compiled | Step) -> tuple[View, ...]:
    """Returns the views that a step reads and writes; the scratch of bands stays in the near caches."""
    writes = step.writes[-1:] if isinstance(step, KernelStep) and step.others else step.writes
    return (*step.reads, *writes)


def bytes_of(step: Compiled | Step) -> int:
    return sum(map(cost.nbytes, views_of(step)))


def _compiled(program: Program, given: Partitioned) -> Sequence[Compiled | HostStep]:
    """Compiles a native step as a whole; if the library refuses it, op by op; an op that it refuses, in NumPy."""
    step = given.step
    try:
        return compile_partitions(program, given)
    except UnsupportedError:
        if len(step.ops) > 1:
            steps = separated(program, step, [[op] for op in step.ops])
            single = partitioned(steps, given.engine, given.fpmath_mode, watched=given.watched)
            return [part for one in single for part in _compiled(program, one)]
        (op,) = step.ops
        if op.host is None:
            raise
        reads, writes = (tuple(o for o in some if isinstance(o, View)) for some in (op.inputs, op.outputs))
        return [HostStep(op.host(), reads, writes, f"{op.kind} (NumPy)", step.group, step.condition)]


def _use(part: Compiled | Step) -> Use:
    flag = (part.condition.flag,) if part.condition else ()
    pairs = part.in_place if isinstance(part, Compiled | KernelStep) else ()
    return Use((*part.reads, *flag), part.writes, pairs, part.label)


def executor_of(
    parts: Sequence[Compiled | KernelStep | HostStep],
    inputs: Sequence[View],
    outputs: Sequence[View],
    offsets: Mapping[Buffer, int],
    engine: Engine,
    name: str = "",
    baked: Collection[Buffer] = (),
) -> Any:
    """Returns an executor of the parts in order.

    `offsets`: byte offsets of the scratch buffers in its arena. `baked`: constants that are never read again.
    """
    if any(isinstance(part, Compiled) for part in parts):
        follow.prepare(engine)
    executor = Executor(engine._native, name)
    slots: dict[Buffer, int] = {}
    for view in inputs:
        slots[view.buffer] = executor.add_input(dtypes.CODES[view.dtype], list(view.shape), list(view.strides))
    for view in outputs:
        slots[view.buffer] = executor.add_output(dtypes.CODES[view.dtype], list(view.shape), list(view.strides))
    for buffer, offset in offsets.items():
        slots[buffer] = executor.add_scratch(offset, max(buffer.nbytes, 1))

    def ref(view: View) -> tuple[int, int]:
        buffer = view.buffer
        if buffer not in slots:
            data = nothing_of(buffer) if buffer in baked else data_of(buffer)
            slots[buffer] = executor.add_constant(data, buffer.shared or buffer in baked)
        return slots[buffer], view.byte_offset

    for part in parts:
        if isinstance(part, Compiled):
            reads, writes = ([ref(view) for view in views] for views in (part.reads, part.writes))
            executor.add_partition(part.partition, reads, writes, part.label)
        elif isinstance(part, KernelStep):
            views = (*part.reads, *part.writes)
            executor.add_kernel(part.kernel, [ref(v) for v in views], part.label, [_nbytes(v) for v in views])
        else:
            described = [
                (*ref(v), dtypes.CODES[v.dtype], list(v.shape), list(v.strides)) for v in (*part.reads, *part.writes)
            ]
            executor.add_callback(part.function, described, part.label)
        if part.condition:
            executor.only_if(ref(part.condition.flag), part.condition.wanted)
    return executor


def _nbytes(view: View) -> int:
    """Returns the bytes that a view spans from its first element to its last, gaps included."""
    return extent(view.shape, view.strides) * dtypes.ITEMSIZES[view.buffer.dtype]
