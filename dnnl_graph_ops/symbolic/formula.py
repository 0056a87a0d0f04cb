"""Writes what a trace has computed as a function of the unknown dims: a program that native code runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import Formula, kernels
from .native import Traced
from .size import Condition, Size, Trace


def formula(trace: Trace, dims: Sequence[Size], conditions: Sequence[Condition], result: Any) -> Formula:
    """Returns a function of unknown dims: what a trace returned, or None where a condition of it does not hold.

    Args:
        trace: the trace, which may go on.
        dims: the sizes that the function takes, in this order.
        conditions: those that are checked first.
        result: nested lists and tuples of sizes, traced objects and anything else, which is returned as it is.
    """
    return Formula.written(trace, dims, conditions, result, trace.made_by, Traced, kernels)
