"""Places scratch buffers in the arena, where buffers that are never alive at the same time share memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .. import dtypes
from .._core import ScratchLives
from ..ir.rewrites import Rewrite
from ..program.arrays import ALIGNMENT
from ..program.program import Buffer, Place, View
from ..symbolic import frozen

OVERWRITE_OPERAND = Rewrite(
    "overwrite_operand",
    "a step's result overwrites an operand in memory",
    (
        "no later step reads the operand",
        "result and operand have one layout, in scratch",
        "one result alone overwrites the operand",
    ),
)
SHARE_SCRATCH = Rewrite(
    "share_scratch", "the scratch of a value is memory of earlier values", ("earlier values have left enough memory",)
)
# with more pairs of buffers that are alive at the same time, `by_time` places them, which compares no pairs
MAX_PAIRS = 1 << 20


class Use(NamedTuple):
    """The views that a step reads and writes; `pairs`: (operand, result) where the result may overwrite the operand."""

    reads: Sequence[View]
    writes: Sequence[View]
    pairs: Sequence[tuple[View, View]] = ()
    label: str = ""


class Life(NamedTuple):
    """The first and last step that touch a buffer, its padded size in bytes, and the label of the first step."""

    first: int
    last: int
    size: int
    label: str = ""


class Sharing(NamedTuple):
    """The scratch buffers of steps: `owner` gives each the buffer whose memory it has, which is one of `roots`.

    `spans`: of each root, the first and the last step that touch its memory, and the label of the first. `merged`: the
    pairs of operand and result that are one place.
    """

    roots: list[Buffer]
    owner: dict[Buffer, Buffer]
    spans: list[tuple[int, int, str]]
    merged: list[tuple[View, View]]


def place(steps: Sequence[Use]) -> tuple[dict[Buffer, int], int, list[tuple[View, View]]]:
    """Returns byte offsets of the steps' scratch buffers in the arena, the arena's size, and the pairs that are used.

    A pair of a step is used if nobody reads the operand later: the result then overwrites it, at the same offset.
    """
    sharing = shared(steps)
    lives = _lives(sharing.spans, [buffer.nbytes for buffer in sharing.roots])
    many = _pairs([(life.first, life.last) for life in lives]) > MAX_PAIRS
    starts, total = by_time(lives) if many else by_size(lives)
    at = dict(zip(sharing.roots, starts, strict=True))
    return {buffer: at[root] for buffer, root in sharing.owner.items()}, total, sharing.merged


def shared(steps: Sequence[Use]) -> Sharing:
    """Returns the scratch buffers of steps, and which of them a result shares with the operand that it overwrites."""
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
            unmet = ""
            if not replaces(step, source, target):
                unmet = "result and operand have one layout, in scratch"
            elif over in replaced or owner[made] is not made:
                unmet = "one result alone overwrites the operand"
            elif not last[over] == time == first[made]:
                unmet = "no later step reads the operand"
            OVERWRITE_OPERAND.tell(step.label, unmet)
            if not unmet:
                merged.append((source, target))
                replaced.add(over)
                owner[made] = owner[over]
                end[owner[over]] = last[made]
    roots = list(dict.fromkeys(owner.values()))
    return Sharing(roots, owner, [(first[b], end[b], steps[first[b]].label) for b in roots], merged)


def placing(spans: Sequence[tuple[int, int, str]]) -> Callable[[Sequence[int]], list[int]]:
    """Returns a function of the buffers' sizes in bytes: their byte offsets in the arena."""
    ends = [(first, last) for first, last, _ in spans]
    if _pairs(ends) > MAX_PAIRS:
        return lambda sizes: by_time(_lives(spans, sizes))[0]
    lives = ScratchLives(ends)
    return lambda sizes: lives.by_size(sizes)[0]


def _lives(spans: Sequence[tuple[int, int, str]], sizes: Sequence[int]) -> list[Life]:
    return [Life(first, last, _padded(size), label) for (first, last, label), size in zip(spans, sizes, strict=True)]


def _pairs(spans: Sequence[tuple[int, int]]) -> int:
    """Returns how many pairs of buffers are alive at the same time."""
    ends = sorted(last for _, last in spans)
    firsts = sorted(first for first, _ in spans)
    return sum(begun - bisect_left(ends, first) for begun, first in enumerate(firsts))


def by_size(lives: Sequence[Life]) -> tuple[list[int], int]:
    """Places large buffers first, each at the lowest offset that is free while it lives; returns offsets and size."""
    placed = ScratchLives([(life.first, life.last) for life in lives])
    offsets, total, shared = placed.by_size([life.size for life in lives])
    for life, is_shared in zip(lives, shared, strict=True):
        _tell_shared(life, is_shared)
    return offsets, total


def by_time(lives: Sequence[Life]) -> tuple[list[int], int]:
    """Places buffers in the order of steps, each in the smallest gap that holds it; returns offsets and size.

    Takes less time than `by_size` for many buffers, and up to a tenth more memory.
    """
    # large buffers first within a step; operands of a step are freed after its results are placed
    events = sorted(
        event
        for i, life in enumerate(lives)
        for event in ((life.first, False, -life.size, i), (life.last, True, -life.size, i))
    )
    offsets = [0] * len(lives)
    gaps: list[tuple[int, int]] = []  # size, start
    ends: dict[int, int] = {}  # of the gaps, by start
    starts: dict[int, int] = {}  # of the gaps, by end
    top = 0

    def remove(start: int) -> int:
        stop = ends.pop(start)
        del starts[stop], gaps[bisect_left(gaps, (stop - start, start))]
        return stop

    def add(start: int, stop: int) -> None:
        if start in starts:
            start, _ = starts[start], remove(starts[start])
        if stop in ends:
            stop = remove(stop)
        ends[start], starts[stop] = stop, start
        insort(gaps, (stop - start, start))

    for _, ends_here, _, i in events:
        size = lives[i].size
        if ends_here:
            add(offsets[i], offsets[i] + size)
            continue
        fitting = bisect_left(gaps, (size, 0))
        _tell_shared(lives[i], fitting < len(gaps))
        start = gaps[fitting][1] if fitting < len(gaps) else starts.get(top, top)
        stop = remove(start) if start in ends else start
        top = max(top, start + size)
        if start + size < stop:
            add(start + size, stop)
        offsets[i] = start
    return offsets, top


def _tell_shared(life: Life, shared: bool) -> None:
    SHARE_SCRATCH.tell(life.label, "" if shared else "earlier values have left enough memory")


def _padded(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT


def replaces(step: Use, source: View, target: View) -> bool:
    """Whether the result `target` may overwrite the operand `source`.

    Both must be in scratch with the same shape, strides, offset and item size, and must be the only views of their
    buffers in the step.
    """
    buffers = [view.buffer for view in (*step.reads, *step.writes)]
    if not (
        source.buffer.place is target.buffer.place is Place.SCRATCH
        and dtypes.itemsize(source.buffer.dtype) == dtypes.itemsize(target.buffer.dtype)
        and buffers.count(source.buffer) == buffers.count(target.buffer) == 1
        and source.buffer.elements >= target.buffer.elements
        and (source.shape, source.offset) == (target.shape, target.offset)
    ):
        return False
    # a trace asks which axes have one position only where it is of importance
    if frozen(source.strides) == frozen(target.strides):
        return True
    one, other = ([s for s, n in zip(view.strides, view.shape, strict=True) if n > 1] for view in (source, target))
    return one == other
