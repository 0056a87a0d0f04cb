"""Recognises GELU as exporters write it before opset 20: x (1 + Erf(x / sqrt(2))) / 2."""

from __future__ import annotations

import math

import numpy as np

from ....graph import Node, Value
from ..node import Operand


def gelu_source(a: Operand, b: Operand) -> Value | None:
    """Returns x if a * b is x (1 + erf(x / sqrt(2))) / 2, multiplied in any order; else None."""
    (one, left), (other, right) = (_factors(operand, 2) for operand in (a, b))
    numbers, factors = one * other, left + right
    if len(factors) != 2 or not math.isclose(numbers, 0.5, rel_tol=1e-6):
        return None
    for x, rest in (factors, factors[::-1]):
        if _is_one_and_erf(rest, x):
            return x
    return None


def _number(operand: Operand) -> float | None:
    """Returns the number of a constant of one element."""
    array = operand.constant if isinstance(operand, Value) else operand
    return float(np.reshape(array, ())) if array is not None and array.size == 1 else None


def _factors(operand: Operand, depth: int) -> tuple[float, list[Value]]:
    """Returns a product's constant factor, and its other factors."""
    number = _number(operand)
    if number is not None:
        return number, []
    if not isinstance(operand, Value):
        return math.nan, []
    node = operand.node
    if depth == 0 or node is None or node.kind not in ("Divide", "Multiply"):
        return 1.0, [operand]
    if node.kind == "Divide":
        below = _number(node.inputs[1])
        if not below:
            return 1.0, [operand]
        numbers, factors = _factors(node.inputs[0], depth - 1)
        return numbers / below, factors
    left, right = (_factors(value, depth - 1) for value in node.inputs)
    return left[0] * right[0], left[1] + right[1]


def _other(node: Node, number: float) -> Value | None:
    """Returns the operand of an Add whose other operand is a number."""
    for value, beside in (node.inputs, node.inputs[::-1]):
        if _number(beside) == number:
            return value
    return None


def _is_one_and_erf(value: Value, x: Value) -> bool:
    """Whether a value is 1 + erf(x / sqrt(2)) of x's shape."""
    if value.node is None or value.node.kind != "Add" or value.shape != x.shape:
        return False
    erf = _other(value.node, 1.0)
    if erf is None or erf.node is None or erf.node.kind != "Erf":
        return False
    number, factors = _factors(erf.node.inputs[0], 1)
    return factors == [x] and math.isclose(number, math.sqrt(0.5), rel_tol=1e-4)
