"""What a net does: its partitions, its plan, its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from ..errors import InvalidArgumentError
from ..lowering.program import View
from .native import Compiled
from .specialise import Specialised

if TYPE_CHECKING:
    from .net import Net, PartitionInfo


@dataclass(frozen=True)
class Benchmark:
    """Seconds per execution of the native loop alone."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.times)

    @property
    def minimum(self) -> float:
        return min(self.times)

    def __repr__(self) -> str:
        return f"Benchmark(median={self.median * 1e6:.2f} us, minimum={self.minimum * 1e6:.2f} us, n={len(self.times)})"


def prepared(net: Net, given: Sequence[Any]) -> tuple[Specialised, list[Any], list[Any]]:
    """The plan for these arrays, the arrays, and new arrays for the results."""
    ins, outs, specialised = net.prepare(given, [None] * len(net.outputs))
    return specialised, ins, outs


def benchmark(net: Net, given: Sequence[Any], repeat: int) -> Benchmark:
    """Implements `Net.benchmark`."""
    if isinstance(repeat, bool) or not isinstance(repeat, int):
        raise TypeError(f"{net!r}.benchmark: 'repeat' must be an int, got {type(repeat).__name__}")
    if not 1 <= repeat <= 10**7:
        raise InvalidArgumentError(f"{net!r}.benchmark: 'repeat' must be from 1 to 10**7, got {repeat}")
    specialised, ins, outs = prepared(net, given)
    return Benchmark(tuple(specialised.plan.executor.benchmark(ins, outs, repeat)))


def partitions_of(specialised: Specialised) -> tuple[PartitionInfo, ...]:
    """The partitions that a plan gives to the library."""
    from .net import PartitionInfo

    def name(view: View) -> str:
        return specialised.names.get(view.buffer, "scratch")

    return tuple(
        PartitionInfo(
            part.kinds, part.kinds, True, tuple(map(name, part.inputs)), tuple(map(name, part.outputs))
        )
        for part in specialised.plan.parts
        if isinstance(part, Compiled)
    )

