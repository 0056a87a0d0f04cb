"""Remembers how sizes follow from the unknown dims of a net, and records the native calls that take them."""

from .formula import formula
from .native import Traced, cached, current, kernels, pinned, plain, tracing
from .size import Atom, Condition, Size, Trace, gcd, greatest, int_of, least

__all__ = [
    "Atom",
    "Condition",
    "Size",
    "Trace",
    "Traced",
    "cached",
    "current",
    "formula",
    "gcd",
    "greatest",
    "int_of",
    "kernels",
    "least",
    "pinned",
    "plain",
    "tracing",
]
