"""Splits an axis of a transposed convolution into blocks, each an axis of an ordinary convolution over src.

On one axis, without dilation: result o has phase r = (o + pad) mod s and sums the taps k = r + s * j at the src
positions i = (o + pad) div s - j. So the results of one phase are a convolution of stride 1. So are `fold` neighbouring
results that are folded into channels: that convolution has the union of their taps, with zeros for absent ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product


@dataclass(frozen=True)
class AxisBlock:
    """Describes results start + step * q + c of an axis (q < count, c < fold) as a convolution; c becomes a channel."""

    start: int
    count: int
    step: int
    fold: int
    # the src position of tap 0 at q = 0; for each further q it is `hop` positions later
    first: int
    hop: int
    # for each c, the kernel index of each tap of the convolution; None where result c lacks the tap
    taps: tuple[tuple[int | None, ...], ...]

    @property
    def length(self) -> int:
        """Returns the number of taps of the convolution."""
        return len(self.taps[0])

    def window(self, sources: int) -> tuple[int, int, int, int] | None:
        """Returns (padding before, first src position, number of positions, padding after) that the convolution reads.

        `sources`: the number of src positions on the axis. None: the convolution reads padding only.
        """
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
    """Returns blocks that together cover the `size` results of an axis.

    With `folds`, one block folds stride * multiple neighbouring results into channels, and a second one the rest, if
    any. Otherwise each of the stride * multiple phases is a block.
    """
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
    """Yields (folded results, taps, kernel indices) for every folded result and tap of a box, with one index per axis.

    A box has one block per axis. The kernel indices are None where the result lacks the tap.
    """
    for results in product(*(range(block.fold) for block in box)):
        for taps in product(*(range(block.length) for block in box)):
            where = [block.taps[c][t] for block, c, t in zip(box, results, taps, strict=True)]
            yield results, taps, None if None in where else tuple(k for k in where if k is not None)
