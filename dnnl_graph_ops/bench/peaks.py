"""The rate of oneDNN's MatMul in a worker of this package, as `net.profile` has it.

Only functions import what measures it: workers of other frameworks import this module as well.
"""

from __future__ import annotations

from typing import Final

from . import quantized

# seconds of the runs of a product in each round of a race
_ROUND: Final = 0.02
_NAMES: Final = {quantized.DTYPE: "s8"}


def product(dtype: str, threads: int, seconds: float = _ROUND) -> tuple[float, bool]:
    """Returns 1e9 operations a second of a MatMul now, by runs of about `seconds` in all, and whether it was disturbed.

    A dtype that the CPU multiplies in f32 has the rate of f32. The rate is 0.0 where the library refuses the dtype.
    """
    from ..reports import peaks
    from ..runtime.engines import default_engine

    name = peaks.computed_as(default_engine(), _NAMES.get(dtype, dtype))
    rate, busy = peaks.products_now(default_engine(), name, threads, seconds)
    return 2e-9 * rate, busy
