"""Computes stride-1 layers by algorithms of the other direction: dgrad as fprop, fprop as dgrad.

With stride 1 both directions compute the same sums if the taps are reversed on each axis, and K and C exchanged.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from operator import mul

from ..convolution.problem import DGRAD, FPROP, ConvProblem
from ..cost.model import Counts, nbytes
from ..ir.env import Env
from ..program.program import Program, View
from .algorithm import Algorithm, Condition

_OTHER = {DGRAD: FPROP, FPROP: DGRAD}
# most taps: each takes a copy of its own when the weights are reversed
_MOST_TAPS = 4096


def flips(problem: ConvProblem, env: Env | None = None) -> bool:
    """Whether an equal problem of the other direction exists: strides are 1, and its padding would not be negative."""
    g = problem.geometry
    return (
        problem.direction in _OTHER
        and max(g.strides) == 1
        and prod(g.kernel) <= _MOST_TAPS
        and all(pad <= d * (k - 1) for pad, d, k in zip(g.pads_begin, g.dilations, g.kernel, strict=True))
    )


def _turned(problem: ConvProblem) -> ConvProblem:
    """Returns the equal problem of the other direction; K and C of weights are exchanged, taps not yet reversed."""
    g = problem.geometry
    reach = [d * (k - 1) for d, k in zip(g.dilations, g.kernel, strict=True)]
    begins = [r - pad for r, pad in zip(reach, g.pads_begin, strict=True)]
    # padding at the end, or where negative, positions at the end that are left over
    ends = [o - n + pad for o, n, pad in zip(g.x, g.y, g.pads_begin, strict=True)]
    geometry = replace(
        g,
        y_channels=g.x_channels,
        x_channels=g.y_channels,
        y=g.x,
        x=g.y,
        pads_begin=tuple(begins),
        pads_end=tuple(max(end, 0) for end in ends),
        output_padding=tuple(max(-end, 0) for end in ends),
    )
    return replace(
        problem,
        direction=_OTHER[problem.direction],
        geometry=geometry,
        y=problem.x,
        x=problem.y,
        w=problem.w.permute((0, 2, 1, *range(3, problem.w.ndim))),
    )


def _in_reverse(program: Program, weights: View) -> View:
    """Appends a copy of the weights (G, K/G, C/G, kernel...) with taps reversed on each axis; returns the copy."""
    target = program.like(weights, weights.dtype)
    taps = weights.shape[3:]
    items = []
    for tap in product(*map(range, taps)):
        source = sum(map(mul, tap, weights.strides[3:]))
        place = sum((n - 1 - k) * stride for n, k, stride in zip(taps, tap, target.strides[3:], strict=True))
        items.append((weights.shape[:3], source, weights.strides[:3], place, target.strides[:3]))
    program.copy_list(items, weights, target, "taps in reverse order")
    return target


def flipped(algorithm: Algorithm, pays: Condition) -> Algorithm:
    """Returns an algorithm of the other direction that runs `algorithm` on reversed taps, if `pays` holds."""

    def build(program: Program, problem: ConvProblem, env: Env) -> None:
        turned = _turned(problem)
        algorithm.build(program, turned.with_views(w=_in_reverse(program, turned.w)), env)

    def counts(problem: ConvProblem, env: Env) -> Counts:
        work = algorithm.counts(_turned(problem), env)
        weights = 0 if problem.w.is_constant else 2 * nbytes(problem.w)
        return work._replace(bytes=work.bytes + weights, calls=work.calls + 1)

    exchanged = {"y": "x", "x": "y"}
    return replace(
        algorithm,
        name=f"flipped {algorithm.name}",
        direction=_OTHER[algorithm.direction],
        applies=lambda p, e: flips(p) and pays(p, e) and algorithm.applies(_turned(p), e),
        counts=counts,
        build=build,
        spreads=frozenset(exchanged.get(name, name) for name in algorithm.spreads),
        converts=lambda p, e: algorithm.converts(_turned(p), e),
        fuses=lambda p, e: algorithm.fuses(_turned(p), e),
        misread=lambda p: algorithm.misread(_turned(p)),
        literal=False,
        tiles_rows=False,
        flips=algorithm,
    )
