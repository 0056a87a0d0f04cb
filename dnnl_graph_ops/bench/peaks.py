"""The machine's peaks in a worker of this package, as `net.profile` has them, in operations and bytes a second.

Only functions import what measures them: workers of other frameworks import this module as well.
"""

from __future__ import annotations

from typing import Any, Final

from . import quantized

# what stands for the copy among the names of data types that "busy" has
COPY: Final = "copy"
# seconds of the runs of a product in each round of a race
_ROUND: Final = 0.02
_NAMES: Final = {quantized.DTYPE: "s8"}


def measure(threads: int, dtypes: list[str]) -> dict[str, Any]:
    """Measures the peaks anew at each call.

    Returns:
        "gflops": data type -> 1e9 operations a second of the library's MatMul; None with the reason under "notes"
        where the CPU multiplies this type in f32, or the library refuses it; "gbytes": bytes read plus written by a
        copy, 1e9 a second; "busy": those of the data types and `COPY` whose figure may be too low, since others used
        the machine.
    """
    from ..compile import peaks
    from ..runtime.engines import default_engine

    rates: dict[str, float | None] = {}
    notes: dict[str, str] = {}
    busy = []
    for dtype in dtypes:
        name = _NAMES.get(dtype, dtype)
        native = peaks.computed_as(default_engine(), name) == name
        rate, disturbed = product(dtype, threads, peaks.SECONDS) if native else (0.0, False)
        rates[dtype] = rate or None
        busy += [dtype] if disturbed else []
        if not rate:
            notes[dtype] = "the library refuses it" if native else "computed in f32 on this CPU"
    copy = peaks.copies_now(default_engine(), threads, peaks.SECONDS)
    return {"gflops": rates, "gbytes": copy.rate * 1e-9, "notes": notes, "busy": [*busy, COPY] if copy.busy else busy}


def product(dtype: str, threads: int, seconds: float = _ROUND) -> tuple[float, bool]:
    """Returns 1e9 operations a second of a MatMul now, by runs of about `seconds` in all, and whether it was disturbed.

    The rate is 0.0 where the library refuses the data type.
    """
    from ..compile import peaks
    from ..runtime.engines import default_engine

    rate, busy = peaks.products_now(default_engine(), _NAMES.get(dtype, dtype), threads, seconds)
    return 2e-9 * rate, busy
