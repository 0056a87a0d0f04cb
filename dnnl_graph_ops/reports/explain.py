"""Explains a plan of a net: its fusion groups, algorithms, implementations, layouts, memory and time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from operator import itemgetter
from statistics import median
from typing import Any

from .._core import kernels
from ..algorithms import choice
from ..algorithms import table as algorithms
from ..algorithms.lower import Decision
from ..backends.backend import FusionGroup
from ..compile.plan import Plan
from ..compile.specialise import Options, Specialised
from ..convolution.nodes import CONV_KINDS
from ..cost import fits
from ..cost import model as cost
from ..errors import Error
from ..ir.env import Env
from ..ir.rewrites import Report
from ..onednn import exact_int8
from ..onednn.log import logged
from ..onednn.partition import Compiled, again
from ..program.program import HostStep, KernelStep, Place
from ..runtime import cpu
from ..runtime import threads as pool
from ..runtime.engines import Engine
from ..runtime.verbose import Record
from ..words import counted
from . import int8, post_ops
from .benchdnn import lines
from .steps import Described, described, groups_of, head, names_of
from .tables import html, paragraph, table, with_short_names

# algorithms of a group that the table has
_WEIGHED = 4
# properties of a PartitionReport that `Explanation.to_dict` includes
_DERIVED = ("implementation", "layouts", "reference", "scratch_bytes", "remark")


@dataclass(frozen=True)
class Benchmark:
    """The seconds of each timed execution of a plan, in native code alone, without the Python call around it."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.times)

    @property
    def minimum(self) -> float:
        return min(self.times)

    def __repr__(self) -> str:
        return f"Benchmark(median={self.median * 1e6:.2f} us, minimum={self.minimum * 1e6:.2f} us, n={len(self.times)})"


@dataclass(frozen=True)
class StepTime:
    """The median seconds of one step of the plan, its share of the whole plan, and its fraction of the machine's peak.

    of_peak: fraction of the peak of multiply-adds (`bound` is "arithmetic") or of bytes read and written ("memory") in
    a second. Multiply-adds are counted by the op's definition, so an algorithm that multiplies less often (Winograd)
    may be above 1. A step whose tensors fit in the caches may be above 1, too, which is marked by "~" in the table.
    """

    step: str
    seconds: float
    # names of the ops of the fusion group that the step belongs to; empty for a copy to a second output
    ops: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    share: float = 0.0
    of_peak: float = 0.0
    bound: str = ""
    # as of a StepReport
    of: str = ""
    algorithm: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    # whether others used the machine while the peak was measured
    busy: bool = False
    # of the tensors that the step reads and writes; 0 of nodes between graphs
    bytes: int = 0


@dataclass(frozen=True)
class StepReport:
    """One step of a plan: its implementation, the tensors that it reads and writes, and its memory.

    reads, writes: name, shape, dtype and layout of each tensor, e.g. "x 1x64x32x32 f32" if it is row-major, or
    "x 1x64x32x32 f32 acdb" with the axes from the slowest to the fastest. reorders: how many reorders the library runs
    in the step. reference: whether a slow reference implementation runs, such as a reference kernel of the library.
    scratch_bytes: bytes of the intermediate results that the step writes, and of the library's scratchpad (known from
    oneDNN 3.13 on). of: kind and name of the op that the step belongs to, e.g. "Convolution conv1"; algorithm: how this
    op is computed.
    """

    step: str
    implementation: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    reorders: int
    reference: bool
    scratch_bytes: int
    of: str = ""
    algorithm: str = ""


@dataclass(frozen=True)
class PartitionReport:
    """A fusion group: ops that run together, the algorithm (`formulation`) chosen for them, and their steps.

    candidates: the algorithms that were compared, with estimated or, if `measured`, with measured seconds, the fastest
    first.
    """

    ops: tuple[str, ...]
    kinds: tuple[str, ...]
    formulation: str
    compute_dtype: str
    candidates: tuple[tuple[str, float], ...]
    measured: bool
    steps: tuple[StepReport, ...]
    # the instruction set and dtype of the cost constants, if the ones in use have no constants of their own
    estimated_from: str = ""
    # where the rates of this CPU are from, if they correct these constants: `runtime.rates`
    rates_from: str = ""

    @property
    def implementation(self) -> str:
        """Returns the implementations of the steps, those of the library as its log names them, joined by "; "."""
        return "; ".join(dict.fromkeys(step.implementation for step in self.steps))

    @property
    def layouts(self) -> tuple[str, ...]:
        """Returns the tensors that the steps read and write, each as name, shape, dtype and layout."""
        return tuple(dict.fromkeys(text for step in self.steps for text in (*step.reads, *step.writes)))

    @property
    def reference(self) -> bool:
        """Whether a slow reference implementation computes a step."""
        return any(step.reference for step in self.steps)

    @property
    def remark(self) -> str:
        """Returns a note on the algorithm, such as how much less accurate than direct sums it is; empty for most."""
        return algorithms.remark(self.formulation)

    @property
    def scratch_bytes(self) -> int:
        """Returns the bytes of scratch of all steps; steps of other groups may use the same memory."""
        return sum(step.scratch_bytes for step in self.steps)


@dataclass(frozen=True)
class RewriteReport:
    """A rewrite that fired at an op or a step, or that was declined, with the condition that does not hold there."""

    rewrite: str
    at: str
    declined: str = ""


@dataclass(frozen=True, repr=False)
class Explanation:
    """Describes a plan of a net; str() and repr() return a table, `.to_dict()` the data."""

    runtime: str
    isa: str
    threads: int
    tune: str
    algorithm: str
    # "bf16" or "f16" if f32 products may be computed with operands of this dtype
    precision: str | None
    scratch_bytes: int
    constant_bytes: int
    groups: tuple[PartitionReport, ...]
    steps: tuple[StepReport, ...]
    # names of the products that stay in f32 although `precision` was asked for, and why
    wide: Mapping[str, str]
    # the choice of precision="auto" in one line; empty with other precisions
    chosen: str = ""
    # with explain(rewrites=True)
    rewrites: tuple[RewriteReport, ...] = ()
    # with explain(passes=True): the graph after each pass
    passes: tuple[tuple[str, str], ...] = ()
    # a line of arguments of benchdnn for each convolution
    convolutions: tuple[str, ...] = ()
    # names of the ops whose results are floats in memory between a Dequantize and a Quantize, and why
    floats: Mapping[str, str] = field(default_factory=dict)
    # that int8 partitions of the library were never tried on this CPU, where products of integers might be some
    untried: str = ""
    # names of the post-ops that run apart from the library's kernel before them, and why
    apart: Mapping[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> tuple[PartitionReport, ...]:
        """The fusion groups: another name of `groups`. `Net.partitions` has the library's partitions alone."""
        return self.groups

    def benchdnn(self) -> str:
        """Returns a line for each convolution, transposed or not, and each gradient of these, in the order of the plan.

        oneDNN's benchmark driver runs a file of these lines: `benchdnn --batch=FILE`. Post-ops that are fused into a
        convolution are left out.
        """
        return "\n".join(self.convolutions)

    def to_dict(self) -> dict[str, Any]:
        """Returns the explanation as dicts and lists, which JSON can hold."""
        data = asdict(self)
        for group, record in zip(self.groups, data["groups"], strict=True):
            record |= {name: getattr(group, name) for name in _DERIVED}
        return {**data, "partitions": data["groups"]}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Returns the tables of groups and of steps for a notebook."""
        groups = html(self._group_rows(), ["", *map(weighed, self.groups)], "; ".join(self._head()))
        return groups + html(self._step_rows(), ["", *map(operands, self.steps)])

    def _head(self) -> Iterator[str]:
        chosen = f"tune={self.tune}, algorithm={self.algorithm}, precision={self.precision}"
        yield f"{self.runtime}, {self.isa}, {counted(self.threads, 'thread')}, {chosen}"
        if self.chosen:
            yield f"precision='auto': {self.chosen}"
        yield f"scratch {self.scratch_bytes:,} bytes, constants {self.constant_bytes:,} bytes"

    def _group_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("ops", "of", "algorithm", "computed in", "scratch")]
        for group in self.groups:
            ops, of = " + ".join(group.kinds), with_short_names(group.ops[head(group.kinds)])
            rows.append((ops, of, group.formulation, group.compute_dtype, f"{group.scratch_bytes:,}"))
        return rows

    def _step_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("step", "of", "algorithm", "implementation")]
        for step in self.steps:
            name = step.implementation + (" (reference kernel)" if step.reference else "")
            rows.append((*named(step), f"{name} + reorder x {step.reorders}" if step.reorders else name))
        return rows

    def _lines(self) -> Iterator[str]:
        yield from self._head()
        yield ""
        yield from table(self._group_rows(), ["", *map(weighed, self.groups)])
        yield ""
        sections = {
            f"not in {self.precision}": self.wide,
            "floats between integers": self.floats,
            "apart from the library's kernel": self.apart,
        }
        for said, reasons in sections.items():
            for reason in dict.fromkeys(reasons.values()):
                names = ", ".join(name for name, why in reasons.items() if why == reason)
                yield from paragraph(f"{said}: {names}: {reason}")
            if reasons:
                yield ""
        if self.untried:
            yield from (*paragraph(f"int8: {self.untried}"), "")
        yield from table(self._step_rows(), ["", *map(operands, self.steps)])
        for name, graph in self.passes:
            yield f"\ngraph {name}:"
            yield graph
        if self.rewrites:
            yield ""
            yield from table([("rewrite", "at", "what became of it"), *map(_row, self.rewrites)])


def _row(report: RewriteReport) -> tuple[str, str, str]:
    end = f"declined, as this does not hold: {report.declined}" if report.declined else "fired"
    return report.rewrite, report.at, end


def weighed(group: PartitionReport) -> str:
    """Returns the remark on a group's algorithm, and the fastest ones that were compared, measured or estimated."""
    how = "measured" if group.measured else "estimated"
    if group.estimated_from:
        how += f" from {group.estimated_from}"
    if group.rates_from:
        how += f" at the rates of this CPU ({group.rates_from})"
    fastest = ", ".join(f"{name} ({seconds * 1e6:.0f} us)" for name, seconds in group.candidates[:_WEIGHED])
    return "; ".join(text for text in (group.remark, f"{how}: {fastest}" if fastest else "") if text)


def named(step: StepReport | StepTime) -> tuple[str, str, str]:
    """Returns what a step is, and of what op by what algorithm, as cells of a table."""
    return step.step, with_short_names(step.of), step.algorithm


def operands(step: StepReport | StepTime) -> str:
    """Returns the tensors that a step reads and writes."""
    reads, writes = (", ".join(map(with_short_names, texts)) for texts in (step.reads, step.writes))
    return f"{reads} -> {writes}".strip() if writes else reads


def rewrites_of(reports: Sequence[Report]) -> tuple[RewriteReport, ...]:
    """Returns each report once; where a rewrite fired at an op or step, its declined attempts there are left out."""
    rows = [(one.rewrite, one.node if isinstance(one.node, str) else one.node.name, one.condition) for one in reports]
    fired = {(rewrite, at) for rewrite, at, condition in rows if not condition}
    return tuple(RewriteReport(*row) for row in dict.fromkeys(rows) if not row[2] or row[:2] not in fired)


def explain(specialised: Specialised, engine: Engine, options: Options) -> Explanation:
    """Returns the explanation of a plan.

    At the first call for a plan, a copy of each of the library's partitions is compiled and run, to log its primitives.
    """
    plan, decided = specialised.plan, [group for group, _ in specialised.lowering.decisions]
    steps = [_step(plan, number, engine, step) for number, step in enumerate(described(specialised))]
    groups = tuple(
        PartitionReport(
            *names_of(group),
            decision.formulation,
            decision.compute,
            tuple(_candidates(decision, specialised.lowering.env)),
            decision.measured,
            tuple(step for step, part in zip(steps, plan.parts, strict=True) if i in groups_of(part)),
            *_estimated_from(group, decision, specialised.lowering.env),
        )
        for i, (group, decision) in enumerate(specialised.lowering.decisions)
    )
    return replace(
        nothing(engine, options),
        scratch_bytes=plan.executor.arena_bytes,
        constant_bytes=plan.executor.constant_bytes,
        groups=groups,
        steps=tuple(steps),
        wide=specialised.wide,
        convolutions=tuple(lines(decided)),
        floats=int8.left(decided),
        untried=exact_int8.untried([node for group in decided for node in group.nodes], specialised.lowering.env),
        apart=post_ops.post_ops(specialised.lowering.decisions, specialised.lowering.env),
    )


def nothing(engine: Engine, options: Options) -> Explanation:
    """Returns the explanation of a plan without steps."""
    return Explanation(
        f"oneDNN {engine.runtime.version} ({engine.runtime.name})",
        cpu.isa(engine) if engine.kind == "cpu" else "gpu",
        pool.get_num_threads(),
        options.tune,
        options.algorithm,
        options.asked_precision,
        0,
        0,
        (),
        (),
        {},
    )


def joined(parts: Sequence[Explanation]) -> Explanation:
    """Returns the first explanation with the memory, groups, steps and reports of all."""
    lists = ("groups", "steps", "rewrites", "passes", "convolutions")
    sums: dict[str, Any] = {name: tuple(item for part in parts for item in getattr(part, name)) for name in lists}
    sums |= {name: sum(getattr(part, name) for part in parts) for name in ("scratch_bytes", "constant_bytes")}
    for name in ("wide", "floats", "apart"):
        sums[name] = {op: why for part in parts for op, why in getattr(part, name).items()}
    return replace(parts[0], **sums, untried=next((part.untried for part in parts if part.untried), ""))


def _candidates(decision: Decision, env: Env) -> list[tuple[str, float]]:
    """Returns the algorithms that were compared, the fastest first, with measured seconds or estimates for this CPU."""
    problem, found = decision.problem, sorted(decision.candidates, key=itemgetter(1))
    if decision.measured or problem is None:
        return found
    factor = choice.scale(problem, env) * algorithms.clock(problem, env)
    return [(name, seconds * factor) for name, seconds in found]


def _estimated_from(group: FusionGroup, decision: Decision, env: Env) -> tuple[str, str]:
    """Returns the values of `PartitionReport.estimated_from` and `rates_from`."""
    dtypes_read = [node.inputs[0].dtype for node in group.nodes if node.kind in CONV_KINDS]
    if env.engine.kind != "cpu" or decision.measured or not decision.candidates or not dtypes_read:
        return "", ""
    dtype = env.compute_dtype(dtypes_read[0])
    origin, record = fits.origin(env.isa, env.release, dtype), env.rates
    corrections = {} if record is None else cost.corrections(env.isa, env.release, dtype, record)
    corrected = any(factor != 1 for factor in corrections.values())
    return (
        "" if origin == (env.isa, dtype) else ", ".join(origin),
        record.source if record is not None and corrected else "",
    )


def _step(plan: Plan, number: int, engine: Engine, step: Described) -> StepReport:
    part = plan.parts[number]
    reorders, slow = 0, False
    written = {view.buffer for view in part.writes}
    scratch = sum(buffer.nbytes for buffer in written if buffer.place is Place.SCRATCH)
    if isinstance(part, KernelStep):
        implementation = f"builtin, {part.kernel.by or kernels.isa()}"
    elif isinstance(part, HostStep):
        implementation, slow = part.by, part.by != "NumPy"
    else:
        if number not in plan.executed:
            # if the library refuses the copy now, the next explanation tries again
            with suppress(Error):
                plan.executed[number] = _executed(part, engine, plan.executor.threads)
        records = plan.executed.get(number, ())
        main = [record for record in records if record.primitive != "reorder"] or records
        implementation = ", ".join(f"{record.primitive} {record.implementation}" for record in main) or "unknown"
        slow = any(record.reference for record in main)
        reorders = sum(record.primitive == "reorder" for record in records)
        scratch += part.partition.scratchpad_size
    return StepReport(
        step.title, implementation, step.reads, step.writes, reorders, slow, scratch, step.of, step.algorithm
    )


def _executed(part: Compiled, engine: Engine, threads: int) -> tuple[Record, ...]:
    """Returns the log records of the primitives that a partition runs at every call.

    A copy of the partition is compiled and run: the plan's own processes its constants itself.
    """
    with pool.using(threads):
        twin, *more = again(part, engine)
    if more:
        # compiled apart, these ops make several partitions, which would run other primitives
        return ()
    _, later = logged(replace(twin, in_place=part.in_place), engine, threads)
    return later
