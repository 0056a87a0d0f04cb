"""Divides the rows of consecutive convolutions into bands, whose results between layers stay in the near caches.

Rows are indices of the first spatial axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from operator import mul
from typing import Any, NamedTuple

from .. import dtypes
from ..algorithms import choice
from ..algorithms.algorithm import Algorithm
from ..algorithms.lower import Decision
from ..convolution.problem import ConvProblem, at_values
from ..ir.env import Env
from ..program import epilogue as post
from ..program.program import View

NEAR = 512 * 1024  # bytes of results between layers that stay in the near caches of a thread


class Part(NamedTuple):
    """Rows of a layer's target: how many, of how many rows of the source, and rows of padding before the source."""

    rows: int
    seen: int
    padding: int


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

    @property
    def rows(self) -> int:
        return self.problem.geometry.y[0]

    @property
    def _reach(self) -> int:
        g = self.problem.geometry
        return g.dilations[0] * (g.kernel[0] - 1) + 1

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

    def inner(self, count: int) -> int:
        """Returns how many rows of the source `count` neighbouring rows of the target depend on, padding included."""
        return (count - 1) * self.problem.geometry.strides[0] + self._reach

    def seen(self, rows: range) -> range:
        """Returns the rows of the source that these rows of the target depend on."""
        g = self.problem.geometry
        stride, pad = g.strides[0], g.pads_begin[0]
        end = (rows.stop - 1) * stride - pad + self._reach
        return range(max(rows.start * stride - pad, 0), min(end, g.x[0]))

    def padding(self, rows: range) -> int:
        """Returns how many rows of padding before the source these rows of the target depend on."""
        return max(self.problem.geometry.pads_begin[0] - rows.start * self.problem.geometry.strides[0], 0)

    def cut(self, part: Part, source: View, target: View, epilogue: post.Epilogue) -> ConvProblem:
        """Returns the problem that computes a part of one image: from `source`, the rows `seen`, to `target`."""
        g = self.problem.geometry
        end = self.inner(part.rows) - part.padding - part.seen
        first = {"y": part.rows, "x": part.seen, "pads_begin": part.padding, "pads_end": end, "output_padding": 0}
        lists: dict[str, Any] = {name: (value, *getattr(g, name)[1:]) for name, value in first.items()}
        geometry = replace(g, batch=1, **lists)
        return self.problem.with_views(geometry=geometry, y=target, x=source, epilogue=epilogue)


def rows_of_a_band(chain: Sequence[Layer]) -> int:
    """Returns how many rows of the last result a band has so that it fits the near caches; 0 if not even one fits."""
    rows, bytes_of_rows = chain[-1].rows, [row_bytes(layer.target) for layer in chain[:-1]]
    # each further row of the last result adds the same number of bytes
    first, second = (sum(map(mul, rows_between(chain, count), bytes_of_rows)) for count in (1, 2))
    if first > NEAR:
        return 0
    count = min(rows, 1 + (NEAR - first) // (second - first))
    return -(-rows // -(-rows // count))


def rows_between(chain: Sequence[Layer], count: int) -> list[int]:
    """Returns, for each result between layers, how many of its rows `count` rows of the last result depend on."""
    counts = []
    for layer in reversed(chain[1:]):
        count = layer.inner(count)
        counts.append(count)
    return counts[::-1]


def parts_of_rows(chain: Sequence[Layer], count: int, threads: int) -> int:
    """Returns into how many parts the rows of an image are divided, so that all threads have work."""
    images, rows = chain[-1].target.shape[0], chain[-1].rows
    return min(threads // gcd(images, threads), -(-rows // count))


def row_bytes(view: View) -> int:
    """Returns the bytes of a row of an image (N, C, spatial...) without gaps, in any order of the axes after rows."""
    return view.shape[1] * prod(view.shape[3:]) * dtypes.itemsize(view.dtype)
