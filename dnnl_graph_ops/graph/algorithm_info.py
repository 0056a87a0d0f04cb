"""Defines AlgorithmInfo: `Net.algorithms` lists the algorithms of a convolution, `Graph.compile` selects one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any


@dataclass(frozen=True)
class AlgorithmInfo:
    """An algorithm that may compute an op of a net.

    name: as `explain()` shows it. seconds: the estimated time of one run.
    measured: the median seconds that tune="measure" timed; None if not timed.
    error: why results may differ from direct sums, beyond the order of the terms. "filtered": transforms that save
    multiplications (Winograd); "fast": large tiles, which only algorithm="fast" allows (with up to
    8 times the error of direct sums); "narrow": products of f32 data in bf16 or f16; "folded": constants of other
    ops were folded into the weights or the bias, or kernel elements were summed because upsampling repeats their
    operands or pooling averages their results. Empty: none of these.
    deterministic: whether results are reproducible: the same operands and threads give the same bits at every run.
    """

    name: str
    seconds: float
    measured: float | None
    error: frozenset[str]
    deterministic: bool
    _workspace: Callable[[], int] = field(repr=False, compare=False)

    @property
    def workspace(self) -> int:
        """Bytes of scratch memory that its steps use at a call, without the op's operands and result.

        Not counted: weights that are packed when the net is compiled, and memory that oneDNN allocates.
        """
        return self._workspace()

    def __reduce__(self) -> tuple[Any, ...]:
        workspace = partial(int, self.workspace)
        return AlgorithmInfo, (self.name, self.seconds, self.measured, self.error, self.deterministic, workspace)


# the name of an algorithm, or a predicate
Selection = str | Callable[[AlgorithmInfo], bool]
