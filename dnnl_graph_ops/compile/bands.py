"""Divides the rows of consecutive convolutions into bands, whose results between layers stay in the near caches.

Rows are indices of the first spatial axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from .. import dtypes
from ..algorithms import choice
from ..algorithms.algorithm import Algorithm
from ..algorithms.lower import Decision
from ..convolution.problem import ConvProblem, at_values
from ..ir.env import Env
from ..once import once
from ..program import epilogue as post
from ..program.program import View
from ..symbolic import kernels

NEAR = 512 * 1024  # bytes of results between layers that stay in the near caches of a thread


class Part(NamedTuple):
    """Rows of a layer's target: how many, of how many rows of the source, and rows of padding before the source."""

    rows: int
    seen: int
    padding: int


class Rows(NamedTuple):
    """Tells how the rows of a layer's target depend on those of its source; `nbytes`: of a row of the target."""

    target: int
    source: int
    stride: int
    reach: int
    padding: int
    nbytes: int

    def inner(self, count: int) -> int:
        """Returns how many rows of the source `count` neighbouring rows of the target depend on, padding included."""
        return (count - 1) * self.stride + self.reach


@dataclass(frozen=True)
class Layer:
    """Describes a lowered convolution, as fprop, and the cheapest algorithm that could compute it by rows.

    `group`: the number that the program's steps of the layer have. `decision`: how the layer was lowered.
    """

    group: int
    problem: ConvProblem
    algorithm: Algorithm
    decision: Decision

    @property
    def source(self) -> View:
        """Returns the activation that the layer reads: its problem is fprop, which reads x."""
        return self.problem.x

    @property
    def target(self) -> View:
        return self.problem.y

    @once
    def rows(self) -> Rows:
        g = self.problem.geometry
        reach = g.dilations[0] * (g.kernel[0] - 1) + 1
        return Rows(g.y[0], g.x[0], g.strides[0], reach, g.pads_begin[0], row_bytes(self.target))

    def at_values(self) -> Layer:
        """Returns the layer with the values that its sizes have in a trace; itself where none is open."""
        problem = at_values(self.problem)
        return self if problem is self.problem else replace(self, problem=problem)

    def chosen(self, env: Env) -> float:
        """Returns the seconds of the layer alone, by the algorithm that was chosen for it."""
        return self.decision.candidates[0][1] * self._scale(env)

    def by_rows(self, env: Env) -> float:
        """Returns the seconds of the layer by `algorithm`, on all rows at once."""
        return dict(self.decision.candidates)[self.algorithm.name] * self._scale(env)

    def _scale(self, env: Env) -> float:
        return 1.0 if self.decision.measured else choice.scale(self.problem, env)

    def cut(self, part: Part, source: View, target: View, epilogue: post.Epilogue) -> ConvProblem:
        """Returns the problem that computes a part of one image: from `source`, the rows `seen`, to `target`."""
        g = self.problem.geometry
        end = self.rows.inner(part.rows) - part.padding - part.seen
        geometry = g.resized(
            1,
            (part.rows, *g.y[1:]),
            (part.seen, *g.x[1:]),
            (part.padding, *g.pads_begin[1:]),
            (end, *g.pads_end[1:]),
            (0, *g.output_padding[1:]),
        )
        problem = self.problem
        return ConvProblem(
            problem.direction, geometry, target, problem.w, source, problem.bias, epilogue, problem.narrowed,
            problem.quantization,
        )  # fmt: skip


def bands_of(chain: Sequence[Rows], images: int, threads: int) -> kernels.RowBands:
    """Divides the rows of a chain of layers into bands; `count` is 0 where not even one row fits the near caches."""
    return kernels.RowBands(chain, images, threads, NEAR)


def parts_of(divided: kernels.RowBands) -> list[tuple[int, Part]]:
    """Returns the parts of layers that differ, each with the number of its layer, in the order of their use."""
    numbers = iter(divided.parts)
    return [(layer, Part(*part)) for layer, *part in zip(numbers, numbers, numbers, numbers, strict=True)]


def row_bytes(view: View) -> int:
    """Returns the bytes of a row of an image (N, C, spatial...) without gaps, in any order of the axes after rows."""
    return view.shape[1] * prod(view.shape[3:]) * dtypes.itemsize(view.dtype)
