"""Views that the library cannot describe, or describes and misreads: copies around the steps that use them."""

from __future__ import annotations

from dataclasses import replace

from .program import NativeOp, NativeStep, Operand, Program, Step, View, describable


def staged(step: Step) -> list[Step]:
    """The step, working on row-major copies of the views that the library cannot describe."""
    if not isinstance(step, NativeStep):
        return [step]
    reads, writes = dict.fromkeys(step.reads), dict.fromkeys(step.writes)
    odd = [view for view in reads | writes if view.size and not _taken(view)]
    if not odd:
        return [step]
    program = Program()
    twins: dict[Operand, View] = {view: program.scratch(view.shape, view.dtype) for view in odd}
    for view in odd:
        if view in reads:
            program.copy(view, twins[view], "copy of a strided view")
    program.steps.append(_on(step, twins))
    for view in odd:
        if view in writes:
            program.copy(twins[view], view, "copy to a strided view")
    return program.steps


def _taken(view: View) -> bool:
    """Whether the library reads this view as it is.

    Seen in 3.2: elementwise ops, PReLU and BatchNorm end in SIGSEGV on one element that stands for all.
    """
    spread = [stride for stride, size in zip(view.strides, view.shape, strict=True) if size > 1]
    return describable(view) and (not spread or any(spread))


def _on(step: NativeStep, twins: dict[Operand, View]) -> NativeStep:
    def op(item: NativeOp) -> NativeOp:
        inputs, outputs = (tuple(twins.get(o, o) for o in some) for some in (item.inputs, item.outputs))
        return replace(item, inputs=inputs, outputs=outputs)

    fallback = step.fallback
    if fallback is not None:
        reads, writes = (tuple(twins.get(v, v) for v in some) for some in (fallback.reads, fallback.writes))
        fallback = replace(fallback, reads=reads, writes=writes)
    return replace(step, ops=tuple(map(op, step.ops)), fallback=fallback)
