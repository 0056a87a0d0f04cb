"""The motion of a whole net along its streamed axis: how far each value is known, and from when on this is steady."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from ..errors import InvalidArgumentError, UnsupportedError
from ..graph import Node, Value
from .late import settled
from .motion import Motion
from .rules import Site, motion_of

if TYPE_CHECKING:
    from ..net.net import Net

# samples of input until a net must move steadily, and samples that make a whole number at every rate
_MOST_SAMPLES = 1 << 26
_LONGEST_PERIOD = 1 << 20


@dataclass(frozen=True)
class State:
    """How far each value that runs along the axis is known.

    Attributes:
        made: the number of its samples that are known.
        kept: the first sample that later results depend on; below 0 for zeros before the begin.
        steady: whether more input moves all of these on at their rates.
        ended: whether no more input follows.
    """

    made: Mapping[Value, int]
    kept: Mapping[Value, int]
    steady: bool
    ended: bool


class Flow:
    """The ops of a net that run along the axis, each with its motion.

    Attributes:
        inputs: the inputs that run along the axis.
        axes: the streamed axis of each value that has one.
        rates: samples of each of these values for a sample of the inputs.
        motions: of the ops that run along the axis, in order. The others compute the same for each chunk.
        period: the least number of input samples that is a whole number of samples of every value.
    """

    def __init__(self, net: Net, axis: int, where: str) -> None:
        self.axes: dict[Value, int] = {}
        self.rates: dict[Value, Fraction] = {}
        self.motions: dict[Node, Motion] = {}
        self.inputs = tuple(value for value in net.inputs if _runs(value, axis))
        if not self.inputs:
            shapes = ", ".join(f"{value.name} {value.shape}" for value in net.inputs)
            raise InvalidArgumentError(f"{where}: no input has an unknown size (None) at axis {axis}: {shapes}")
        for value in self.inputs:
            self.axes[value], self.rates[value] = axis % value.ndim, Fraction(1)
        unread: dict[Value, str] = {}
        for number, node in enumerate(map(settled, net._nodes), 1):
            place = f"{where}: {node.kind} {node.name!r} (op {number} of {len(net._nodes)})"
            if late := [unread[value] for value in node.inputs if value in unread]:
                raise UnsupportedError(f"{place}: cannot run in chunks: it reads {late[0]}")
            axes = tuple(self.axes.get(value) for value in node.inputs)
            if any(one is not None for one in axes):
                self._enter(Site(node, axes, place))
                unread.update((value, f"{value.name!r}, which does not come in chunks") for value in node.outputs[1:])
        for name, value in net.outputs.items():
            if value not in self.axes:
                why = unread.get(value, "it does not run along the axis")
                raise UnsupportedError(f"{where}: output {name!r} cannot be given in chunks: {why}")
        self.period = lcm(*(rate.denominator for rate in self.rates.values()))
        if self.period > _LONGEST_PERIOD:
            raise UnsupportedError(f"{where}: its rates have no common period below {_LONGEST_PERIOD} samples")

    def _enter(self, site: Site) -> None:
        motion, node = motion_of(site), site.node
        streamed = [node.inputs[index] for index in site.streamed]
        rates = {self.rates[value] for value in streamed}
        if len(rates) > 1:
            told = ", ".join(f"{value.name!r} {self.rates[value]}" for value in streamed)
            site.refuse(f"its operands have different numbers of samples for each sample of the input: {told}")
        self.motions[node] = motion
        self.axes[node.outputs[0]] = motion.axis
        self.rates[node.outputs[0]] = rates.pop() * motion.rate

    def streamed(self, node: Node) -> list[Value]:
        """Returns the operands of an op that run along the axis."""
        return [value for value in node.inputs if value in self.axes]

    def state(self, samples: int, ended: bool = False) -> State:
        """Returns how far values are known after the first samples of the inputs."""
        made = dict.fromkeys(self.inputs, samples)
        totals, kept = dict(made), dict(made)
        steady = samples > 0
        for node, motion in self.motions.items():
            reads = self.streamed(node)
            before = tuple(made[value] for value in reads)
            (result, *_) = node.outputs
            total = motion.total(tuple(totals[value] for value in reads))
            count = total
            if not ended:
                count = min(motion.done(before, tuple(totals[value] for value in reads)), total)
                steady &= count > 0
            made[result] = kept[result] = max(count, 0)
            totals[result] = total
            for value, need in zip(reads, motion.need(made[result]), strict=True):
                steady &= need >= 0 or motion.zeros
                kept[value] = min(kept[value], need if motion.zeros else max(need, 0))
        return State(made, kept, steady, ended)

    def steady_from(self, step: int, where: str) -> int:
        """Returns the least multiple of `step` samples, at least one, from which on the net moves steadily."""
        high = 1
        while not self.state(high * step).steady:
            high *= 2
            if high * step > _MOST_SAMPLES:
                raise UnsupportedError(f"{where}: its ops look further ahead than {_MOST_SAMPLES} samples")
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.state(middle * step).steady else (middle, high)
        return high * step

    def latency(self, outputs: Sequence[Value], start: int) -> int:
        """Returns the input samples that an output lags behind the input: the most of all outputs and phases."""
        most = Fraction(0)
        for samples in range(start, start + self.period):
            state = self.state(samples)
            most = max(most, *(samples - state.made[value] / self.rates[value] for value in outputs))
        return -(-most.numerator // most.denominator)


def _runs(value: Value, axis: int) -> bool:
    return -value.ndim <= axis < value.ndim and value.shape[axis] is None
