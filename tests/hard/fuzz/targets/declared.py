"""Every function that kernels declare, with hostile values of the types that it declares. What it makes is not run."""

from __future__ import annotations

from typing import Any

from commas import at_commas

from dnnl_graph_ops import _core
from hard.fuzz.choices import Choices

from .kernels import ABSURD, BIG, size

kernels = _core.kernels

ROWS = {(scope, name): parameters for scope, name, plain, parameters, *_ in kernels.table() if not plain}
KEYS = [key for key in ROWS if ROWS[key] and key != ("", "Work")]
DTYPES, LONGEST = (3, 2, 1), 70
WORDS = (
    "", "dgrad", "fprop", "wgrad", "none", "add", "mul", "max", "min", "sum", "mean", "lstm",
    "gru", "rnn_tanh", "zeros", "border", "reflection", "cast", "equal", "and", "relu", "clamp", "one", "full", "avx2",
    "avx512", "emulated", "emulatedint8", "amx", "x\0", "\udc80",
)  # fmt: skip


def one(data: bytes) -> None:
    c = Choices(data)
    scope, name = c.pick(KEYS)
    made = call(c, getattr(getattr(kernels, scope), name) if scope else getattr(kernels, name), ROWS[scope, name])
    assert not isinstance(made, kernels.Kernel) or 0 < made.arity <= LONGEST + 8


def call(c: Choices, function: Any, parameters: Any) -> Any:
    """Some by position, the others by name; defaults where the choices say so."""
    values = [(name, value(c, kind)) for name, kind, default in parameters if not default or c.often()]
    leading = sum(name == parameter[0] for (name, _), parameter in zip(values, parameters, strict=False))
    positions = max(leading - c.below(4), 0)
    return function(*(v for _, v in values[:positions]), **dict(values[positions:]))


def value(c: Choices, kind: str) -> Any:
    """Of a type as the declaration writes it, seldom of another one."""
    if c.rarely() and c.rarely():
        return c.odd()
    kind, _, other = kind.partition(" | ")
    if other and c.often():
        return None
    head, _, inner = kind.partition("[")
    if head == "Sequence":
        return [value(c, inner[:-1]) for _ in range(c.pick((2, 3, 1, 4, 5, 0, LONGEST)))]
    if head == "tuple":
        return tuple(value(c, part) for part in at_commas(inner[:-1]))
    return PLAIN[kind](c) if kind in PLAIN else call(c, getattr(kernels, kind), ROWS["", kind])


def number(c: Choices) -> int:
    """Small, or absurd and to be refused: what lies between takes time and room in proportion."""
    made = c.pick(DTYPES) if c.often() else size(c)
    return made % 9 if BIG < abs(made) < ABSURD else made


PLAIN = {
    "int": number,
    "float": Choices.real,
    "bool": Choices.often,
    "str": lambda c: c.pick(WORDS),
    "Kernel": lambda c: kernels.copy((number(c) % 9,), 3, (1,), 3, (1,)),
}
