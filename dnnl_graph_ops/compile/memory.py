"""Where scratch buffers lie in the arena: those that never live at the same time share memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..lowering.program import Buffer, Place, View

ALIGNMENT = 64


class Use(NamedTuple):
    """What a step reads and writes; `pairs`: a result that it can write over an operand."""

    reads: Sequence[View]
    writes: Sequence[View]
    pairs: Sequence[tuple[View, View]] = ()


def place(steps: Sequence[Use]) -> tuple[dict[Buffer, int], int, list[tuple[View, View]]]:
    """Byte offsets of the scratch buffers that the steps touch, the arena's size, and the pairs that are one place.

    Large buffers first, each at the lowest offset that is free for as long as it lives.
    """
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for time, step in enumerate(steps):
        for view in (*step.reads, *step.writes):
            if view.buffer.place is Place.SCRATCH:
                first.setdefault(view.buffer, time)
                last[view.buffer] = time
    owner = {buffer: buffer for buffer in first}
    end = dict(last)
    merged: list[tuple[View, View]] = []
    replaced: set[Buffer] = set()
    for time, step in enumerate(steps):
        for source, target in step.pairs:
            over, made = source.buffer, target.buffer
            if not _replaces(step, source, target) or over in replaced or owner[made] is not made:
                continue
            if last[over] == time == first[made]:
                merged.append((source, target))
                replaced.add(over)
                owner[made] = owner[over]
                end[owner[over]] = last[made]
    offsets: dict[Buffer, int] = {}
    total = 0
    for buffer in sorted(dict.fromkeys(owner.values()), key=lambda b: -b.nbytes):
        size = _padded(buffer)
        taken = sorted(
            (offsets[other], _padded(other))
            for other in offsets
            if first[other] <= end[buffer] and first[buffer] <= end[other]
        )
        offset = 0
        for start, length in taken:
            if offset + size <= start:
                break
            offset = max(offset, start + length)
        offsets[buffer] = offset
        total = max(total, offset + size)
    return {buffer: offsets[root] for buffer, root in owner.items()}, total, merged


def _padded(buffer: Buffer) -> int:
    return -(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT


def _replaces(step: Use, source: View, target: View) -> bool:
    """Whether both are whole scratch buffers of one layout that the step touches in no other way."""
    buffers = [view.buffer for view in (*step.reads, *step.writes)]
    return (
        source.buffer.place is target.buffer.place is Place.SCRATCH
        and source.buffer.nbytes == target.buffer.nbytes
        and (source.shape, source.strides, source.offset) == (target.shape, target.strides, target.offset)
        and buffers.count(source.buffer) == buffers.count(target.buffer) == 1
    )
