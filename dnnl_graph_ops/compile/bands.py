"""Divides the rows of consecutive convolutions into bands, whose results between layers stay in the near caches.

Rows are indices of the first spatial axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import gcd, prod
from operator import mul
from typing import NamedTuple

from .. import dtypes
from ..algorithms import choice
from ..algorithms.algorithm import Algorithm
from ..algorithms.lower import Decision
from ..convolution.problem import ConvProblem, at_values
from ..cost import model as cost
from ..ir.env import Env
from ..once import once
from ..program import epilogue as post
from ..program.arrays import ALIGNMENT
from ..program.program import View

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
        return self.problem.with_views(geometry=geometry, y=target, x=source, epilogue=epilogue)


class Run(NamedTuple):
    """A part of the layer of this number, which a band computes.

    `first`: its first row of the target, and of the source. `held`: the first row that the band has of each target.
    """

    layer: int
    part: Part
    first: tuple[int, int]
    held: Sequence[int]


class Kept(NamedTuple):
    """Rows of the result of the layer of this number, which a band takes over from the band before.

    They lie at row `at` of the result in scratch, and are moved to the front by `shift` rows, which is at least `rows`.
    """

    layer: int
    rows: int
    at: int
    shift: int


class Tiling:
    """Divides the rows of a chain of layers into bands.

    Attributes:
        count: rows of a band of the last result; 0 where not even one fits the near caches.
        starts: the byte offsets at which results between layers begin in a thread's scratch, and where they end.
        ranges: of an image, lists of what is computed and moved; each is the work of one task, band by band.
    """

    def __init__(self, chain: Sequence[Rows], images: int, threads: int) -> None:
        self.chain, self.images = chain, images
        self.count = rows_of_a_band(chain)
        sizes = map(mul, rows_between(chain, self.count), [rows.nbytes for rows in chain])
        self.starts = [0, *accumulate(cost.padded(size, ALIGNMENT) for size in sizes)]
        rows, each = chain[-1].target, parts_of_rows(chain, images, self.count, threads) if self.count else 0
        self.ranges = [
            list(_steps(chain, range(rows * part // each, rows * (part + 1) // each), self.count))
            for part in range(each)
        ]

    def parts(self) -> list[tuple[int, Part]]:
        """Returns the parts of layers that differ, each with the number of its layer, in the order of their use."""
        return list(dict.fromkeys(step[:2] for steps in self.ranges for step in steps if isinstance(step, Run)))


def _steps(chain: Sequence[Rows], rows: range, count: int) -> Iterator[Run | Kept]:
    """Yields what computes a range of rows of the last result, band by band.

    Rows that the band before has computed are not computed again.
    """
    last = len(chain) - 1
    # of each target, the first row that the band has, and where its rows end
    begins, ends = [0] * len(chain), [0] * len(chain)
    for begin in range(rows.start, rows.stop, count):
        end = min(begin + count, rows.stop)
        begins[last] = begin
        band: list[Run | Kept] = []  # the last step first
        held: list[int] = []
        kept: list[Kept] = []
        for i in range(last, -1, -1):
            if begin >= end:
                band += kept
                break
            _, source, stride, reach, padding, _ = chain[i]
            first = begin * stride - padding
            start, stop = max(first, 0), min((end - 1) * stride - padding + reach, source)
            band.append(Run(i, Part(end - begin, max(stop - start, 0), max(-first, 0)), (begin, start), held))
            band += kept
            if i > 0:
                before, known = begins[i - 1], ends[i - 1]
                begins[i - 1], ends[i - 1] = start, stop
                shift = start - before
                rest = range(start, known, shift) if shift > 0 else ()
                kept = [Kept(i - 1, min(shift, known - row), row - before, shift) for row in rest][::-1]
                begin, end = max(start, known), stop
        held += begins
        yield from reversed(band)


def rows_of_a_band(chain: Sequence[Rows]) -> int:
    """Returns how many rows of the last result a band has so that it fits the near caches; 0 if not even one fits."""
    rows, bytes_of_rows = chain[-1].target, [layer.nbytes for layer in chain[:-1]]
    # each further row of the last result adds the same number of bytes
    first, second = (sum(map(mul, rows_between(chain, count), bytes_of_rows)) for count in (1, 2))
    if first > NEAR:
        return 0
    count = min(rows, 1 + (NEAR - first) // (second - first))
    return -(-rows // -(-rows // count))


def rows_between(chain: Sequence[Rows], count: int) -> list[int]:
    """Returns, for each result between layers, how many of its rows `count` rows of the last result depend on."""
    counts = []
    for layer in reversed(chain[1:]):
        count = layer.inner(count)
        counts.append(count)
    return counts[::-1]


def parts_of_rows(chain: Sequence[Rows], images: int, count: int, threads: int) -> int:
    """Returns into how many parts the rows of an image are divided, so that all threads have work."""
    return min(threads // gcd(images, threads), -(-chain[-1].target // count))


def row_bytes(view: View) -> int:
    """Returns the bytes of a row of an image (N, C, spatial...) without gaps, in any order of the axes after rows."""
    return view.shape[1] * prod(view.shape[3:]) * dtypes.itemsize(view.dtype)
