"""Remembers how sizes follow from the unknown dims of a net, and records the native calls that take them."""

from .formula import formula
from .native import Traced, cached, current, frozen, kernels, pinned, plain, tracing
from .size import Condition, Size, Trace, are_multiples, gcd, greatest, int_of, least, total

__all__ = [
    "Condition",
    "Size",
    "Trace",
    "Traced",
    "are_multiples",
    "cached",
    "current",
    "formula",
    "frozen",
    "gcd",
    "greatest",
    "int_of",
    "kernels",
    "least",
    "pinned",
    "plain",
    "total",
    "tracing",
]
