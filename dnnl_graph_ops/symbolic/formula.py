"""Writes what a trace has computed as a function of the unknown dims: a program that native code runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._core import Formula, kernels
from .native import Traced
from .size import Condition, Size, Trace

_OPS = Formula.ops()
_CONSTANT, _VALUE, _TUPLE, _LIST = (_OPS[name] for name in ("CONSTANT", "VALUE", "TUPLE", "LIST"))
_SUM, _QUOTIENT, _CALL, _METHOD = (_OPS[name] for name in ("SUM", "QUOTIENT", "CALL", "METHOD"))
_ATTRIBUTE, _ITEM, _KEEP, _EQUAL = (_OPS[name] for name in ("ATTRIBUTE", "ITEM", "KEEP", "EQUAL"))
_SIGNS = {"<": _OPS["BELOW"], "==": _OPS["ZERO"]}
_MOST = 1 << 63  # coefficients of the code are from -_MOST, and below it


def formula(trace: Trace, dims: Sequence[Size], conditions: Iterable[Condition], result: Any) -> Formula:
    """Returns a function of unknown dims: what a trace returned, or None where a condition of it does not hold.

    Args:
        trace: the trace, which may go on.
        dims: the sizes that the function takes, in this order.
        conditions: those that are checked first.
        result: nested lists and tuples of sizes, traced objects and anything else, which is returned as it is.
    """
    writer = _Writer(trace, dims)
    for condition in sorted(conditions, key=lambda c: writer.calls(c.operand)):
        writer.require(condition)
    writer.push(result)
    return Formula(len(dims), writer.code, tuple(writer.constants))


def _atom_of(dim: Size) -> int:
    (((number,), _),) = dim.terms
    return number


class _Writer:
    """Writes the code of a program: each atom, size and native call is computed once, before the first use."""

    def __init__(self, trace: Trace, dims: Sequence[Size]) -> None:
        self.trace = trace
        self.code: list[int] = []
        self.constants: list[Any] = []
        # numbers of values in the program: of atoms, sizes and native calls
        self._atoms: dict[int, int] = {_atom_of(dim): number for number, dim in enumerate(dims)}
        self._sizes: dict[Any, int] = {}
        self._calls: dict[int, int] = {}
        self._kept = len(dims)
        self._numbers: dict[Any, int] = {}  # of constants

    def calls(self, operand: Any) -> bool:
        """Whether a condition depends on a native call, which takes longer than numbers."""
        if isinstance(operand, Size):
            numbers = {number for product, _ in operand.terms for number in product}
            return any(self.calls(other) for number in numbers for other in self.trace.atoms[number].operands)
        return isinstance(operand, tuple | Traced)

    def require(self, condition: Condition) -> None:
        operand, how, holds = condition
        if how == "is":
            of, name = operand
            self.code += _VALUE, self._call(of)
            if name:
                self.code += _ATTRIBUTE, self._constant(name)
            self.push(holds)
            self.code.append(_EQUAL)
        else:
            self.push(operand)
            self.code += _SIGNS[how], int(holds)

    def push(self, value: Any) -> None:
        """Writes code that leaves a value on top of the stack."""
        kind = type(value)
        if kind is Size:
            self.code += _VALUE, self._size(value)
        elif kind is Traced:
            self.code += _VALUE, self._call(value)
        elif kind is tuple and _are_ints(value):
            self.code += _CONSTANT, self._constant(value)
        elif kind is tuple or kind is list:
            for item in value:
                self.push(item)
            self.code += _LIST if kind is list else _TUPLE, len(value)
        else:
            self.code += _CONSTANT, self._constant(value)

    def _constant(self, value: Any) -> int:
        # equal numbers of several types are several constants
        kind = type(value)
        key = (kind, value) if kind in (int, str) or (kind is tuple and _are_ints(value)) else id(value)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.constants)
            self.constants.append(value)
        return number

    def _keep(self) -> int:
        """Takes the value on top of the stack off it, and returns its number from now on."""
        self.code.append(_KEEP)
        self._kept += 1
        return self._kept - 1

    def _size(self, size: Size) -> int:
        """Returns the number of a size's value, which is computed before; leaves the stack as it is."""
        terms = size.terms
        if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:
            return self._atom(terms[0][0][0])
        number = self._sizes.get(terms)
        if number is None:
            parts = [(part, product) for product, c in terms for part in _parts(c)]
            code = [_SUM, len(parts)]
            for part, product in parts:
                code += part, len(product), *map(self._atom, product)
            self.code += code
            number = self._sizes[terms] = self._keep()
        return number

    def _atom(self, atom: int) -> int:
        number = self._atoms.get(atom)
        if number is None:
            _, _, how, operands = self.trace.atoms[atom]
            if how == "//":
                for operand in operands:
                    self.push(operand)
                self.code.append(_QUOTIENT)
                number = self._keep()
            elif not operands:
                raise RuntimeError("a formula depends on a dim that it does not take")
            else:
                number = self._call(operands[0])
                if how:
                    self.code += _VALUE, number, _ATTRIBUTE, self._constant(how)
                    number = self._keep()
            self._atoms[atom] = number
        return number

    def _call(self, traced: Traced) -> int:
        number = self._calls.get(id(traced))
        if number is None:
            call = traced.call
            if isinstance(call, int):
                self.push(traced.args[0])
                self.code += _ITEM, call
            else:
                by_name = isinstance(call, str)
                for value in (*(() if by_name else call[:1]), *traced.args, *traced.keywords.values()):
                    self.push(_argument(value))
                what = self._constant(getattr(kernels, call) if by_name else call[1])
                count = len(traced.args) + len(traced.keywords)
                self.code += _CALL if by_name else _METHOD, what, count, self._constant((*traced.keywords,))
            number = self._calls[id(traced)] = self._keep()
        return number


def _parts(coefficient: int) -> list[int]:
    """Returns numbers of 64 bits whose sum is the coefficient; the open end of a slice is 2**63 - 1, or near it.

    Raises OverflowError: beyond a few of them.
    """
    if abs(coefficient) >= _MOST << 2:
        raise OverflowError(f"a size has the coefficient {coefficient}")
    half = coefficient // 2
    return [coefficient] if -_MOST <= coefficient < _MOST else [*_parts(half), *_parts(coefficient - half)]


def _argument(value: Any) -> Any:
    """Returns an argument with tuples for lists, which native functions take alike: those of integers are constants."""
    return tuple(map(_argument, value)) if isinstance(value, list | tuple) else value


def _are_ints(value: tuple[Any, ...]) -> bool:
    return all(type(item) is int for item in value)
