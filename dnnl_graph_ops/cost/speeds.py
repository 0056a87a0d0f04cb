"""Seconds that were set by hand, with the machine and day of each: what neither fitted constants nor rates cover.

`fits` has the constants of algorithms, `runtime.rates` the rates of CPUs.
"""

from __future__ import annotations

from typing import Final

EARLY: Final = "an AVX2 or AVX-512 CPU whose model was not noted"
ZEN5: Final = "AMD EPYC (Zen 5), AVX-512"
XEON: Final = "Intel Xeon with AMX"

# name: seconds, of what, the machine, the day
TABLE: Final = {
    "BYTE": (1e-10, "a byte of traffic between memory and a further pass of an algorithm", EARLY, "2026-11-21"),
    "CALL": (4e-6, "one more step of an algorithm, an op of the library included", EARLY, "2026-11-21"),
    "LIBRARY": (8e-6, "starting an op of the library, by one thread, between other steps", ZEN5, "2026-11-30"),
    "SCAN": (2e-7, "starting a scan for Inf and NaN, a step by a builtin kernel", EARLY, "2026-11-22"),
    "BAND_BYTE": (5e-11, "a byte that a band of rows moves", ZEN5, "2026-11-25"),
    "BAND_CALL": (1e-6, "calling a kernel for one band of rows", ZEN5, "2026-11-25"),
    "COMPILE": (8e-3, "compiling an op of the library", EARLY, "2026-11-23"),
    "COMPILE_POSITION": (3.7e-6, "compiling, a position of the longest axis of a 1-D convolution", EARLY, "2026-11-23"),
    "GIL": (20e-6, "a run that is worth letting other threads of Python run", EARLY, "2026-11-21"),
    "SERIAL": (10e-6, "a run that is worth waking other threads", EARLY, "2026-11-21"),
    "PLAN_BYTE": (1e-10, "a byte that a step reads or writes", EARLY, "2026-11-21"),
    "PLAN_PRODUCT": (5e-11, "a multiplication of a convolution or MatMul", EARLY, "2026-11-21"),
    "NAIVE_PRODUCT": (1e-9, "a multiplication of the naive algorithm", EARLY, "2026-11-26"),
    "CONVERTED_ELEMENT": (0.35e-9, "converting an element between integers and f32", ZEN5, "2026-11-23"),
    "CONVERTING_STEPS": (2e-6, "the steps that convert operands and result of an integer layer", XEON, "2026-11-29"),
}  # fmt: skip


def seconds(name: str) -> float:
    """Returns the seconds of a row of the table."""
    return TABLE[name][0]
