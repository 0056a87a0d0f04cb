"""A transposed convolution as plain ones of its phases: which results, taps and sources belong together.

On one axis, without dilation: result o has phase r = (o + pad) mod s and meets the taps k = r + s * j at the sources
i = (o + pad) div s - j. So the results of one phase are a Convolution of stride 1, and so are `fold` neighbouring
results whose channels are laid side by side, over the union of their taps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product


@dataclass(frozen=True)
class AxisBlock:
    """Results start + step * q + c of one axis, c < fold, q < count."""

    start: int
    count: int
    step: int
    fold: int
    # the source that tap 0 meets at q = 0; each further q is `hop` sources on
    first: int
    hop: int
    # per folded result, the kernel's index at every tap; None where the result has no such tap
    taps: tuple[tuple[int | None, ...], ...]

    @property
    def length(self) -> int:
        """Taps of the Convolution."""
        return len(self.taps[0])

    def window(self, sources: int) -> tuple[int, int, int, int] | None:
        """Padding before, first source, number of sources, padding behind; None if only padding is met."""
        last = self.first + (self.count - 1) * self.hop + self.length - 1
        begin, end = max(self.first, 0), min(last, sources - 1)
        if self.length == 0 or begin > end:
            return None
        return begin - self.first, begin, end - begin + 1, last - end


def _axis_block(kernel: int, stride: int, pad: int, start: int, count: int, multiple: int, fold: int) -> AxisBlock:
    results = [divmod(start + c + pad, stride) for c in range(fold)]
    reach = [(b, r, max(-(-(kernel - r) // stride), 0)) for b, r in results]
    first = min((b - n + 1 for b, _, n in reach if n), default=0)
    behind = max((b + 1 for b, _, n in reach if n), default=0)
    taps = tuple(
        tuple(r + stride * (b - i) if 0 <= b - i < n else None for i in range(first, behind)) for b, r, n in reach
    )
    return AxisBlock(start, count, stride * multiple, fold, first, multiple, taps)


@lru_cache(256)
def axis_blocks(kernel: int, stride: int, pad: int, size: int, folds: bool, multiple: int = 1) -> list[AxisBlock]:
    """All results of an axis: one block a phase, or `multiple` strides of results folded and one block for the rest."""
    step = stride * multiple
    if not folds:
        return [
            _axis_block(kernel, stride, pad, start, -(-(size - start) // step), multiple, 1)
            for start in range(min(step, size))
        ]
    whole, rest = divmod(size, step)
    blocks = [_axis_block(kernel, stride, pad, 0, whole, multiple, step)] if whole else []
    if rest:
        blocks.append(_axis_block(kernel, stride, pad, whole * step, 1, multiple, rest))
    return blocks


def tap_pairs(box: Sequence[AxisBlock]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]]:
    """Folded results, taps and the kernel's indices of a box of blocks, one per axis; None where a tap is absent."""
    for results in product(*(range(block.fold) for block in box)):
        for taps in product(*(range(block.length) for block in box)):
            where = [block.taps[c][t] for block, c, t in zip(box, results, taps, strict=True)]
            yield results, taps, None if None in where else tuple(k for k in where if k is not None)
