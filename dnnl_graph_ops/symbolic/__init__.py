"""Remembers how sizes follow from the unknown dims of a net, and records the native calls that take them."""

from .formula import Formula
from .native import Traced, cached, current, kernels, pinned, plain, tracing
from .size import Atom, Condition, Size, Trace, gcd, greatest, int_of, least

__all__ = [
    "Atom",
    "Condition",
    "Formula",
    "Size",
    "Trace",
    "Traced",
    "cached",
    "current",
    "gcd",
    "greatest",
    "int_of",
    "kernels",
    "least",
    "pinned",
    "plain",
    "tracing",
]
