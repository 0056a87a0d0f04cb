"""Tells whether an op runs with a dtype on an engine, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import dtypes, schema
from ..backends.builtin import BUILTIN
from ..backends.convolution import CONVOLUTION
from ..backends.equal import EQUAL
from ..backends.kinds import Kind, Target
from ..backends.onednn import ONEDNN
from ..backends.table import NOWHERE, who_runs
from ..errors import InvalidArgumentError
from ..lowering.env import Env
from ..runtime import engine as open_engine
from ..runtime.engines import Engine, default_engine
from ..schema.arguments import show, suggest

_ALIASES = dict.fromkeys(
    ("conv_transpose_backprop_filters", "ConvTransposeBackpropFilters"), "ConvTransposeBackwardWeights"
)


@dataclass(frozen=True)
class Support:
    """The answer of `supported`; true if the op runs.

    `how` is "natively", "in f32" (operands and results are converted), "on the host" (own code or NumPy), or "" if the
    op does not run; `reason` says why.
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
    target = _engine(engine)
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
        own = "an own kernel" if backend is BUILTIN else "NumPy"
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
        near = suggest(name, [*schema.BUILDERS, *schema.OPS]) or "; dgo.ops has one function for each, such as max_pool"
        raise InvalidArgumentError(f"supported: no op {name!r}{near}")
    return kind


def _engine(engine: Any) -> Engine:
    if engine is None:
        return default_engine()
    if isinstance(engine, str):
        return open_engine(engine)  # type: ignore[arg-type]
    if not isinstance(engine, Engine):
        raise TypeError(f"supported: 'engine' must come from dgo.engine(...), got {show(engine)}")
    return engine


def _dtypes(kind: str, dtype: str) -> tuple[list[str], list[str]]:
    """Returns the dtypes of an op's required inputs and outputs if its first input, or else its result, is `dtype`."""
    spec = schema.OPS[kind]
    required = [slot for slot in spec.inputs if slot.required or slot.variadic]
    results = [slot for slot in spec.outputs if slot.required]
    if required and required[0].dtypes and dtype not in required[0].dtypes:
        if not results or results[0].group == required[0].group or dtype not in results[0].dtypes:
            raise InvalidArgumentError(f"{kind} takes {', '.join(required[0].dtypes)}, not {dtype}")
        made = {results[0].group: dtype}
    elif required:
        made = {required[0].group: dtype}
    else:
        made = {results[0].group: dtype} if results else {}

    def fill(slots: Sequence[schema.Slot]) -> list[str]:
        found = []
        for slot in slots:
            choices = slot.dtypes or (dtype,)
            usual = dtype if dtype in choices else "f32" if "f32" in choices else choices[0]
            if kind == "TypeCast" and slot.group not in made:
                usual = next(item for item in choices if item != dtype)
            found.append(made.setdefault(slot.group, usual))
        return found

    return fill(required), fill(results)
