"""Which fused int8 partitions may round numbers that lie halfway between two integers the library's own way."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .. import schema
from ..graph import Node

Scales = np.ndarray[Any, Any]

MULTIPLYING = schema.kinds("multiplies")
# others have results that are no multiples of the scales, such as the ends of a Clamp and of Tanh
_SUMS = MULTIPLYING | schema.kinds("keeps_ties")
# two of them show that a ratio is a fraction of small numbers, or of powers of two
_INTEGERS = np.unique([*range(512), *(odd << power for power in range(8, 23) for odd in (1, 3))])


def turns_ties(nodes: Sequence[Node]) -> bool:
    """Whether the library, which adds a zero point before it rounds, may round ties of a partition the other way."""
    *rest, dst = nodes
    if dst.kind != "Quantize" or not any(zero % 2 for zero in dst.attrs.get("zps") or ()):
        return False
    sources = [node for node in rest if node.kind == "Dequantize"]
    if any(node.kind == "MaxPool" for node in rest):
        # integers that are only compared stay as they are
        return any(_end(node) != _end(dst) for node in sources)
    if not _SUMS.issuperset(node.kind for node in rest):
        return True
    (head,) = (node for node in rest if node.kind in MULTIPLYING)
    factors = [_scales(node) for node in sources if node.outputs[0] in head.inputs]
    read = {value for node in rest if node is not head for value in node.inputs}
    added = [[_scales(node)] for node in sources if node.outputs[0] in read]
    return any(_may_be_halfway(steps, _scales(dst)) for steps in (factors, *added))


def _end(node: Node) -> tuple[Any, Any]:
    return node.attrs["scales"], node.attrs.get("zps") or ()


def _scales(node: Node) -> Scales:
    return np.array(node.attrs["scales"], np.float32).astype(np.float64)


def _may_be_halfway(factors: Sequence[Scales], step: Scales) -> bool:
    """Whether sums of multiples of the factors are k + 0.5 steps, but for rounding, more often than by chance.

    They never are for scales that were measured; constants may be, of any step that has few digits, and so may what has
    scales along several axes.
    """
    if len({scales.size for scales in (*factors, step)} - {1}) > 1:
        return True
    with np.errstate(all="ignore"):
        numbers = np.multiply.outer((prod(factors) / step).ravel(), _INTEGERS)
        halves = (numbers < 256) & (np.abs(numbers % 1 - 0.5) <= numbers * 2.0**-21)
    few_digits = np.ldexp(np.frexp(step)[0], 8) % 1 == 0
    return bool(few_digits.any() or halves.sum() > len(numbers))
