"""Algorithms of the other direction for problems of stride 1: forward as backward data, and the other way round.

The same sums with taps in the reverse order, channels exchanged.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..lowering.cost import Counts, nbytes
from ..lowering.env import Env
from ..lowering.problem import BACKWARD_DATA, FORWARD, Problem
from ..lowering.program import Program, View
from .algorithm import Algorithm, Condition

_OTHER = {FORWARD: BACKWARD_DATA, BACKWARD_DATA: FORWARD}
# more taps make the list of the weights' copies a burden
_MOST_TAPS = 4096


def flips(problem: Problem, env: Env | None = None) -> bool:
    """Whether there is such a problem: one that pads no less than nothing."""
    g = problem.geometry
    return (
        problem.direction in _OTHER
        and all(s == 1 for s in g.strides)
        and prod(g.kernel) <= _MOST_TAPS
        and all(pad <= d * (k - 1) for pad, d, k in zip(g.pads_begin, g.dilations, g.kernel, strict=True))
    )


def _turned(problem: Problem) -> Problem:
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
        direction=_OTHER[problem.direction],
        geometry=geometry,
        src=problem.dst,
        dst=problem.src,
        weights=_exchanged(problem.weights),
    )


def _exchanged(weights: View) -> View:
    return weights.permute((0, 2, 1, *range(3, weights.ndim)))


def _in_reverse(program: Program, weights: View) -> View:
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


def flipped(algorithm: Algorithm, pays: Condition) -> Algorithm:
    """An algorithm for the other direction, where that `pays`."""

    def build(program: Program, problem: Problem, env: Env) -> None:
        turned = _turned(problem)
        algorithm.build(program, turned.with_views(weights=_in_reverse(program, turned.weights)), env)

    def counts(problem: Problem, env: Env) -> Counts:
        work = algorithm.counts(_turned(problem), env)
        weights = 0 if problem.weights.is_constant else 2 * nbytes(problem.weights)
        return work._replace(bytes=work.bytes + weights, calls=work.calls + 1)

    exchanged = {"src": "dst", "dst": "src"}
    return replace(
        algorithm,
        name=f"mirrored {algorithm.name}",
        direction=_OTHER[algorithm.direction],
        applies=lambda p, e: flips(p) and pays(p, e) and algorithm.applies(_turned(p), e),
        counts=counts,
        build=build,
        spreads=frozenset(exchanged.get(name, name) for name in algorithm.spreads),
        converts=lambda p, e: algorithm.converts(_turned(p), e),
        fuses=lambda p, e: algorithm.fuses(_turned(p), e),
        literal=False,
        tiles_rows=False,
        flips=algorithm,
    )
