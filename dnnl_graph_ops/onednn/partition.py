"""Compiles native steps: describes their tensors and ops to the library, and compiles the library's partitions."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .. import dtypes, schema
from .._core import Graph, LayoutType, LogicalTensor, PartitionPolicy, TensorProperty
from ..errors import Error, UnsupportedError
from ..ir.rewrites import Rewrite
from ..program.program import Condition, Edge, NativeOp, NativeStep, Operand, Program, View
from ..runtime import reference as known
from ..runtime.engines import KINDS, Engine
from ..runtime.verbose import verbose
from ..strides import dense_strides
from . import reference
from .exact_int8 import QUANTIZING
from .ops import FPMATH, fresh_id, native_op
from .workarounds import wrong_when_narrow

ONEDNN_PARTITION = Rewrite(
    "onednn_partition",
    "several ops run as one partition of the library",
    ("the partition's integers are known to be exact", "no broadcast operand is misread", "no channels are miscounted"),
)
BAKE_CONSTANTS = Rewrite(
    "bake_constants",
    "the library keeps results of constants from the first run",
    ("no result depends on constants alone",),
)
SPLIT_PARTITION = Rewrite(
    "split_partition",
    "the first op of a partition runs apart from the others",
    ("a reference kernel would run the whole", "no reference kernel runs the first op"),
)


def _as_beside(view: View) -> list[int]:
    """Returns the strides of a view, with those of axes of size 1 as a longer axis would have in the view's order.

    The order is channels last if axis 1 is the fastest, else row-major. The library guesses the layout from strides.
    """
    steps = [stride for stride, size in zip(view.strides, view.shape, strict=True) if size > 1]
    order = list(range(view.ndim))
    if view.ndim > 2 and view.shape[1] > 1 and view.strides[1] == min(steps, default=0):
        order = [0, *order[2:], 1]
    strides, reach = list(view.strides), 1
    for axis in reversed(order):
        if view.shape[axis] == 1:
            strides[axis] = reach
        else:
            reach = max(reach, view.strides[axis] * view.shape[axis])
    return strides


def logical_tensor(operand: Operand, identity: int, baked: bool = True) -> LogicalTensor:
    """Returns the library's description of a view (strided), or of an edge (layout "any": the library chooses)."""
    code = dtypes.CODES[operand.dtype]
    if isinstance(operand, Edge):
        return LogicalTensor(identity, code, list(operand.shape), layout=LayoutType.any)
    kind = TensorProperty.constant if baked and operand.is_constant else TensorProperty.variable
    # the library guesses the layout from the strides of all axes, those of size 1 included
    strides = dense_strides(operand.shape) if operand.row_major else _as_beside(operand)
    return LogicalTensor(identity, code, list(operand.shape), list(strides), property=kind)


@dataclass(frozen=True)
class Compiled:
    """A compiled partition of the library, and the buffers that it reads and writes in the order of its ports.

    `step`: its ops on these buffers. `fpmath_mode`, `baked`: the mode of the library's graph, and whether constants are
    declared to the library. `in_place`: pairs (operand, result) where the result may overwrite the operand; in a plan,
    where it does. `reference`: the reference kernel that runs it, as far as this was asked for; else "".
    """

    partition: Any
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    step: NativeStep
    fpmath_mode: str
    baked: bool
    in_place: tuple[tuple[View, View], ...] = ()
    reference: str = ""

    @property
    def label(self) -> str:
        return self.step.label

    @property
    def group(self) -> int | None:
        return self.step.group

    @property
    def condition(self) -> Condition | None:
        return self.step.condition

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(op.kind for op in self.step.ops)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of the buffers, each once."""
        return tuple(dict.fromkeys(view.dtype for view in (*self.reads, *self.writes)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(op.name or op.kind for op in self.step.ops)


def _on_buffers(op: NativeOp, buffers: Mapping[Operand, Operand]) -> NativeOp:
    """Returns an op whose edges are replaced by the buffers that some of them have."""
    inputs, outputs = (tuple(buffers.get(o, o) for o in some) for some in (op.inputs, op.outputs))
    return replace(op, inputs=inputs, outputs=outputs)


def miscounts_channels(step: NativeStep) -> bool:
    """Whether the library would read wrong channels of a broadcast operand of this step.

    Seen in oneDNN 3.2: a partition of several binary ops reads wrong elements of its second broadcast operand, always
    if N > 1 and every spatial size is 1, and sometimes for other shapes if it has no op besides post-ops.
    """
    if len(step.ops) == 1:
        return False
    shape = step.ops[0].outputs[0].shape
    flat = len(shape) > 2 and shape[0] > 1 and sum(size > 1 for size in shape) <= 2
    binary = [op for op in step.ops if schema.OPS[op.kind].binary]
    broadcast = [op for op in binary if any(operand.shape != op.outputs[0].shape for operand in op.inputs)]
    alone = all(op.kind in schema.POST_OPS for op in step.ops)
    if (flat and len(binary) > 1) or (alone and len(broadcast) > 1):
        ONEDNN_PARTITION.declined(step.label, "no channels are miscounted")
        return True
    return False


@dataclass(eq=False)
class Partitioned:
    """A native step, the library's partitions of its ops, and the settings to compile them with (see `partitioned`).

    `ids`: the library's number of each operand. `buffers`: the buffer of each edge that leaves a partition. `ops`: the
    step's ops by the library's numbers.
    """

    step: NativeStep
    engine: Engine
    fpmath_mode: str
    baked: bool
    judged: bool
    watched: bool
    ids: dict[Operand, int] = field(default_factory=dict)
    buffers: dict[Operand, Operand] = field(default_factory=dict)
    ops: dict[int, NativeOp] = field(default_factory=dict)
    partitions: list[Any] = field(default_factory=list)

    def tensor(self, operand: Operand) -> LogicalTensor:
        if operand not in self.ids:
            self.ids[operand] = fresh_id()
        return logical_tensor(operand, self.ids[operand], self.baked)

    def add_to(self, graph: Any) -> None:
        for op in self.step.ops:
            inputs, outputs = ([self.tensor(o) for o in some] for some in (op.inputs, op.outputs))
            native = native_op(self.engine, op.kind, op.attrs, op.name, inputs, outputs)
            self.ops[native.id] = op
            graph.add_op(native)

    @property
    def is_new(self) -> bool:
        """Whether nothing is known of a reference kernel for the choice of the step."""
        return self.step.choice not in known.keys(self.engine)

    def bound(self, partition: Any) -> NativeStep:
        """Returns the ops of a partition as a step on buffers."""
        ops = (_on_buffers(self.ops[i], self.buffers) for i in partition.op_ids)
        return replace(self.step, ops=tuple(ops))


def partitioned(
    steps: Sequence[NativeStep],
    engine: Engine,
    fpmath_mode: str,
    *,
    judged: bool = False,
    watched: bool = False,
    baked: bool | None = None,
    fused: bool | None = None,
) -> list[Partitioned]:
    """Divides the ops of each step into partitions of the library, one or several a step.

    `judged`: whether a partition of several ops that a reference kernel would run is compiled in parts instead.
    `watched`: whether the log is read for reference kernels that run steps of bf16, f16 or 8 bits.
    `baked`: whether constants are declared to the library, which then processes them at the first run only. `fused`:
    whether ops of a step may share a partition. None: decided by each step's ops.
    """
    result = []
    graphs: dict[tuple[str, bool], Any] = {}
    for step in steps:
        mode = "strict" if any(map(wrong_when_narrow, step.ops)) else step.fpmath or fpmath_mode
        key = (mode, len(step.ops) > 1 and (not miscounts_channels(step) if fused is None else fused))
        if key not in graphs:
            graphs[key] = Graph(engine.runtime._library, KINDS[engine.kind], FPMATH[mode])
        narrow = watched and reference.may_rule(view.dtype for view in (*step.reads, *step.writes))
        given = Partitioned(step, engine, mode, not _gives_constants(step) if baked is None else baked, judged, narrow)
        given.add_to(graphs[key])
        result.append(given)
    owners = {i: given for given in result for i in given.ops}
    for (_, together), graph in graphs.items():
        graph.finalize()
        # oneDNN 3.2 takes 4 ms to match patterns in any graph: once for all steps together, and not for steps of one op
        graph.filter(PartitionPolicy.fusion if together else PartitionPolicy.debug)
        for partition in graph.partitions():
            owners[partition.op_ids[0]].partitions.append(partition)
    return result


def compile_partitions(program: Program, given: Partitioned) -> list[Compiled]:
    """Compiles the partitions of a step. Edges between partitions get scratch buffers of `program`."""
    operands = {number: operand for operand, number in given.ids.items()}
    for partition in given.partitions:
        for port in partition.output_ports:
            edge = operands[port.id]
            if isinstance(edge, Edge):
                given.buffers[edge] = program.scratch(edge.shape, edge.dtype)
    return [one for partition in given.partitions for one in _compiled(program, partition, given)]


def _compiled(program: Program, partition: Any, given: Partitioned) -> list[Compiled]:
    """Compiles a partition, or its first op separately if a reference kernel would run the whole but not this op."""
    judged = given.judged and len(partition.op_ids) > 1
    if not (judged or given.watched):
        return [_compile(partition, given)]
    whole = _judged(partition, given)
    # integers are lowered again first: builtin code computes them without floats in memory
    if not judged or (given.watched and whole.reference and not QUANTIZING.isdisjoint(whole.kinds) and given.is_new):
        return [whole]
    if not whole.reference:
        SPLIT_PARTITION.declined(given.step.label, "a reference kernel would run the whole")
        return [whole]
    ops = whole.step.ops
    steps = separated(program, whole.step, [ops[:1], ops[1:]])
    options = {"judged": True, "watched": given.watched, "baked": given.baked}
    head, rest = partitioned(steps, given.engine, given.fpmath_mode, **options)
    first = _judged(head.partitions[0], head)
    if first.reference:
        SPLIT_PARTITION.declined(given.step.label, "no reference kernel runs the first op")
        return [whole]
    SPLIT_PARTITION.fired(given.step.label)
    return [first, *compile_partitions(program, rest)]


def _judged(partition: Any, given: Partitioned) -> Compiled:
    """Compiles a partition, and reads in the library's log whether it created a reference kernel."""
    with verbose(2) as log:
        compiled = _compile(partition, given)
    here = threading.get_native_id()
    slow = (f"{one.primitive} {one.implementation}" for one in log.created() if one.thread == here and one.reference)
    return replace(compiled, reference=next(slow, ""))


def separated(program: Program, step: NativeStep, parts: Sequence[Sequence[NativeOp]]) -> list[NativeStep]:
    """Returns a step for each of `parts`, the ops of a native step. Edges between parts get scratch buffers.

    Buffers of the shape of the step's last result have its layout, others are dense.
    """
    result = step.writes[-1]
    maker = {edge: i for i, part in enumerate(parts) for op in part for edge in op.outputs}
    placed: dict[Operand, Operand] = {}
    for i, part in enumerate(parts):
        for edge in (operand for op in part for operand in op.inputs):
            if isinstance(edge, Edge) and maker[edge] != i and edge not in placed:
                same = edge.shape == result.shape
                placed[edge] = program.like(result, edge.dtype) if same else program.scratch(edge.shape, edge.dtype)
    return [replace(step, ops=tuple(_on_buffers(op, placed) for op in part)) for part in parts]


def _gives_constants(step: NativeStep) -> bool:
    """Whether a result of the step depends on constants alone.

    The library would write such a result at the first run only, so constants must not be declared to it.
    """
    fixed: set[Operand] = set()
    for op in step.ops:
        if all(o in fixed or (isinstance(o, View) and o.is_constant) for o in op.inputs):
            fixed.update(op.outputs)
    if any(isinstance(operand, View) for operand in fixed):
        BAKE_CONSTANTS.declined(step.label, "no result depends on constants alone")
        return True
    BAKE_CONSTANTS.fired(step.label)
    return False


def _with_buffer(operand: Operand) -> View:
    if isinstance(operand, Edge):
        raise RuntimeError(f"an edge {operand.shape} of a native step has no buffer")
    return operand


def _compile(partition: Any, given: Partitioned) -> Compiled:
    step, engine = given.bound(partition), given.engine
    kinds = ", ".join(op.kind for op in step.ops)
    if not partition.is_supported:
        raise UnsupportedError(
            f"{kinds}: oneDNN {engine.runtime.version} ({engine.runtime.name}) has no kernel for it on {engine!r}"
        )
    views = {given.ids[operand]: given.buffers.get(operand, operand) for operand in given.ids}
    inputs, outputs = (
        {port.id: _with_buffer(views[port.id]) for port in ports}
        for ports in (partition.input_ports, partition.output_ports)
    )
    try:
        compiled = partition.compile(
            [logical_tensor(view, i, given.baked) for i, view in inputs.items()],
            [logical_tensor(view, i) for i, view in outputs.items()],
            engine._native,
            one_thread=any("Back" in op.kind for op in step.ops),
        )
    except Error as refusal:
        types = ", ".join(dict.fromkeys(view.dtype for view in (*inputs.values(), *outputs.values())))
        raise UnsupportedError(
            f"{kinds} of {types}: oneDNN {engine.runtime.version} on {engine!r} refuses it and no code of this package "
            f"runs it; use f32 there, or another release of oneDNN (the library says: {refusal})"
        ) from refusal
    # a result must not overwrite an operand that a second op of the partition reads later
    reads = Counter(operand for op in step.ops for operand in op.inputs)
    pairs = tuple((inputs[i], outputs[o]) for i, o in compiled.inplace_ports if reads[inputs[i]] == 1)
    return Compiled(
        compiled, tuple(inputs.values()), tuple(outputs.values()), step, given.fpmath_mode, given.baked, pairs
    )


def again(part: Compiled, engine: Engine) -> list[Compiled]:
    """Compiles a part once more, for the same views; both copies share nothing that the library keeps of constants."""
    (given,) = partitioned([part.step], engine, part.fpmath_mode, baked=part.baked, fused=True)
    return compile_partitions(Program(), given)
