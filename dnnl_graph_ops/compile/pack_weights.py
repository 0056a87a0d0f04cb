"""Runs the steps that read constants alone, and shares their results, above all packed weights, between plans.

Such steps run once, when a plan is made. The data of a buffer that they write is cached under a key: the steps that
write the buffer, each with the parameters of its kernel, the offsets that it reads and writes at, and the keys or
constants' tokens of the buffers that it reads. A key contains input sizes only if the packing depends on them, so that
the plans of a net, and of other nets of the graph, share one array. The cache holds arrays weakly: an array is freed
with the last plan that uses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from .. import dtypes
from ..ir.rewrites import Rewrite
from ..program.arrays import aligned, side_by_side
from ..program.program import Buffer, HostStep, KernelStep, NativeStep, Place, Step, View, array_of, data_of
from ..symbolic import pinned, plain

Array = np.ndarray[Any, Any]
# the most steps in sequence; results of longer sequences are not shared, as their cache keys would become long
_DEEPEST = 16
# bytes from which a result has pages of its own
_LARGE = 1 << 16

SHARE_PACKED = Rewrite(
    "share_packed",
    "all plans share one array with the result of equal steps on equal constants",
    ("the step has a cache key", "the result depends on few steps in sequence"),
)

_packed: WeakValueDictionary[Hashable, Array] = WeakValueDictionary()


def kept() -> dict[Hashable, Array]:
    return dict(_packed)


def keep(cache_key: Hashable, array: Array) -> None:
    """Enters an array in the cache, so that plans that are made later use it while the caller or a plan holds it."""
    _packed[plain(cache_key)] = array


def meant(cache_key: Any) -> tuple[Any, Any] | None:
    """Returns the dtype and the number of elements of a cache key's array; None if `cache_key` is none."""
    while isinstance(cache_key, tuple) and len(cache_key) == 4:
        cache_key = cache_key[0]
    return cache_key if isinstance(cache_key, tuple) and len(cache_key) == 2 else None


def fold_constants(steps: Sequence[Step]) -> list[Step]:
    """Runs the steps that read only constants, or takes their results from the cache; returns the remaining steps.

    Conditions that depend on constants alone are decided as well. Data that no remaining step reads is released at
    once: weights need not stay in memory next to their packed copies.
    """
    folded, remaining = parted(steps)
    if any(step.condition for step in steps):
        flags = {step.condition.flag.buffer for step in steps if step.condition}
        plain = [step for step in folded if step.condition is None]
        written = {view.buffer for step in plain for view in step.writes}
        _Folding(plain).make(flags & written)
        steps = [decided for step in steps for decided in _decided(step, written)]
        folded, remaining = parted(steps)
    folding = _Folding(folded)
    needed = {view.buffer for step in remaining for view in step.reads}
    needed |= {step.condition.flag.buffer for step in remaining if step.condition}
    folding.make(needed & folding.cache_keys.keys())
    return remaining


def _decided(step: Step, known: set[Buffer]) -> list[Step]:
    """Returns the step, without its condition if a flag in `known` fulfils it; [] if the flag rules the step out."""
    if step.condition is None or step.condition.flag.buffer not in known:
        return [step]
    wanted = bool(array_of(step.condition.flag)[0]) is step.condition.wanted
    return [replace(step, condition=None)] if wanted else []


def parted(steps: Sequence[Step]) -> tuple[list[KernelStep | HostStep], list[Step]]:
    """Divides steps into steps that depend on constants alone, and all others.

    Changes the buffers that the former write from scratch to constants.
    """
    readers: dict[Buffer, list[Step]] = {}
    for step in steps:
        for view in step.reads:
            readers.setdefault(view.buffer, []).append(step)
    fixed = (Place.CONSTANT, Place.SCRATCH)
    # a step that writes an output of the net runs at each call, and so writes its other results at each call
    varying = [
        step
        for step in steps
        if isinstance(step, NativeStep) or any(view.buffer.place not in fixed for view in (*step.reads, *step.writes))
    ]
    variable: set[Buffer] = set()
    while varying:
        for view in varying.pop().writes:
            if view.buffer not in variable:
                variable.add(view.buffer)
                varying += readers.get(view.buffer, ())
    folded: list[KernelStep | HostStep] = []
    remaining: list[Step] = []
    for step in steps:
        buffers = [view.buffer for view in step.writes]
        if isinstance(step, NativeStep) or any(b.place not in fixed or b in variable for b in buffers):
            remaining.append(step)
        else:
            folded.append(step)
    for step in folded:
        for view in step.writes:
            view.buffer.place = Place.CONSTANT
    return folded, remaining


class _Folding:
    """The steps on constants alone, and the cache key of each buffer that they write."""

    def __init__(self, steps: Sequence[KernelStep | HostStep]) -> None:
        self.steps = steps
        # for each buffer that the steps write: its cache key, and the number of steps in sequence in the cache key
        self.cache_keys: dict[Buffer, tuple[Hashable, int]] = {}
        for step in steps:
            self._add(step)

    def _add(self, step: KernelStep | HostStep) -> None:
        buffers = [view.buffer for view in step.reads]
        sources = [self.cache_keys.get(b) or (b if b.held is None else b.held.token, 0) for b in buffers]
        deepest = max((depth for _, depth in sources), default=0) + 1
        how, unmet = step.cache_key, ""
        if how is None or len(step.writes) > 1:
            unmet = "the step has a cache key"
        elif deepest > _DEEPEST:
            unmet = "the result depends on few steps in sequence"
        if unmet:
            SHARE_PACKED.declined(step.label, unmet)
            # a cache key that equals no other
            how, deepest, sources = object(), 0, []
        reads = tuple((token, view.offset) for view, (token, _) in zip(step.reads, sources, strict=False))
        for view in step.writes:
            before, depth = self.cache_keys.get(view.buffer, ((view.dtype, view.buffer.elements), 0))
            self.cache_keys[view.buffer] = (before, how, view.offset, reads), max(depth + 1, deepest)

    def make(self, buffers: Iterable[Buffer]) -> None:
        """Gives each of the buffers its data: from the cache, else by the steps that write it."""
        missing: set[Buffer] = set()

        def want(buffer: Buffer) -> None:
            if buffer.array is None and buffer in self.cache_keys and buffer not in missing:
                buffer.array = _packed.get(self.cache_keys[buffer][0])
                if buffer.array is None:
                    missing.add(buffer)
                else:
                    SHARE_PACKED.fired("constants")

        wanted = list(buffers)
        for buffer in wanted:
            want(buffer)
        to_run: list[KernelStep | HostStep] = []
        for step in reversed(self.steps):
            if any(view.buffer in missing for view in step.writes):
                to_run.append(step)
                for view in (*step.reads, *step.writes):
                    want(view.buffer)
        kept = missing.intersection(wanted)
        written = dict.fromkeys(view.buffer for step in reversed(to_run) for view in step.writes)
        large = [buffer for buffer in written if buffer in kept and buffer.nbytes >= _LARGE]
        if large:
            vectors = side_by_side([(buffer.elements, dtypes.numpy_dtype(buffer.dtype)) for buffer in large])
            for buffer, vector in zip(large, vectors, strict=True):
                buffer.array = vector
        waiting = Counter(buffer for step in to_run for buffer in {view.buffer for view in step.reads})
        waiting.update(wanted)
        for step in reversed(to_run):
            run_now(step)
            for buffer in {view.buffer for view in step.reads}:
                waiting[buffer] -= 1
                if not waiting[buffer] and (buffer in self.cache_keys or buffer.held is not None):
                    buffer.let_go()
        for buffer in wanted:
            if buffer in missing:
                keep(self.cache_keys[buffer][0], data_of(buffer))


def run_now(step: KernelStep | HostStep) -> None:
    """Runs a step whose operands have data, after it has allocated the results.

    A step without a cache key may depend on any size that its kernel was made with.
    """
    if isinstance(step, KernelStep) and step.cache_key is None:
        pinned(step.kernel)
    # views without elements are read although no step has written them
    for view in (*step.writes, *(view for view in step.reads if not view.buffer.elements)):
        buffer = view.buffer
        if buffer.array is None:
            buffer.array = aligned(buffer.elements, dtypes.numpy_dtype(buffer.dtype))
    views = (*step.reads, *step.writes)
    if isinstance(step, KernelStep):
        plain(step.kernel).run(*map(_operand, views))
    else:
        step.function(*map(array_of, views))


def _operand(view: View) -> Any:
    """Returns a view's data as kernels take it: the whole array, or the address where the view begins in it."""
    array, offset = data_of(view.buffer), view.byte_offset
    return array.ctypes.data + offset if offset else array
