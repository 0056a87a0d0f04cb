"""Times the steps of a plan, and compares each with the peak rates of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .. import dtypes
from ..graph import Node
from ..lowering.family import MEMBERS, multiplications
from ..lowering.program import HostStep, KernelStep, View
from ..runtime.engines import Engine
from .explain import StepTime, groups_of, ops_of, table
from .native import Compiled
from .peaks import peaks
from .specialise import Specialised

ARITHMETIC, MEMORY = "arithmetic", "memory"

# beginnings of names of own kernels that multiply; steps of the library are told by their ops
_MULTIPLYING = ("bands", "depthwise_", "filter_", "groups_", "integer_", "narrow_", "overlap_", "row_product", "stem_")
_PRODUCTS = frozenset({*MEMBERS, "MatMul"})
_LONGEST = 60  # letters of a column


class Profile(list[StepTime]):
    """The times of a plan's steps in the order in which they run; str() returns a table, the longest time first."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{sum(step.seconds for step in self) * 1e3:.3f} ms in {len(self)} steps"
        rows: list[tuple[str, ...]] = [("ms", "share", "of peak", "", "step", "kinds", "ops")]
        for step in sorted(self, key=lambda step: -step.seconds):
            rows.append(
                (
                    f"{step.seconds * 1e3:.3f}",
                    f"{step.share:.1%}",
                    f"{step.of_peak:.0%}" if step.bound else "",
                    step.bound,
                    _short(step.step),
                    _short(" + ".join(step.kinds)),
                    _short(", ".join(step.ops)),
                )
            )
        yield from table(rows)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def profile(specialised: Specialised, engine: Engine, ins: Sequence[Any], outs: Sequence[Any], repeat: int) -> Profile:
    """Times each step of a plan `repeat` times on these inputs and outputs."""
    plan, decisions = specialised.plan, specialised.built.decisions
    times = [seconds for _, seconds in plan.executor.profile(ins, outs, repeat)]
    total = sum(times) or 1.0
    # seconds of all steps that multiply, by their group, as several steps may share the products of one group
    spent: dict[int, float] = {}
    for part, seconds in zip(plan.parts, times, strict=True):
        if part.group is not None and _multiplies(part):
            spent[part.group] = spent.get(part.group, 0.0) + seconds
    found = Profile()
    for part, seconds in zip(plan.parts, times, strict=True):
        groups = [decisions[number] for number in groups_of(part)]
        nodes = [node for group, _ in groups for node in group.nodes]
        of_peak, bound = 0.0, ""
        if engine.on_host:
            most = peaks(engine, groups[-1][1].compute if groups else "f32", plan.executor.threads)
            macs = sum(map(_macs, nodes)) if part.group in spent and _multiplies(part) else 0
            if macs and part.group is not None:
                of_peak, bound = _share(macs, spent[part.group], most.macs), ARITHMETIC
            else:
                of_peak, bound = _share(_moved(part), seconds, most.bytes), MEMORY
        ops = tuple(name for group, _ in groups for name in ops_of(group))
        kinds = tuple(node.kind for group, _ in groups for node in group.listed)
        found.append(StepTime(part.label, seconds, ops, kinds, seconds / total, of_peak, bound))
    return found


def _share(work: float, seconds: float, most: float) -> float:
    return work / seconds / most if seconds and most else 0.0


def _multiplies(part: Compiled | KernelStep | HostStep) -> bool:
    if isinstance(part, Compiled):
        return not _PRODUCTS.isdisjoint(part.kinds)
    return isinstance(part, KernelStep) and part.kernel.name.startswith(_MULTIPLYING)


def _macs(node: Node) -> int:
    """Returns the multiply-adds of a product by its definition, taps on padding included; 0 for other ops."""
    shapes = [value.shape for value in node.inputs]
    if node.kind in MEMBERS:
        return multiplications(node.kind, node.attrs, shapes, node.name)
    if node.kind != "MatMul":
        return 0
    inner = shapes[0][-2 if node.attrs["transpose_a"] and len(shapes[0]) > 1 else -1]
    total = int(inner or 0)
    for size in node.outputs[0].shape:
        total *= int(size or 0)
    return total


def _moved(part: Compiled | KernelStep | HostStep) -> int:
    views: tuple[View, ...]
    views = (*part.inputs, *part.outputs) if isinstance(part, Compiled) else (*part.reads, *part.writes)
    return sum(view.size * dtypes.itemsize(view.dtype) for view in views)
