"""Tells which fused int8 partitions may differ from exact results where a number is halfway between two integers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .. import schema
from ..graph import Node

Scales = np.ndarray[Any, Any]

MULTIPLYING = schema.kinds("multiplies")
# results of other ops are no multiples of the scales, such as the bounds of a Clamp or of Tanh
_SUMS = MULTIPLYING | schema.kinds("keeps_ties")
# a ratio of scales with two halfway multiples among these is a fraction of small numbers, or of powers of two
_INTEGERS = np.unique([*range(512), *(odd << power for power in range(8, 23) for odd in (1, 3))])


def turns_ties(nodes: Sequence[Node]) -> bool:
    """Whether the library may round ties in a partition to other integers than Quantize by its definition.

    The library adds the zero point before it rounds to even. With an odd zero point, ties go to the other neighbour
    then.
    """
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
    """Whether multiples of the factors' product are k + 0.5 times `step`, up to rounding, more often than by chance.

    Scales that were measured have no such multiples. Scales that someone has set may have them, and a `step` of few
    binary digits always counts; so do factors and steps with scales along several axes, which are not compared.
    """
    if len({scales.size for scales in (*factors, step)} - {1}) > 1:
        return True
    with np.errstate(all="ignore"):
        numbers = np.multiply.outer((prod(factors) / step).ravel(), _INTEGERS)
        halves = (numbers < 256) & (np.abs(numbers % 1 - 0.5) <= numbers * 2.0**-21)
    few_digits = np.ldexp(np.frexp(step)[0], 8) % 1 == 0
    return bool(few_digits.any() or halves.sum() > len(numbers))
