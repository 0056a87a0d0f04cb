"""Sizes that a model is called with one after another: their vocabulary, and which ones are drawn."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..errors import InvalidArgumentError

FORM: Final = "LOW:HIGH[:STEP]xCOUNT"
_PATTERN: Final = re.compile(r"(\d+):(\d+)(?::(\d+))?x(\d+)")
_DIM: Final = re.compile(r"(?:(\d+)\s*\*\s*)?([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Sizes:
    """So many different sizes, each extent of them a multiple of `step` from `low` to `high`.

    `step`: 0 stands for the model's own.
    """

    low: int
    high: int
    step: int
    count: int


def parse(text: str) -> Sizes:
    """Raises: InvalidArgumentError: not of the form, or nothing lies between its bounds."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise InvalidArgumentError(f"sizes {text!r}: expected {FORM}, such as 20:400x100")
    low, high, step, count = (int(number or 0) for number in found.groups())
    if not 1 <= low <= high or not count:
        raise InvalidArgumentError(f"sizes {text!r}: at least one size, of 1 or more, is needed")
    return Sizes(low, high, step, count)


@dataclass(frozen=True)
class Dim:
    """An extent: a number, or a multiple of one that is known at the call only."""

    factor: int
    name: str = ""

    def at(self, known: Mapping[str, int]) -> int:
        return self.factor * (known[self.name] if self.name else 1)

    def __str__(self) -> str:
        return str(self.factor) if not self.name else self.name if self.factor == 1 else f"{self.factor}*{self.name}"


def dim(where: str, value: int, name: str) -> Dim:
    """Of an ONNX file's: a number, a name, or a multiple such as "2*length".

    Raises:
        InvalidArgumentError: none of these.
    """
    if value:
        return Dim(value)
    found = _DIM.fullmatch(name)
    if found is None:
        raise InvalidArgumentError(f"{where}: dim {name!r} is neither a name nor a multiple of one; name it")
    return Dim(int(found[1] or 1), found[2])


def draw(model: str, sizes: Sizes, inputs: Sequence[Sequence[Dim]], step: int, seed: int) -> list[list[list[int]]]:
    """Shapes of all inputs for every size, all different, in a random order.

    Raises:
        InvalidArgumentError: every extent is known, or there are not so many sizes.
    """
    names = list(dict.fromkeys(each.name for shape in inputs for each in shape if each.name))
    if not names:
        raise InvalidArgumentError(
            f"sizes: model {model!r} has inputs of known sizes only; export it with dynamic axes"
        )
    each_step = sizes.step or step
    extents = range(-(-sizes.low // each_step) * each_step, sizes.high + 1, each_step)
    most = len(extents) ** len(names)
    if most < sizes.count:
        raise InvalidArgumentError(
            f"sizes: {sizes.count} asked for, but model {model!r} has only {most} with {', '.join(names)} between "
            f"{sizes.low} and {sizes.high} in steps of {each_step}"
        )
    made = []
    for number in random.Random(seed).sample(range(most), sizes.count):
        known = {name: extents[number // len(extents) ** place % len(extents)] for place, name in enumerate(names)}
        made.append([[each.at(known) for each in shape] for shape in inputs])
    return made
