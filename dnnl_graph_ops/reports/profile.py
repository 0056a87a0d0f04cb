"""Times the steps of a plan, and compares each with the peak rates of the machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from .._core import kernels
from ..algorithms import table as algorithms
from ..compile.plan import views_of
from ..compile.specialise import Specialised
from ..convolution.nodes import CONV_KINDS, multiplications
from ..cost import model as cost
from ..graph import Node
from ..onednn.partition import Compiled
from ..program.program import KernelStep, View
from ..runtime.engines import Engine
from ..words import counted
from . import peaks
from .explain import StepTime, named, operands
from .peaks import UNBOUND, Peak, share_text
from .steps import PRODUCTS, Part, described, groups_of
from .tables import html, table
from .trace import trace

ARITHMETIC, MEMORY = "arithmetic", "memory"

# builtin kernels that multiply, by the ends of their names; steps of the library are told by their ops
_MULTIPLYING = ("row_tiling", "_product", "_dgrad", "_fprop", "_wgrad", "_gradient")


class Profile(list[StepTime]):
    """The times of a plan's steps in the order in which they run; str() returns a table, the longest time first.

    `pandas.DataFrame(profile)` is a table of the steps.

    Attributes:
        threads: the number of threads that the steps run on.
    """

    threads: int = 1

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Returns the table for a notebook."""
        rows, notes = self._rows()
        return html(rows, notes, self._head())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace in Chrome's format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

        Steps and layers (consecutive steps of one op) are events of two tracks; the times are medians, one step after
        the other. An event has the ops, the algorithm, the tensors, their bytes and the number of threads.

        Raises:
            OSError: the file cannot be written.
        """
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace(self, self.threads), file, indent=1)

    def _head(self) -> str:
        return f"{sum(step.seconds for step in self) * 1e3:.3f} ms in {counted(len(self), 'step')}"

    def _rows(self) -> tuple[list[tuple[str, ...]], list[str]]:
        """Returns the rows of the table, and the note below each."""
        rows: list[tuple[str, ...]] = [("ms", "share", "of peak", "", "step", "of", "algorithm")]
        steps = sorted(self, key=lambda step: -step.seconds)
        for step in steps:
            rows.append((f"{step.seconds * 1e3:.3f}", f"{step.share:.1%}", of_peak(step), step.bound, *named(step)))
        return rows, ["", *map(operands, steps)]

    def _lines(self) -> Iterator[str]:
        yield self._head()
        rows, notes = self._rows()
        yield from table(rows, notes)
        if any(row[2].startswith(UNBOUND) for row in rows):
            yield f"{UNBOUND} the machine was busy while its peak was measured, or the step's data lie in the caches"


def of_peak(step: StepTime) -> str:
    """Returns what a step reaches of its peak, in percent; empty without a peak."""
    return share_text(step.of_peak, busy=step.busy, fewer=algorithms.filters(step.algorithm)) if step.bound else ""


def profile(specialised: Specialised, engine: Engine, ins: Sequence[Any], outs: Sequence[Any], repeat: int) -> Profile:
    plan, decisions = specialised.plan, specialised.lowering.decisions
    times = [seconds for _, seconds in plan.executor.profile(ins, outs, repeat)]
    total = sum(times) or 1.0
    # seconds of all steps that multiply, by their group, as several steps may share the products of one group
    spent: dict[int, float] = {}
    for part, seconds in zip(plan.parts, times, strict=True):
        if part.group is not None and _multiplies(part):
            spent[part.group] = spent.get(part.group, 0.0) + seconds
    steps = Profile()
    steps.threads = plan.executor.threads
    for part, seconds, step in zip(plan.parts, times, described(specialised), strict=True):
        groups = [decisions[number] for number in groups_of(part)]
        reached, bound, peak = 0.0, "", Peak(0.0)
        if engine.on_host:
            macs = sum(_macs_of(node) for group, _ in groups for node in group.nodes)
            if macs and part.group is not None and _multiplies(part):
                peak, bound = peaks.of_products(engine, groups[-1][1].compute, plan.executor.threads), ARITHMETIC
                reached = _share(macs, spent[part.group], peak)
            else:
                peak, bound = peaks.of_copies(engine, plan.executor.threads), MEMORY
                reached = _share(_moved(part), seconds, peak)
        steps.append(
            StepTime(
                step.title, seconds, step.ops, step.kinds, seconds / total, reached, bound,
                step.of, step.algorithm, step.reads, step.writes, peak.busy, _moved(part),
            )
        )  # fmt: skip
    return steps


def moved(part: Part) -> list[View]:
    """Returns the views that a step reads and writes, without its kernel's scratch, which is in the near caches."""
    is_scratch = isinstance(part, KernelStep) and isinstance(part.kernel, kernels.ScratchKernel) and not part.others
    scratch = part.writes[0].buffer if is_scratch else None
    return [view for view in views_of(part) if view.buffer is not scratch]


def _moved(part: Part) -> int:
    return sum(map(cost.nbytes, moved(part)))


def _share(work: float, seconds: float, peak: Peak) -> float:
    return work / seconds / peak.rate if seconds and peak.rate else 0.0


def _multiplies(part: Part) -> bool:
    if isinstance(part, Compiled):
        return not PRODUCTS.isdisjoint(part.kinds)
    return isinstance(part, KernelStep) and part.kernel.name.endswith(_MULTIPLYING)


def _macs_of(node: Node) -> int:
    """Returns the multiply-adds of a product by its definition, taps on padding included; 0 for other ops."""
    shapes = [value.shape for value in node.inputs]
    if node.kind in CONV_KINDS:
        return multiplications(node.kind, node.attrs, shapes, node.name)
    if node.kind != "MatMul":
        return 0
    inner = shapes[0][-2 if node.attrs["transpose_a"] and len(shapes[0]) > 1 else -1]
    total = int(inner or 0)
    for size in node.outputs[0].shape:
        total *= int(size or 0)
    return total
