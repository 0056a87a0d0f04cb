"""Defines Trace: sizes that remember how they follow from the unknown dims of a net, and the conditions on them.

A size is a polynomial of atoms: unknown dims, quotients that leave remainders, and results of native calls. Sizes of a
trace that are equal polynomials are one object. Each comparison of a size answers for the sizes of this trace, and adds
the condition of the answer to the trace, unless the answer is the same for all dims in the trace's range. A size is no
`int`: whatever takes an `int` of it (`range`, NumPy, a native function) calls `__index__`, which adds the condition
that the size equals its value. So a result that was computed from sizes of a trace holds for all dims that meet the
trace's conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import gcd as _gcd
from typing import Any, TypeAlias

from .._core import Size as Size
from .._core import SizeTrace

# an atom of unknown bounds is from -_MOST, and below it: formulas compute with 64 bits, and are not for other sizes
_MOST = 1 << 63
# a size, "<" or "==", and whether it is below 0, or equals 0; or a native object and the name of an attribute, "is",
# and what the attribute, or with name "" the object, must equal
Condition: TypeAlias = tuple[Any, str, Any]


class Trace(SizeTrace):
    """The sizes that were computed from unknown dims, and the conditions under which all answers about them hold."""

    def __init__(self) -> None:
        super().__init__()
        self.dims: list[Size] = []  # the unknown dims of the net
        # whether the plan uses what the sizes of the trace allow and others may not, so that it is not for those: taps
        # that meet padding alone are left out
        self.exploits = True
        self.exploited: list[Condition] = []  # that hold for sizes which allow it, beyond `conditions`
        self.calls: dict[Any, Any] = {}  # native calls by their functions and arguments
        self.made_by: dict[int, tuple[Any, str]] = {}  # native objects and names of their attributes, by atoms
        self._results: dict[tuple[Any, ...], Any] = {}
        self._required: list[tuple[int, Condition]] = []  # each with the number of answers before it

    @property
    def conditions(self) -> list[Condition]:
        """The conditions in the order in which they were met."""
        return _joined(self.answers(), self._required)

    @contextmanager
    def apart(self) -> Iterator[list[Condition]]:
        """Collects the conditions that are met within this context in a list, which is complete at the end of it."""
        kept = self._required, self._results
        self._required, self._results = [], dict(self._results)
        self.begin_apart()
        conditions: list[Condition] = []
        try:
            yield conditions
        finally:
            conditions += _joined(self.end_apart(), self._required)
            self._required, self._results = kept

    def allows(self, holds: Callable[[], bool]) -> bool:
        """Whether the plan may use that something holds: for all dims, or for sizes that it is then for."""
        with self.apart() as conditions:
            answer = holds()
        if answer and conditions:
            if not self.exploits:
                return False
            self.exploited += conditions
        return answer

    def result(self, of: Any, name: str, value: int) -> Size:
        """Returns an integer attribute, at least 0, of a native object; with name "", the result of a native call."""
        key = id(of), name
        if key not in self._results:
            # the call is kept, as its id is the key
            atom = self.dim(value, 0 if name else -_MOST, _MOST - 1)
            self.made_by[self.atom_of(atom)] = of, name
            self._results[key] = atom, of
        size: Size = self._results[key][0]
        return size

    def require(self, of: Any, name: str, value: Any) -> Any:
        """Adds the condition that an attribute of a native call, or with name "" its result, has this value."""
        key = id(of), name
        if key not in self._results:
            self._results[key] = value, of
            self._required.append((len(self.answers()), ((of, name), "is", value)))
        return value


def _joined(answers: list[Condition], required: Iterable[tuple[int, Condition]]) -> list[Condition]:
    for place, condition in reversed([*required]):
        answers.insert(place, condition)
    return answers


def int_of(size: Size | int) -> int:
    """Returns the value of a size in its trace, without a condition: for estimates and for the trace's own plan."""
    return size.value if isinstance(size, Size) else size


def total(sizes: Iterable[Any]) -> Any:
    """Returns the sum of sizes and integers; to add them one by one would copy all terms each time."""
    every = [*sizes]
    trace = next((size.trace for size in every if isinstance(size, Size)), None)
    return sum(every) if trace is None else trace.total(every)


def gcd(*sizes: Any) -> Any:
    """Returns the greatest common divisor, with few conditions where it is one of the numbers or operands."""
    varying = [size for size in sizes if isinstance(size, Size)]
    number = _gcd(*(size for size in sizes if not isinstance(size, Size)))
    if not varying:
        return number
    if number and all(size % number == 0 for size in varying):
        return number
    divisor = min(sizes, key=int_of)
    if isinstance(divisor, Size) and all(divisor.trace.is_multiple(size, divisor) for size in sizes):
        return divisor
    return _gcd(*map(int, sizes))


def are_multiples(sizes: Iterable[Any], number: Any) -> bool:
    """Whether sizes are multiples of a number above 0, for all dims of a trace: asks no condition."""
    if type(number) is not int or number < 1:
        return False
    remainders = [size % number for size in sizes]
    return Size not in map(type, remainders) and not any(remainders)


def greatest(a: Any, b: Any) -> Any:
    """Returns max(a, b), without a condition where one of them is the greater one, or equal, for all dims."""
    if isinstance(a, Size) or isinstance(b, Size):
        difference = a - b
        if isinstance(difference, Size):
            low, high = difference.trace.bounds(difference)
            if low >= 0 or high <= 0:
                return a if low >= 0 else b
    return max(a, b)


def least(a: Any, b: Any) -> Any:
    """Returns min(a, b), without a condition where one of them is the lesser one, or equal, for all dims."""
    return -greatest(-a, -b)
