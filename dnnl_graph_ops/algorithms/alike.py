"""Lowers layers that are alike once: a later one gets the same kernels on its own buffers.

Layers are alike whose problems differ in buffers alone. What lies in constants does not affect the steps of layers in
floats beyond the choice of the algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from ..convolution.problem import ConvProblem
from ..ir.env import Env
from ..program.element_ops import MERGED
from ..program.program import Buffer, Copies, KernelStep, Place, Program, Step, View
from ..symbolic import current, frozen
from .algorithm import Algorithm


class _First(NamedTuple):
    """The first layer of some that are alike: its steps, the copies of its program, and the buffers of its operands."""

    steps: Sequence[Step]
    copies: Copies
    operands: Sequence[Buffer]


class _Recorded(NamedTuple):
    """The steps of a layer, the buffers of its operands, and what the buffers of copies are copies of."""

    steps: Sequence[KernelStep]
    operands: Sequence[Buffer]
    copies: Mapping[Buffer, tuple[View, str, tuple[int, ...]]]


def append(
    program: Program,
    shared: dict[Hashable, Any],
    problem: ConvProblem,
    algorithm: Algorithm,
    env: Env,
    build: Callable[[], None],
) -> None:
    """Appends the steps of a problem by an algorithm: by `build`, or as those of a layer in `shared` that is alike."""
    if algorithm.op or problem.quantization is not None or any(op.kind in MERGED for op in problem.epilogue):
        # the library's steps name their ops, those of integers depend on data, and merged ops tell of themselves
        build()
        return
    operands, key = _described(problem)
    key = algorithm, env.token, key if current() is None else frozen(key)
    lowered, start = shared.get(key), len(program.steps)
    if isinstance(lowered, _First):
        lowered = shared[key] = _recorded(lowered)
    if isinstance(lowered, _Recorded):
        _play(program, lowered, operands)
        return
    build()
    if key not in shared:
        shared[key] = _First(program.steps[start:], program.copies, operands)


def _described(problem: ConvProblem) -> tuple[list[Buffer], Hashable]:
    """Returns the buffers of a problem's operands, and a key of all else."""
    numbers: dict[Buffer, int] = {}

    def seen(view: View | None) -> Hashable:
        if view is None:
            return None
        b = view.buffer
        return (
            numbers.setdefault(b, len(numbers)),
            b.place._value_,
            b.dtype,
            b.elements,
            view.shape,
            view.strides,
            view.offset,
        )

    views = seen(problem.y), seen(problem.w), seen(problem.x), seen(problem.bias)
    epilogue = tuple(
        [
            (op.kind, tuple(op.attrs.items()), tuple([o if isinstance(o, int) else seen(o) for o in op.operands]))
            for op in problem.epilogue
        ]
    )
    key = problem.direction, problem.geometry.fields, problem.narrowed, views, epilogue
    return list(numbers), key


def _recorded(first: _First) -> _Recorded | None:
    """Returns the steps as a record; None where they cannot be those of another layer.

    They cannot where a step is by no kernel, or reads a constant that lowering has made, or a copy of an earlier layer.
    """
    buffers = set(first.operands)
    steps: list[KernelStep] = []
    for step in first.steps:
        written = {view.buffer for view in step.writes}
        foreign = written.difference(buffers) | {view.buffer for view in step.reads}.difference(buffers)
        if not isinstance(step, KernelStep) or any(b.place is not Place.SCRATCH for b in foreign):
            return None
        if not buffers.issuperset(view.buffer for view in step.reads):
            return None
        buffers |= written
        steps.append(step)
    return _Recorded(steps, first.operands, {copy.buffer: asked for asked, copy in first.copies.items()})


def _play(program: Program, recorded: _Recorded, operands: Sequence[Buffer]) -> None:
    """Appends recorded steps with other operands, and new scratch buffers for the recorded ones."""
    buffers = dict(zip(recorded.operands, operands, strict=True))

    def there(view: View) -> View:
        old = view.buffer
        buffer = buffers.get(old)
        if buffer is None:
            buffer = buffers[old] = Buffer(old.place, old.dtype, old.elements)
        return View(buffer, view.shape, view.strides, view.offset)

    for step in recorded.steps:
        copy = step.writes[0].buffer
        if copy in recorded.copies:
            # the program may have it already
            source, dtype, order = recorded.copies[copy]
            buffers[copy] = program.copied(there(source), dtype, order, step.label).buffer
            continue
        reads, writes = ([there(view) for view in views] for views in (step.reads, step.writes))
        pairs = [(there(a), there(b)) for a, b in step.in_place]
        program.kernel(step.kernel, reads, writes, step.label, pairs, step.cache_key, step.overwrites)
