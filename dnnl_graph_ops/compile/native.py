"""Compiles native steps: describes their tensors and ops to the library, and compiles the library's partitions."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import dtypes, schema
from .._core import Graph, LayoutType, LogicalTensor, Op, PartitionPolicy, TensorProperty
from ..backends.onednn import ONEDNN_PARTITION
from ..errors import Error, UnsupportedError
from ..lowering.native_graph import FPMATH, fresh_id, native_op
from ..lowering.program import Condition, Edge, NativeOp, NativeStep, Operand, Program, View
from ..lowering.rewrites import Rewrite
from ..lowering.staging import wrong_when_narrow
from ..runtime.engines import KINDS, Engine
from ..runtime.verbose import verbose
from ..strides import dense_strides

BAKE_CONSTANTS = Rewrite(
    "bake_constants",
    "the library keeps what it makes of constants at the first run",
    ("no result follows from constants alone",),
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
    """A compiled partition, and the views of its inputs and outputs in the order of its ports."""

    partition: Any
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    label: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    # the ops on these views, the mode of the library's graph, and whether constants are declared to the library
    step: NativeStep
    fpmath_mode: str
    baked: bool
    group: int | None
    condition: Condition | None
    # (operand, result) where the result may overwrite the operand; in a plan: where it does
    in_place: tuple[tuple[View, View], ...] = ()


class _Builder:
    """Builds the logical tensors and ops of one native step, with one id for each operand."""

    def __init__(self, engine: Engine, baked: bool) -> None:
        self.engine = engine
        self.baked = baked
        self.ids: dict[Operand, int] = {}
        self.operands: dict[int, Operand] = {}

    def tensor(self, operand: Operand) -> LogicalTensor:
        if operand not in self.ids:
            identity = fresh_id()
            self.ids[operand] = identity
            self.operands[identity] = operand
        return logical_tensor(operand, self.ids[operand], self.baked)

    def op(self, op: NativeOp) -> Op:
        inputs = [self.tensor(o) for o in op.inputs]
        return native_op(self.engine, op.kind, op.attrs, op.name, inputs, [self.tensor(o) for o in op.outputs])

    def bound(self, op: NativeOp) -> NativeOp:
        """Returns the op with its edges replaced by the buffers that `_materialise` has given to some of them."""
        inputs, outputs = (tuple(self.operands[self.ids[o]] for o in some) for some in (op.inputs, op.outputs))
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


@dataclass(frozen=True)
class Partitioned:
    """A native step, the library's partitions of its ops, and the settings to compile them with (see `partitioned`)."""

    step: NativeStep
    builder: _Builder
    ops: Mapping[int, NativeOp]
    partitions: Sequence[Any]
    engine: Engine
    fpmath_mode: str
    judged: bool


def partitioned(
    steps: Sequence[NativeStep],
    engine: Engine,
    fpmath_mode: str,
    *,
    judged: bool = False,
    baked: bool | None = None,
    fused: bool | None = None,
) -> list[Partitioned]:
    """Divides the ops of each step into partitions of the library, one or several a step.

    `judged`: whether a partition of several ops that a reference kernel would run is compiled in parts instead.
    `baked`: whether constants are declared to the library, which then processes them at the first run only. `fused`:
    whether ops of a step may share a partition. None: decided by each step's ops.
    """
    found: list[tuple[NativeStep, _Builder, dict[int, NativeOp], str, bool]] = []
    graphs: dict[tuple[str, bool], Any] = {}
    for step in steps:
        builder = _Builder(engine, not _gives_constants(step) if baked is None else baked)
        mode = "strict" if any(map(wrong_when_narrow, step.ops)) else fpmath_mode
        key = (mode, len(step.ops) > 1 and (not miscounts_channels(step) if fused is None else fused))
        if key not in graphs:
            graphs[key] = Graph(engine.runtime.library, KINDS[engine.kind], FPMATH[mode])
        ops = [builder.op(op) for op in step.ops]
        for op in ops:
            graphs[key].add_op(op)
        found.append((step, builder, {op.id: spec for op, spec in zip(ops, step.ops, strict=True)}, *key))
    step_of = {i: number for number, (_, _, ops, *_) in enumerate(found) for i in ops}
    partitions: list[list[Any]] = [[] for _ in found]
    for (_, together), graph in graphs.items():
        graph.finalize()
        # oneDNN 3.2 takes 4 ms to match patterns in any graph: once for all steps together, and not for steps of one op
        graph.filter(PartitionPolicy.fusion if together else PartitionPolicy.debug)
        for partition in graph.partitions():
            partitions[step_of[partition.op_ids[0]]].append(partition)
    return [
        Partitioned(step, builder, ops, parts, engine, mode, judged)
        for (step, builder, ops, mode, _), parts in zip(found, partitions, strict=True)
    ]


def compile_partitions(program: Program, given: Partitioned) -> list[Compiled]:
    """Compiles the partitions of a step. Edges between partitions get scratch buffers of `program`."""
    _materialise(program, given.builder, given.partitions)
    return [one for partition in given.partitions for one in _compiled(program, partition, given)]


def _compiled(program: Program, partition: Any, given: Partitioned) -> list[Compiled]:
    """Compiles a partition, or its first op separately if a reference kernel would run the whole but not this op."""
    if not given.judged or len(partition.op_ids) == 1:
        return [_compile(partition, given)]
    whole, slow = _judged(partition, given)
    if not slow:
        SPLIT_PARTITION.declined(given.step.label, "a reference kernel would run the whole")
        return [whole]
    ops = [given.builder.bound(given.ops[i]) for i in partition.op_ids]
    head, rest = _in_parts(program, ops, given)
    first, slow = _judged(head.partitions[0], head)
    if slow:
        SPLIT_PARTITION.declined(given.step.label, "no reference kernel runs the first op")
        return [whole]
    SPLIT_PARTITION.fired(given.step.label)
    return [first, *compile_partitions(program, rest)]


def _judged(partition: Any, given: Partitioned) -> tuple[Compiled, bool]:
    """Compiles a partition, and returns as well whether the library's log says that it created a reference kernel."""
    with verbose(2) as log:
        made = _compile(partition, given)
    here = threading.get_native_id()
    return made, any(record.thread == here and record.reference for record in log.created())


def _in_parts(program: Program, ops: Sequence[NativeOp], given: Partitioned) -> list[Partitioned]:
    """Returns the partitions of the first op, and of all other ops, of a partition."""
    step = replace(given.step, ops=tuple(ops))
    steps = separated(program, step, [ops[:1], ops[1:]])
    return partitioned(steps, given.engine, given.fpmath_mode, judged=True, baked=given.builder.baked)


def separated(program: Program, step: NativeStep, parts: Sequence[Sequence[NativeOp]]) -> list[NativeStep]:
    """Returns a step for each of `parts`, the ops of a native step. Edges between parts get scratch buffers.

    Buffers of the shape of the step's last result have its layout, others are dense.
    """
    result = step.writes[-1]
    maker = {edge: i for i, part in enumerate(parts) for op in part for edge in op.outputs}
    placed: dict[Operand, View] = {}
    for i, part in enumerate(parts):
        for edge in (operand for op in part for operand in op.inputs):
            if isinstance(edge, Edge) and maker[edge] != i and edge not in placed:
                same = edge.shape == result.shape
                placed[edge] = program.like(result, edge.dtype) if same else program.scratch(edge.shape, edge.dtype)

    def on_buffers(op: NativeOp) -> NativeOp:
        inputs, outputs = (tuple(placed.get(o, o) for o in some) for some in (op.inputs, op.outputs))
        return replace(op, inputs=inputs, outputs=outputs)

    return [replace(step, ops=tuple(map(on_buffers, part))) for part in parts]


def _gives_constants(step: NativeStep) -> bool:
    """Whether a result of the step depends on constants alone.

    The library would write such a result at the first run only, so constants must not be declared to it.
    """
    fixed: set[Operand] = set()
    for op in step.ops:
        if all(o in fixed or (isinstance(o, View) and o.is_constant) for o in op.inputs):
            fixed.update(op.outputs)
    if any(isinstance(operand, View) for operand in fixed):
        BAKE_CONSTANTS.declined(step.label, "no result follows from constants alone")
        return True
    BAKE_CONSTANTS.fired(step.label)
    return False


def _materialise(program: Program, builder: _Builder, partitions: Sequence[Any]) -> None:
    """Gives a scratch buffer of `program` to each edge that leaves a partition."""
    for partition in partitions:
        for port in partition.output_ports:
            operand = builder.operands[port.id]
            if isinstance(operand, Edge):
                builder.operands[port.id] = program.scratch(operand.shape, operand.dtype)


def _compile(partition: Any, given: Partitioned) -> Compiled:
    step, builder, ops, engine = given.step, given.builder, given.ops, given.engine
    kinds = tuple(ops[i].kind for i in partition.op_ids)
    names = tuple(ops[i].name or ops[i].kind for i in partition.op_ids)
    if not partition.is_supported:
        raise UnsupportedError(
            f"{', '.join(kinds)}: oneDNN {engine.runtime.version} ({engine.runtime.name}) has no kernel for it on "
            f"{engine!r}"
        )
    inputs = _bound(partition.input_ports, builder)
    outputs = _bound(partition.output_ports, builder)
    try:
        compiled = partition.compile(
            [logical_tensor(view, i, builder.baked) for i, view in inputs.items()],
            [logical_tensor(view, i) for i, view in outputs.items()],
            engine.native,
            one_thread=any("Back" in kind for kind in kinds),
        )
    except Error as refusal:
        raise UnsupportedError(_refused(kinds, (*inputs.values(), *outputs.values()), engine, refusal)) from refusal
    # a result must not overwrite an operand that a second op of the partition reads later
    reads = Counter(operand for i in partition.op_ids for operand in ops[i].inputs)
    pairs = tuple((inputs[i], outputs[o]) for i, o in compiled.inplace_ports if reads[inputs[i]] == 1)
    alone = NativeStep(tuple(builder.bound(ops[i]) for i in partition.op_ids), step.label, group=step.group)
    return Compiled(
        compiled,
        tuple(inputs.values()),
        tuple(outputs.values()),
        step.label,
        names,
        kinds,
        alone,
        given.fpmath_mode,
        builder.baked,
        step.group,
        step.condition,
        pairs,
    )


def _refused(kinds: Sequence[str], views: Sequence[View], engine: Engine, refusal: Error) -> str:
    types = ", ".join(dict.fromkeys(view.dtype for view in views))
    return (
        f"{', '.join(kinds)} of {types}: oneDNN {engine.runtime.version} on {engine!r} refuses it and no code of this "
        f"package runs it; use f32 there, or another release of oneDNN (the library says: {refusal})"
    )


def again(part: Compiled, engine: Engine) -> list[Compiled]:
    """Compiles a part once more, for the same views; both copies share nothing that the library keeps of constants."""
    (given,) = partitioned([part.step], engine, part.fpmath_mode, baked=part.baked, fused=True)
    return compile_partitions(Program(), given)


def _bound(ports: Sequence[Any], builder: _Builder) -> dict[int, View]:
    found: dict[int, View] = {}
    for port in ports:
        operand = builder.operands[port.id]
        if isinstance(operand, Edge):
            raise RuntimeError(f"edge {port.id} of a native step has no buffer")
        found[port.id] = operand
    return found
