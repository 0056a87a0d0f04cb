"""Tells whether an op runs with a dtype on an engine, and tabulates what computes each op kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import dtypes, schema, words
from ..backends.backend import Kind, Target, Version
from ..backends.builtin import BUILTIN, KERNELS
from ..backends.convolution import CONVOLUTION
from ..backends.equal import EQUAL
from ..backends.onednn import ONEDNN
from ..backends.table import NOWHERE, who_runs
from ..errors import InvalidArgumentError
from ..ir.env import Env
from ..runtime import cpu
from ..runtime import engine as open_engine
from ..runtime.engines import Engine, default_engine
from ..schema.arguments import show, suggest

_ALIASES = dict.fromkeys(
    ("conv_transpose_backprop_filters", "ConvTransposeBackpropFilters"), "ConvTransposeBackwardWeights"
)


@dataclass(frozen=True)
class Support:
    """The answer of `supported`; true if the op runs.

    `how` is "natively", "in f32" (operands and results are converted), "on the host" (builtin code or NumPy), or "" if
    the op does not run; `reason` says why.
    """

    op: str
    dtype: str
    engine: str
    how: str
    reason: str

    def __bool__(self) -> bool:
        return bool(self.how)

    def __str__(self) -> str:
        verdict = f"runs {self.how}" if self.how else "does not run"
        return f"{self.op} of {self.dtype} {verdict} on {self.engine}: {self.reason}"


def supported(op: str | Callable[..., Any], *, dtype: Any = "f32", engine: Engine | str | None = None) -> Support:
    """Whether an op runs with a dtype on an engine, by the tables of the library's version and the CPU.

    Args:
        op: a builder's name or the builder ("max_pool", `dgo.ops.max_pool`), or a kind ("MaxPool").
        dtype: the dtype of the op's first input, or of its result if only the result takes this dtype (Quantize).
        engine: an engine from `dgo.engine`, or its kind, such as "cpu"; None: the default CPU engine.

    Returns:
        A `Support`: true or false, with `.how` and `.reason`. Attributes and shapes may still rule a use out.

    Raises:
        InvalidArgumentError: the op or the dtype is unknown. RuntimeUnavailableError: there is no such engine.
        TypeError: an argument has a wrong Python type.
    """
    kind = _kind(op)
    name = dtypes.canonical(dtype)
    if isinstance(engine, str):
        engine = open_engine(engine)  # type: ignore[arg-type]
    target = default_engine() if engine is None else engine
    if not isinstance(target, Engine):
        raise TypeError(f"supported: 'engine' must come from dgo.engine(...), got {show(engine)}")
    runtime = target.runtime
    label = f"{target.kind} ({runtime.name}, oneDNN {runtime.version})"

    def answer(how: str, reason: str) -> Support:
        return Support(kind, name, label, how, reason)

    try:
        inputs, outputs = _dtypes(kind, name)
    except InvalidArgumentError as error:
        return answer("", str(error))
    here = Target.of(Env(target, threads=1))
    backend, why = who_runs(Kind(kind, inputs, outputs), here)
    if backend is NOWHERE:
        return answer("", why)
    if backend not in (ONEDNN, CONVOLUTION):
        own = "a builtin kernel" if backend is BUILTIN else "NumPy"
        return answer("on the host", f"{why}; {'an equal op or NumPy' if kind in EQUAL else own} does it")
    if any(here.compute_dtype(item, kind) != item for item in (*inputs, *outputs)):
        lacks = "no" if here.compute_dtype(name) != name else f"for {kind} a reference kernel among its"
        return answer("in f32", f"the library has {lacks} {name} kernels for {here.isa}; converted at the edges")
    return answer("natively", "the library has kernels for it")


def _kind(op: Any) -> str:
    name = op if isinstance(op, str) else getattr(op, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"supported: 'op' must be a name or a builder of dgo.ops, got {type(op).__name__}")
    kind = _ALIASES.get(name) or schema.BUILDERS.get(name, name)
    if kind not in schema.OPS:
        meant = schema.BUILDERS.get(words.OPS.get(name.lower(), ""))
        near = f"; did you mean {meant!r}?" if meant else suggest(name, [*schema.BUILDERS, *schema.OPS])
        near = near or "; dgo.ops has one function for each, such as max_pool"
        raise InvalidArgumentError(f"supported: no op {name!r}{near}")
    return kind


def _dtypes(kind: str, dtype: str) -> tuple[list[str], list[str]]:
    """Returns the dtypes of an op's required inputs and outputs if its first input, or else its result, is `dtype`."""
    spec = schema.OPS[kind]
    required = [slot for slot in spec.inputs if slot.required or slot.variadic]
    results = [slot for slot in spec.outputs if slot.required]
    if required and required[0].dtypes and dtype not in required[0].dtypes:
        if not results or results[0].group == required[0].group or dtype not in results[0].dtypes:
            raise InvalidArgumentError(f"{kind} takes {', '.join(required[0].dtypes)}, not {dtype}")
        groups = {results[0].group: dtype}
    else:
        groups = {slot.group: dtype for slot in (required or results)[:1]}

    def fill(slots: Sequence[schema.Slot]) -> list[str]:
        for slot in slots:
            choices = slot.dtypes or (dtype,)
            usual = dtype if dtype in choices else "f32" if "f32" in choices else choices[0]
            if kind == "TypeCast" and slot.group not in groups:
                usual = next(item for item in choices if item != dtype)
            groups.setdefault(slot.group, usual)
        return [groups[slot.group] for slot in slots]

    return fill(required), fill(results)


# the bundled library, and the newest release that was tried
VERSIONS: tuple[Version, ...] = ((3, 2), (3, 13))

# what the library leaves to reference kernels; explain() flags it where it happens
REFERENCE = {kind: schema.REFERENCE[op.reference] for kind, op in schema.OPS.items() if op.reference}


class Row(NamedTuple):
    """A row of the table: an op kind, the release of oneDNN that introduced it, and what computes it by version."""

    kind: str
    since: str
    how: tuple[str, ...]
    reason: str


def how(kind: str, version: Version) -> tuple[str, str]:
    """Returns what computes an op of usual dtypes and default attributes, and why not the library, if it does not."""
    if kind in KERNELS and KERNELS[kind].preferred:
        return CONVOLUTION.title, ""
    if kind == "End":
        return "nothing to do", ""
    backend, reason = who_runs(Kind(kind), Target(version))
    if backend is NOWHERE and schema.OPS[kind].cpu_since is None:
        reason = f"nothing computes {kind}"
    return backend.title, reason


def rows(versions: Sequence[Version] = VERSIONS) -> list[Row]:
    table = []
    for kind, op in sorted(schema.OPS.items()):
        names, reasons = zip(*(how(kind, version) for version in versions), strict=True)
        since = "-" if op.own else ".".join(map(str, op.since))
        table.append(Row(kind, since, names, next(filter(None, reasons), "")))
    return table


def markdown(only_missing: bool = False, versions: Sequence[Version] = VERSIONS) -> Iterator[str]:
    """Yields the lines of the table in Markdown; `only_missing`: only ops that some version does not support."""
    names = [".".join(map(str, version)) for version in versions]
    yield "| op | in oneDNN since | " + " | ".join(f"with {name}" for name in names) + " |"
    yield "|---" * (2 + len(names)) + "|"
    for row in rows(versions):
        if not only_missing or any(item == "not supported" for item in row.how):
            yield f"| {row.kind} | {row.since} | " + " | ".join(row.how) + " |"
    if not only_missing:
        yield from reference_kernels()


def reference_kernels() -> Iterator[str]:
    """Yields two tables in Markdown: ops for which the library has reference kernels, and ops computed in f32 instead.

    The former run by builtin code, but with tune="off"; the latter would run by reference kernels in bf16 or f16.
    """
    yield ""
    yield '| op by a reference kernel, which is slow, with tune="off" | when |'
    yield "|---|---|"
    for kind, when in sorted(REFERENCE.items()):
        yield f"| {kind} | {when} |"
    yield ""
    yield "| op in f32 instead | dtype | with |"
    yield "|---|---|---|"
    for row in cpu.REFERENCE:
        for op in sorted(row.ops):
            yield f"| {op} | {row.dtype} | {row.since} and sets that contain it |"
