"""Defines Size, an integer of a trace that remembers how it follows from the unknown dims of a net.

A size is a polynomial of atoms: unknown dims, quotients that leave remainders, and results of native calls. Sizes of a
trace that are equal polynomials are one object. Each comparison of a size answers for the sizes of this trace, and adds
the condition of the answer to the trace, unless the answer is the same for all dims in the trace's range. A size is no
`int`: whatever takes an `int` of it (`range`, NumPy, a native function) calls `__index__`, which adds the condition
that the size equals its value. So a result that was computed from sizes of a trace holds for all dims that meet the
trace's conditions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import gcd as _gcd
from typing import Any, NamedTuple, TypeAlias

# the product of atoms, by their numbers in ascending order, each with its coefficient
Terms: TypeAlias = tuple[tuple[tuple[int, ...], int], ...]
Interval: TypeAlias = tuple[int, int]
# an atom of unknown bounds is from -_MOST, and below it: formulas compute with 64 bits, and are not for other sizes
_MOST = 1 << 63
_BELOW, _EQUAL = "<", "=="


class Atom(NamedTuple):
    """An unknown dim (`how` is ""), a quotient (`how` is "//") of two operands, or an attribute of a native call.

    `interval`: the least and the largest value for all dims in the range of the trace.
    """

    value: int
    interval: Interval
    how: str = ""
    operands: tuple[Any, ...] = ()


class Condition(NamedTuple):
    """A condition of a trace: whether a size is below 0 or equals 0 (`how` is "<" or "==") must be `holds`.

    With `how` "is", the operand is an attribute of a native call, which must equal `holds`.
    """

    operand: Any
    how: str
    holds: Any


class Trace:
    """The sizes that were computed from unknown dims, and the conditions under which all answers about them hold.

    Attributes:
        atoms: the atoms of the polynomials, the unknown dims first.
        conditions: in the order in which they were met.
        pinned: sizes whose `int` was taken.
    """

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.conditions: list[Condition] = []
        self.pinned: list[Size] = []
        self.closed = False
        self.results: dict[Any, Any] = {}  # of operators
        self._sizes: dict[Terms, Size] = {}
        self.answers: dict[tuple[Any, ...], Any] = {}  # to what may have added conditions
        self._quotients: dict[tuple[Any, Any], Size | int] = {}
        self._results: dict[tuple[Any, ...], Any] = {}
        self.dims: list[Size] = []  # the unknown dims of the net
        self.calls: dict[Any, Any] = {}  # native calls by their functions and arguments

    def dim(self, value: int, least: int, most: int) -> Size:
        """Returns an unknown dim with its value in this trace, and its range in all dims that the trace is for."""
        return self._atom(Atom(value, (least, most)))

    @contextmanager
    def apart(self) -> Iterator[list[Condition]]:
        """Collects the conditions that are met within this context in a list of their own, which is yielded."""
        kept = self.conditions, self.answers, self._results
        self.conditions, self.answers, self._results = [], dict(self.answers), dict(self._results)
        try:
            yield self.conditions
        finally:
            self.conditions, self.answers, self._results = kept

    def _atom(self, atom: Atom) -> Size:
        self.atoms.append(atom)
        return self.size((((len(self.atoms) - 1,), 1),), atom.value)

    def result(self, of: Any, name: str, value: int) -> Size:
        """Returns an integer attribute, at least 0, of a native object; with name "", the result of a native call."""
        key = id(of), name
        if key not in self._results:
            # the call is kept, as its id is the key
            self._results[key] = self._atom(Atom(value, (0 if name else -_MOST, _MOST - 1), name, (of,))), of
        size: Size = self._results[key][0]
        return size

    def require(self, of: Any, name: str, value: Any) -> Any:
        """Adds the condition that an attribute of a native call, or with name "" its result, has this value."""
        key = id(of), name
        if key not in self._results:
            self._results[key] = value, of
            self.conditions.append(Condition((of, name), "is", value))
        return value

    def size(self, terms: Terms, value: int) -> Size:
        """Returns the size of a polynomial with at least one atom, whose terms are sorted."""
        size = self._sizes.get(terms)
        if size is None:
            size = self._sizes[terms] = Size(self, terms, value, len(self._sizes))
        return size

    def sum_of(self, terms: Mapping[tuple[int, ...], int], value: int) -> Size | int:
        """Returns the size, or the integer, of any sum of products."""
        kept = tuple(sorted((product, c) for product, c in terms.items() if c))
        if not kept:
            return 0
        return kept[0][1] if len(kept) == 1 and not kept[0][0] else self.size(kept, value)

    def interval(self, terms: Terms) -> Interval:
        """Returns bounds of a polynomial for all dims in the trace's range."""
        low, high = self._bounds(terms)
        # b * (a // b) is a - r, with a remainder r from 0 to b - 1
        for product, c in terms:
            if len(product) == 1 and self.atoms[product[0]].how == "//":
                a, b = self.atoms[product[0]].operands
                if isinstance(b, int) and c % b == 0:
                    times, rest = c // b, dict(terms)
                    del rest[product]
                    for other, by in _terms(a):
                        rest[other] = rest.get(other, 0) + times * by
                    least, most = self.interval(tuple((other, by) for other, by in rest.items() if by))
                    low = max(low, least - max(times, 0) * (b - 1))
                    high = min(high, most - min(times, 0) * (b - 1))
                    break
        return low, high

    def _bounds(self, terms: Terms) -> Interval:
        """Returns bounds of a polynomial, from those of its products."""
        low = high = 0
        for product, c in terms:
            least = most = 1
            for number in product:
                a, b = self.atoms[number].interval
                ends = [x * y for x in (least, most) for y in (a, b)]
                least, most = min(ends), max(ends)
            low += c * (least if c > 0 else most)
            high += c * (most if c > 0 else least)
        return low, high

    def holds(self, size: Size | int, how: str) -> bool:
        """Whether a size is below 0, or equals 0; adds the condition unless the answer is the same for all dims."""
        if not isinstance(size, Size):
            return size < 0 if how == _BELOW else size == 0
        key = size.number, how
        answer = self.answers.get(key)
        if answer is None:
            answer = self.answers[key] = size.value < 0 if how == _BELOW else size.value == 0
            low, high = self.interval(size.terms)
            always = high < 0 if how == _BELOW else False
            never = low >= 0 if how == _BELOW else low > 0 or high < 0
            if not (always or never or self.closed):
                self.conditions.append(Condition(size, how, answer))
        return answer

    def pin(self, size: Size) -> int:
        if not self.closed:
            self.pinned.append(size)
            self.holds(size - size.value, _EQUAL)
        return size.value

    def _quotient(self, a: Size | int, b: Size | int) -> Size | int:
        """Returns the floor of a / b: its exact part as a polynomial, and the rest as an atom."""
        if not isinstance(b, Size):
            if b < 0:
                return self._quotient(0 - a, -b)
            if b == 0:
                raise ZeroDivisionError("integer division or modulo by zero")
            assert isinstance(a, Size)
            exact = {product: c // b for product, c in a.terms}
            rest = {product: c % b for product, c in a.terms}
        else:
            exact, rest = _divided(a, b) if len(b.terms) == 1 else ({}, dict(_terms(a)))
        quotient = self.sum_of(exact, _value(exact, self.atoms))
        left = self.sum_of(rest, _value(rest, self.atoms))
        if not isinstance(left, Size) and not isinstance(b, Size):
            return quotient + left // b
        if not isinstance(left, Size) and left == 0:
            return quotient
        return quotient + self._remaining(left, b)

    def _remaining(self, a: Size | int, b: Size | int) -> Size | int:
        value, other = int_of(a), int_of(b)
        low, high = self.interval(_terms(a))
        if not isinstance(b, Size):
            if low // b == high // b:
                return low // b
            interval = low // b, high // b
        else:
            # the divisor is above 0 by a condition, or below
            interval = (0, high) if low >= 0 and other > 0 else (-_MOST, _MOST - 1)
        return self._atom(Atom(value // other, interval, "//", (a, b)))

    def divided(self, a: Size | int, b: Size | int) -> Size | int:
        if isinstance(b, Size):
            self.holds(b, _EQUAL)
            self.holds(b, _BELOW)
        key = _key(a), _key(b)
        if key not in self._quotients:
            self._quotients[key] = self._quotient(a, b)
        return self._quotients[key]


def _key(size: Size | int) -> Any:
    return size.terms if isinstance(size, Size) else size


def _terms(size: Size | int) -> Terms:
    return size.terms if isinstance(size, Size) else (((), size),)


def _value(terms: Mapping[tuple[int, ...], int], atoms: Sequence[Atom]) -> int:
    total = 0
    for product, c in terms.items():
        for number in product:
            c *= atoms[number].value
        total += c
    return total


def _divided(a: Size | int, b: Size) -> tuple[dict[tuple[int, ...], int], dict[tuple[int, ...], int]]:
    """Divides by a product of atoms: returns the terms of the exact quotient, and the terms of `a` that are left."""
    ((product, by),) = b.terms
    exact, rest = {}, {}
    for own, c in _terms(a):
        left = list(own)
        for number in product:
            if number not in left:
                break
            left.remove(number)
        else:
            if c % by == 0:
                exact[tuple(left)] = c // by
                continue
        rest[own] = c
    return exact, rest


def _binary(compute: Callable[[Size, Any], Any]) -> Callable[[Size, Any], Any]:
    """Returns an operator for sizes and ints; another operand gets the size as an `int`.

    Results are looked up, as layers of a net compute and ask the same again and again. Those that may have added
    conditions are kept as long as these conditions are.
    """
    name = compute.__name__
    asks = name not in ("__add__", "__mul__", "__sub__", "__rsub__")

    def apply(self: Size, other: Any) -> Any:
        trace = self.trace
        key: tuple[Any, ...]
        if type(other) is int:
            key = name, self.number, other
        elif type(other) is Size:
            if other.trace is not trace:
                return getattr(self.value if trace.closed else self, name)(other.trace.pin(other))
            key = name, self.number, other.number, Size
        elif isinstance(other, bool) or hasattr(other, "__index__"):
            return apply(self, int(other))
        elif isinstance(other, float):
            return getattr(float(trace.pin(self)), name)(other)
        else:
            return NotImplemented
        results = trace.answers if asks else trace.results
        result = results.get(key)
        if result is None:
            result = results[key] = compute(self, other)
        return result

    return apply


def _of_ints(compute: Callable[[Any, Any], Any]) -> tuple[Callable[[Size, Any], Any], Callable[[Size, Any], Any]]:
    """Returns an operator that no polynomial expresses, and the reflected one: they take an `int` of a size."""

    def of(self: Size, other: Any) -> Any:
        return compute(int(self), other)

    def reflected(self: Size, other: Any) -> Any:
        return compute(other, int(self))

    return of, reflected


class Size:
    """A polynomial of the atoms of a trace, and its value in the trace; see the module."""

    __slots__ = ("number", "terms", "trace", "value")

    def __init__(self, trace: Trace, terms: Terms, value: int, number: int) -> None:
        self.trace = trace
        self.number = number
        self.terms = terms
        self.value = value

    def __repr__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    # sizes and ints may be keys of one dictionary, and may be equal: a key that is there is compared, and adds
    # its condition; one that is not there is missed, where other dims would have found it
    def __hash__(self) -> int:
        return hash(self.value)

    def __getattr__(self, name: str) -> Any:
        # such as bit_length
        return getattr(self.trace.pin(self), name)

    def __index__(self) -> int:
        return self.trace.pin(self)

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.trace.pin(self))

    def __bool__(self) -> bool:
        return not self.trace.holds(self, _EQUAL)

    @_binary
    def __add__(self, other: Any) -> Any:
        if type(other) is int:
            if other == 0:
                return self
            # the number without atoms comes first
            terms = self.terms
            first = terms[0][1] + other if not terms[0][0] else other
            rest = terms if terms[0][0] else terms[1:]
            return self.trace.size((((), first), *rest) if first else rest, self.value + other)
        sums = dict(self.terms)
        for product, c in other.terms:
            sums[product] = sums.get(product, 0) + c
        return self.trace.sum_of(sums, self.value + other.value)

    __radd__ = __add__

    @_binary
    def __mul__(self, other: Any) -> Any:
        if type(other) is int:
            if other == 0:
                return 0
            return self.trace.size(tuple((product, c * other) for product, c in self.terms), self.value * other)
        sums: dict[tuple[int, ...], int] = {}
        for product, c in self.terms:
            for factor, by in other.terms:
                both = tuple(sorted((*product, *factor)))
                sums[both] = sums.get(both, 0) + c * by
        return self.trace.sum_of(sums, self.value * other.value)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    @_binary
    def __sub__(self, other: Any) -> Any:
        if type(other) is int:
            return self + -other
        sums = dict(self.terms)
        for product, c in other.terms:
            sums[product] = sums.get(product, 0) - c
        return self.trace.sum_of(sums, self.value - other.value)

    @_binary
    def __rsub__(self, other: Any) -> Any:
        return (self * -1) + other

    @_binary
    def __floordiv__(self, other: Any) -> Any:
        return self.trace.divided(self, other)

    @_binary
    def __rfloordiv__(self, other: Any) -> Any:
        return self.trace.divided(other, self)

    @_binary
    def __mod__(self, other: Any) -> Any:
        return self - self.trace.divided(self, other) * other

    @_binary
    def __rmod__(self, other: Any) -> Any:
        return other - self.trace.divided(other, self) * self

    @_binary
    def __divmod__(self, other: Any) -> Any:
        quotient = self.trace.divided(self, other)
        return quotient, self - quotient * other

    @_binary
    def __rdivmod__(self, other: Any) -> Any:
        quotient = self.trace.divided(other, self)
        return quotient, other - quotient * self

    __and__, __rand__ = _of_ints(operator.and_)
    __or__, __ror__ = _of_ints(operator.or_)
    __xor__, __rxor__ = _of_ints(operator.xor)
    __lshift__, __rlshift__ = _of_ints(operator.lshift)
    __rshift__, __rrshift__ = _of_ints(operator.rshift)
    __pow__, __rpow__ = _of_ints(operator.pow)

    def __truediv__(self, other: Any) -> Any:
        return self.trace.pin(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.trace.pin(self)

    @_binary
    def __eq__(self, other: Any) -> Any:
        return self is other or self.trace.holds(self - other, _EQUAL)

    @_binary
    def __ne__(self, other: Any) -> Any:
        return self is not other and not self.trace.holds(self - other, _EQUAL)

    @_binary
    def __lt__(self, other: Any) -> Any:
        return self.trace.holds(self - other, _BELOW)

    @_binary
    def __ge__(self, other: Any) -> Any:
        return not self.trace.holds(self - other, _BELOW)

    @_binary
    def __gt__(self, other: Any) -> Any:
        return self.trace.holds(other - self, _BELOW)

    @_binary
    def __le__(self, other: Any) -> Any:
        return not self.trace.holds(other - self, _BELOW)


def int_of(size: Size | int) -> int:
    """Returns the value of a size in its trace, without a condition: for estimates and for the trace's own plan."""
    return size.value if isinstance(size, Size) else size


def total(sizes: Iterable[Any]) -> Any:
    """Returns the sum of sizes and integers; to add them one by one would copy all terms each time."""
    number, value, trace = 0, 0, None
    terms: dict[tuple[int, ...], int] = {}
    for size in sizes:
        if isinstance(size, Size):
            trace, value = size.trace, value + size.value
            for product, c in size.terms:
                terms[product] = terms.get(product, 0) + c
        else:
            number += size
    if trace is None:
        return number
    terms[()] = terms.get((), 0) + number
    return trace.sum_of(terms, value + number)


def gcd(*sizes: Any) -> Any:
    """Returns the greatest common divisor, with few conditions where it is one of the numbers or operands."""
    varying = [size for size in sizes if isinstance(size, Size)]
    number = _gcd(*(size for size in sizes if not isinstance(size, Size)))
    if not varying:
        return number
    if number and all(size % number == 0 for size in varying):
        return number
    divisor = min(sizes, key=int_of)
    one_product = isinstance(divisor, Size) and len(divisor.terms) == 1
    if one_product and not any(any(_divided(size, divisor)[1].values()) for size in sizes):
        return divisor
    return _gcd(*map(int, sizes))


def greatest(a: Any, b: Any) -> Any:
    """Returns max(a, b), without a condition where one of them is the greater one, or equal, for all dims."""
    if isinstance(a, Size) or isinstance(b, Size):
        difference = a - b
        if isinstance(difference, Size):
            low, high = difference.trace.interval(difference.terms)
            if low >= 0 or high <= 0:
                return a if low >= 0 else b
    return max(a, b)


def least(a: Any, b: Any) -> Any:
    """Returns min(a, b), without a condition where one of them is the lesser one, or equal, for all dims."""
    return -greatest(-a, -b)
