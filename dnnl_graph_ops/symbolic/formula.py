"""Compiles what a trace has computed to a Python function of the unknown dims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._core import kernels
from .native import Traced
from .size import Condition, Size, Trace


class Formula:
    """A function of unknown dims that returns what a trace returned, or None where a condition of it does not hold.

    Args:
        trace: the trace, which may go on.
        dims: the sizes that the function takes, in this order.
        conditions: those that are checked first.
        result: nested lists and tuples of sizes, traced objects and anything else, which is returned as it is.
    """

    def __init__(self, trace: Trace, dims: Sequence[Size], conditions: Iterable[Condition], result: Any) -> None:
        writer = _Writer(trace, dims)
        for condition in sorted(conditions, key=lambda c: writer.calls(c.operand)):
            writer.require(condition)
        writer.lines.append(f"return {writer.text(result)}")
        names = ", ".join(writer.names[_atom_of(dim)] for dim in dims)
        self.source = "\n    ".join([f"def formula({names}):", *writer.lines])
        exec(compile(self.source, "<formula of sizes>", "exec"), writer.scope)
        self._function: Callable[..., Any] = writer.scope["formula"]

    def __call__(self, *dims: int) -> Any:
        return self._function(*dims)


def _atom_of(dim: Size) -> int:
    (((number,), _),) = dim.terms
    return number


class _Writer:
    """Writes the lines of a function: each atom, size and native call is computed once, before the first use."""

    def __init__(self, trace: Trace, dims: Sequence[Size]) -> None:
        self.trace = trace
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"__builtins__": {}}
        self.names: dict[int, str] = {_atom_of(dim): f"d{i}" for i, dim in enumerate(dims)}
        self._sizes: dict[Any, str] = {}
        self._calls: dict[int, str] = {}
        self._constants: dict[int, str] = {}
        self._kept: list[Any] = []

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
            text = f"{self._call(of)}.{name}" if name else self._call(of)
            self.lines.append(f"if {text} != {self.text(holds)}: return None")
        else:
            self.lines.append(f"if {'not ' if holds else ''}{self.text(operand)} {how} 0: return None")

    def text(self, value: Any) -> str:
        """Returns an expression of a value."""
        if type(value) is Size:
            return self._size(value)
        if type(value) is Traced:
            return self._call(value)
        if type(value) is tuple:
            return f"({' '.join(f'{self.text(item)},' for item in value)})"
        if type(value) is list:
            return f"[{', '.join(map(self.text, value))}]"
        if value is None or type(value) in (int, bool, str):
            return repr(value)
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = f"k{len(self._constants)}"
            self.scope[name] = value
        return name

    def _size(self, size: Size) -> str:
        if len(size.terms) == 1 and size.terms[0][1] == 1 and len(size.terms[0][0]) == 1:
            return self._atom(size.terms[0][0][0])
        name = self._sizes.get(size.terms)
        if name is None:
            text = " + ".join(
                "*".join([*([str(c)] if c != 1 or not product else []), *map(self._atom, product)])
                for product, c in size.terms
            )
            name = self._sizes[size.terms] = f"s{len(self._sizes)}"
            self.lines.append(f"{name} = {text}")
        return name

    def _atom(self, number: int) -> str:
        name = self.names.get(number)
        if name is None:
            _, _, how, operands = self.trace.atoms[number]
            if how == "//":
                text = " // ".join(map(self.text, operands))
            elif operands:
                text = f"{self._call(operands[0])}.{how}" if how else self._call(operands[0])
            else:
                raise RuntimeError("a formula depends on a dim that it does not take")
            name = self.names[number] = f"a{number}"
            self.lines.append(f"{name} = {text}")
        return name

    def _call(self, traced: Traced) -> str:
        name = self._calls.get(id(traced))
        if name is None:
            text = self._called(traced)
            name = self._calls[id(traced)] = f"c{len(self._calls)}"
            self._kept.append(traced)
            self.lines.append(f"{name} = {text}")
        return name

    def _called(self, traced: Traced) -> str:
        """Returns the expression of a native call."""
        call = traced.call
        if isinstance(call, int):
            return f"{self._call(traced.args[0])}[{call}]"
        named = (f"{name}={self.text(item)}" for name, item in traced.keywords.items())
        args = ", ".join([*map(self.text, traced.args), *named])
        if isinstance(call, str):
            self.scope[f"f_{call}"] = getattr(kernels, call)
            return f"f_{call}({args})"
        owner, method = call
        return f"{self._call(owner)}.{method}({args})"
