"""Where scratch buffers lie in the arena: those that never live at the same time share memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..lowering.program import Buffer, Place, View

ALIGNMENT = 64


def place(steps: Sequence[tuple[Iterable[View], Iterable[View]]]) -> tuple[dict[Buffer, int], int]:
    """Byte offsets of the scratch buffers that the steps (reads, writes) touch, and the arena's size.

    Large buffers first, each at the lowest offset that is free for as long as it lives.
    """
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for time, (reads, writes) in enumerate(steps):
        for view in (*reads, *writes):
            if view.buffer.place is Place.SCRATCH:
                first.setdefault(view.buffer, time)
                last[view.buffer] = time
    offsets: dict[Buffer, int] = {}
    total = 0
    for buffer in sorted(first, key=lambda b: -b.nbytes):
        size = -(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        taken = sorted(
            (offsets[other], -(-max(other.nbytes, 1) // ALIGNMENT) * ALIGNMENT)
            for other in offsets
            if first[other] <= last[buffer] and first[buffer] <= last[other]
        )
        offset = 0
        for start, length in taken:
            if offset + size <= start:
                break
            offset = max(offset, start + length)
        offsets[buffer] = offset
        total = max(total, offset + size)
    return offsets, total
