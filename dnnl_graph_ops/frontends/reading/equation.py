"""Reads the equation of an Einsum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...errors import InvalidArgumentError, ShapeError
from ...shapes.common import agree, broadcast
from ...shapes.registry import Shape

_TERM = re.compile(r"[A-Za-z]*(\.\.\.[A-Za-z]*)?")


class Axes(NamedTuple):
    """The labels of each operand's axes and of the result's, and the size of each label.

    Axes of "..." have the labels ".0", ".1", ... from the right.
    """

    terms: list[list[str]]
    result: list[str]
    sizes: dict[str, int | None]

    @property
    def shape(self) -> Shape:
        return tuple(self.sizes[label] for label in self.result)


def axes_of(equation: Any, shapes: Sequence[Shape], where: str) -> Axes:
    """Returns the labels of an equation's axes; sizes of 1 broadcast.

    Raises:
        InvalidArgumentError: no equation: onnx's shape inference would read some of these for ever.
        ShapeError: operands of other shapes, a label of the result that is in no operand or twice in it.
    """
    where = f"{where}: equation={str(equation)[:60]!r}"
    text = str(equation).replace(" ", "")
    left, arrow, right = text.partition("->")
    texts = left.split(",")
    if not all(_TERM.fullmatch(term) for term in (*texts, right)):
        raise InvalidArgumentError(
            f"{where}: each operand, and the result after an arrow, is a term of letters with at most one '...'; "
            "commas divide terms"
        )
    if len(texts) != len(shapes):
        raise ShapeError(f"{where} has {len(texts)} terms for {len(shapes)} operands")
    terms, sizes = [], dict[str, int | None]()
    for term, shape in zip(texts, shapes, strict=True):
        labels = _labels(term, len(shape) - len(term.replace(".", "")))
        if len(labels) != len(shape):
            raise ShapeError(f"{where}: term {term!r} for an operand of shape {shape}")
        own: dict[str, int | None] = {}
        for label, size in zip(labels, shape, strict=True):
            if not agree(own.setdefault(label, size), size):
                raise ShapeError(f"{where}: term {term!r} for an operand of shape {shape}, a diagonal of unequal sizes")
        for label, size in own.items():
            (sizes[label],) = broadcast(
                f"{where}: axis {label!r}", "an operand", (sizes.get(label, 1),), "another", (size,)
            )
        terms.append(labels)
    rest = sum(label[0] == "." for label in sizes)
    every = [label for labels in terms for label in labels]
    once = sorted(label for label in sizes if every.count(label) == 1 and label[0] != ".")
    result = _labels(right, rest) if arrow else [*_labels("...", rest), *once]
    if len({*result}) < len(result) or not {*result} <= sizes.keys():
        raise ShapeError(f"{where}: its result has labels twice, or of no operand")
    return Axes(terms, result, sizes)


def _labels(term: str, rest: int) -> list[str]:
    before, dots, after = term.partition("...")
    return [*before, *(f".{i}" for i in reversed(range(rest if dots else 0))), *after]
