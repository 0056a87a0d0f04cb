"""Problems of stride 1 in the other direction, forward as backward data and the other way round.

The same sums with taps in the reverse order, channels exchanged.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..problem import BACKWARD_DATA, FORWARD, Problem
from ..program import Program, View

OTHER = {FORWARD: BACKWARD_DATA, BACKWARD_DATA: FORWARD}
# more taps make the list of the weights' copies a burden
MOST_TAPS = 4096


def applies(problem: Problem) -> bool:
    """Whether there is such a problem: one that pads no less than nothing."""
    g = problem.geometry
    return (
        problem.direction in OTHER
        and all(s == 1 for s in g.strides)
        and prod(g.kernel) <= MOST_TAPS
        and all(pad <= d * (k - 1) for pad, d, k in zip(g.pads_begin, g.dilations, g.kernel, strict=True))
    )


def mirrored(problem: Problem) -> Problem:
    """The equal problem on the same weights, whose taps are yet to be turned round."""
    g = problem.geometry
    reach = [d * (k - 1) for d, k in zip(g.dilations, g.kernel, strict=True)]
    begins = [r - pad for r, pad in zip(reach, g.pads_begin, strict=True)]
    # what is read behind the end, or is left over there
    ends = [o - n + pad for o, n, pad in zip(g.dst, g.src, g.pads_begin, strict=True)]
    geometry = replace(
        g,
        in_channels=g.out_channels,
        out_channels=g.in_channels,
        src=g.dst,
        dst=g.src,
        pads_begin=tuple(begins),
        pads_end=tuple(max(end, 0) for end in ends),
        output_padding=tuple(max(-end, 0) for end in ends),
    )
    return replace(
        problem,
        direction=OTHER[problem.direction],
        geometry=geometry,
        src=problem.dst,
        dst=problem.src,
        weights=_exchanged(problem.weights),
    )


def _exchanged(weights: View) -> View:
    return weights.permute((0, 2, 1, *range(3, weights.ndim)))


def turned_round(program: Program, weights: View) -> View:
    """A copy of the weights with the taps in the reverse order."""
    target = program.like(weights, weights.dtype)
    taps = weights.shape[3:]
    items = []
    for number in range(prod(taps)):
        source = place = 0
        rest = number
        for axis in reversed(range(len(taps))):
            rest, tap = divmod(rest, taps[axis])
            source += tap * weights.strides[3 + axis]
            place += (taps[axis] - 1 - tap) * target.strides[3 + axis]
        items.append((weights.shape[:3], source, weights.strides[:3], place, target.strides[:3]))
    program.copy_list(items, weights, target, "taps in reverse order")
    return target
