"""How an op moves along the streamed axis: which outputs are known of which inputs, and the op on a part of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from ..graph import Value
from ..graph.value import Late
from ..shapes import Meta

Ints: TypeAlias = tuple[int, ...]

# the first sample that is needed of an operand of which none is
NEVER = 1 << 62


class Part(Protocol):
    """An op in a step's graph, which computes its outputs from `begin` up to `end` along the axis.

    `count`: the number of operands. `first`: whether nothing was computed before. `last`: whether the inputs end here.
    """

    @property
    def begin(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def first(self) -> bool: ...

    @property
    def last(self) -> bool: ...

    def known(self, index: int) -> int:
        """Returns the number of samples of operand `index` that are known, from the begin of the stream."""

    def read(self, index: int, begin: int, end: int) -> tuple[Value, int, int]:
        """Returns what there is of samples of an operand, and how many are missing before it and after it."""

    def window(self, index: int, begin: int, end: int) -> Value:
        """Returns samples of an operand that are all known."""

    def operand(self, index: int) -> Value:
        """Returns an operand that does not run along the axis."""

    def add(
        self, inputs: Sequence[Value], attrs: Mapping[str, Any] | None = None, kind: str | None = None
    ) -> tuple[Value, ...]:
        """Appends an op, by default of the same kind and attributes, and returns its outputs."""

    def cut(self, value: Value, axis: int, begin: int, end: int) -> Value:
        """Returns elements of an axis of a value."""

    def shape(self, samples: int) -> list[int]:
        """Returns the shape of this many samples of the first output."""

    def late(self, late: Late, inputs: Sequence[Value], metas: Sequence[Meta]) -> tuple[Value, ...]:
        """Appends a node that is built once sizes are known."""

    def sizes(self) -> Sequence[Sequence[int]]:
        """Returns the shapes of all operands, for any length of the stream."""

    def carried(self, metas: Sequence[Meta]) -> Sequence[Value]:
        """Returns the values that the step before has handed on; none in the first step."""

    def carry(self, values: Sequence[Value]) -> None:
        """Hands values on to the next step."""


@dataclass(frozen=True)
class Motion:
    """The motion of an op along the axis; positions count from 0, inputs before it are zeros if `zeros`.

    Attributes:
        axis: of the outputs.
        rate: outputs for each sample of the first operand that runs along the axis.
        done: the number of outputs that are known of the first samples of each operand (`made`), and of how many there
            would be if the stream ended now (`totals`); below 0 while there are too few for a steady motion.
        total: the number of outputs of operands of these lengths.
        need: for each operand the first sample that this output and later ones depend on; below 0 while there are too
            few outputs for a steady motion, unless `zeros`.
        build: appends the op for a part of its outputs.
    """

    axis: int
    rate: Fraction
    done: Callable[[Ints, Ints], int]
    total: Callable[[Ints], int]
    need: Callable[[int], Ints]
    build: Callable[[Part], Sequence[Value]]
    zeros: bool = False


def pointwise(axis: int, streamed: Sequence[int], attrs: Mapping[str, Any] | None = None) -> Motion:
    """Returns the motion of an op whose outputs depend on the same sample of each operand in `streamed`."""

    def build(part: Part) -> Sequence[Value]:
        return part.add(operands(part, streamed), attrs)

    count = len(streamed)
    return Motion(axis, Fraction(1), lambda made, _: min(made), min, lambda m: (m,) * count, build)


def operands(part: Part, streamed: Sequence[int]) -> list[Value]:
    """Returns all operands of an op, those that run along the axis at the places of its outputs."""
    return [
        part.window(index, part.begin, part.end) if index in streamed else part.operand(index)
        for index in range(part.count)
    ]


@dataclass(frozen=True)
class Window:
    """A window that moves along an axis: its stride, its reach in samples, and the samples around the axis."""

    stride: int
    reach: int
    before: int
    behind: int

    def done(self, made: Ints, totals: Ints) -> int:
        return (made[0] + self.before - self.reach) // self.stride + 1

    def total(self, totals: Ints) -> int:
        return max((totals[0] + self.before + self.behind - self.reach) // self.stride + 1, 0)

    @property
    def back(self) -> int:
        """Samples that are kept apart from those that later windows read, so that no later part is of pads alone."""
        return self.stride if self.stride >= self.reach and self.behind > 0 else 0

    def need(self, m: int) -> Ints:
        return (m * self.stride - self.before - self.back,)

    def read(self, part: Part) -> tuple[Value, int, int, int]:
        """Returns what the windows of a part read, pads at both ends, and how many windows too early it begins."""
        begin, end = part.begin * self.stride - self.before, (part.end - 1) * self.stride - self.before + self.reach
        # one window too many where all are of pads alone: beyond the end, or at the begin of the stream
        early = 1 if begin >= part.known(0) else 0
        late = -((end - 1) // self.stride) if part.first and end < 1 else 0
        value, left, right = part.read(0, begin - early * self.stride, end + late * self.stride)
        return value, left, right, early
