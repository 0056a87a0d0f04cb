"""The table of PyTorch's ops: the name of an overload to the function that builds it of standard operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .call import Call

Build = Callable[..., Any]


@dataclass(frozen=True)
class Rule:
    """How an op is built: `build` gets the call, the op's arguments by name, and what the row adds.

    `is_open`: it does not need the sizes among its arguments.
    """

    build: Build
    more: Mapping[str, Any]
    is_open: bool = False


RULES: dict[str, Rule] = {}


def aten(*names: str, is_open: bool = False, **more: Any) -> Callable[[Build], Build]:
    """Enter a function for some overloads of torch.ops.aten; the default one needs no name."""

    def enter(function: Build) -> Build:
        for name in names:
            RULES[f"aten.{name}" if "." in name else f"aten.{name}.default"] = Rule(function, more, is_open)
        return function

    return enter


__all__ = ["RULES", "Call", "Rule", "aten"]
