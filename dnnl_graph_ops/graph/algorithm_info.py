"""An algorithm of a convolution as users see it: `Net.algorithms` lists them, `Graph.compile` selects among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class AlgorithmInfo:
    """An algorithm that may compute an op of a net.

    name: as `explain()` shows it. seconds: of one run, by estimate.
    measured: the median seconds that tune="measure" timed; None where it did not.
    error: how results may differ from sums as the definition has them, beyond the order of the terms: "filtered" by
    transforms that save multiplications (Winograd's family), "fast" by tiles that algorithm="fast" alone allows (with
    an error up to 8 times that of direct sums), "narrow" by products of f32 data in bf16 or f16, "folded" by constants
    of other ops that were multiplied into the weights or added to the bias, or by taps that were summed because
    upsampling repeats what they read, or pooling averages their results. Empty: none of these.
    deterministic: whether the same operands and number of threads give the same bits at every run.
    """

    name: str
    seconds: float
    measured: float | None
    error: frozenset[str]
    deterministic: bool
    _workspace: Callable[[], int] = field(repr=False, compare=False)

    @property
    def workspace(self) -> int:
        """Bytes of scratch that its steps take at a call, without the op's operands and result, counted when asked for.

        Weights that are packed when the net is compiled do not count, nor what the library allocates by itself.
        """
        return self._workspace()


# the name of an algorithm, or whether one may be used
Selection = str | Callable[[AlgorithmInfo], bool]
