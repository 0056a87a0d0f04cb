"""The table of rules for PyTorch's ops: {overload: function that builds it from standard operators}."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .call import Call

Build = Callable[..., Any]


@dataclass(frozen=True)
class Rule:
    """The rule of an op: calls `build` with the Call, some arguments of the op, and the row's extras.

    Attributes:
        places: the number of leading arguments that it takes by position: those before the "/".
        names: names of the other arguments that it takes, if the op has them.
        wide: whether operands in 16 bits are converted to f32, and results rounded once.
    """

    build: Build
    more: Mapping[str, Any]
    places: int
    names: tuple[str, ...]
    wide: bool = False

    def __call__(self, call: Call, arguments: Mapping[str, Any]) -> Any:
        if self.wide:
            call = call.in_f32()
        placed = [call.argument(value) for value in islice(arguments.values(), self.places)]
        named = {name: call.argument(arguments[name]) for name in self.names if name in arguments}
        return call.narrowed(self.build(call, *placed, **named, **self.more))


RULES: dict[str, Rule] = {}


def aten(*names: str, wide: bool = False, **more: Any) -> Callable[[Build], Build]:
    """Enters a function for overloads of torch.ops.aten; the default overload needs no name."""
    return entered("aten", *names, wide=wide, **more)


def entered(namespace: str, *names: str, wide: bool = False, **more: Any) -> Callable[[Build], Build]:
    """Enters a function for overloads of torch.ops.<namespace>, as `aten` does.

    wide: for functions of several ops, where PyTorch computes in f32 between operands and results in 16 bits.
    """

    def enter(function: Build) -> Build:
        code = function.__code__
        places = max(code.co_posonlyargcount, 1)
        named = tuple(name for name in code.co_varnames[places : code.co_argcount] if name not in more)
        rule = Rule(function, more, places - 1, named, wide)
        for name in names:
            RULES[f"{namespace}.{name}" if "." in name else f"{namespace}.{name}.default"] = rule
        return function

    return enter


def listed(value: Any) -> list[Any]:
    """Returns a list of numbers from a list or a single number."""
    return value if isinstance(value, list) else [value]


__all__ = ["RULES", "Call", "Rule", "aten", "entered", "listed"]
