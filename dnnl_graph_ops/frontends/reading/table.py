"""The table of rules: {op_type: attributes, and the function that builds the node}."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...errors import InvalidArgumentError
from ...once import once
from ...shapes import Meta
from .node import OnnxNode
from .step import Result, Step


@dataclass(frozen=True)
class Attr:
    """An attribute: its type, its default, and the supported values (empty: all)."""

    kind: type | tuple[type, ...]
    default: Any = None
    allowed: tuple[Any, ...] = ()
    items: type | None = None


def ints(*default: int) -> Attr:
    return Attr(list, list(default) or None, items=int)


def integer(default: int | None, *allowed: int) -> Attr:
    return Attr(int, default, allowed)


def number(default: float | None) -> Attr:
    return Attr((float, int), default)


def text(default: str | None, *allowed: str) -> Attr:
    return Attr(str, default, allowed)


@dataclass(frozen=True)
class Rule:
    """The rule of an operator: builds its outputs, fewer if optional outputs are unsupported."""

    build: Callable[[Step], Result]
    inputs: tuple[int, int]
    attrs: dict[str, Attr] = field(default_factory=dict)
    outputs: int = 1
    # shapes of the outputs of a deferred node, if `build` needs sizes
    late: Callable[[Step], Meta | list[Meta]] | None = None

    @once
    def defaults(self) -> dict[str, Any]:
        return {name: attr.default for name, attr in self.attrs.items()}


RULES: dict[str, Rule] = {}
ANY = 1 << 30


def rule(
    *op_types: str,
    inputs: int | tuple[int, int] = 1,
    outputs: int = 1,
    late: Callable[[Step], Meta | list[Meta]] | None = None,
    **attrs: Attr,
) -> Callable[[Callable[[Step], Result]], Callable[[Step], Result]]:
    """Enters a function into the table."""
    counts = inputs if isinstance(inputs, tuple) else (inputs, inputs)

    def enter(function: Callable[[Step], Result]) -> Callable[[Step], Result]:
        for op_type in op_types:
            RULES[op_type] = Rule(function, counts, attrs, outputs, late)
        return function

    return enter


def first(step: Step) -> Meta:
    """Returns shape and dtype of the first input, for `late`."""
    return step.meta(0)


def _hold(values: Any, kind: type) -> bool:
    """Whether all values are of a type."""
    return {kind}.issuperset(map(type, values)) or all(isinstance(value, kind) for value in values)


def check(node: OnnxNode) -> list[str]:
    """Returns why a node is unsupported for any inputs; empty if it is not.

    Raises:
        InvalidArgumentError: attributes of a wrong type, a wrong number of inputs.
    """
    if node.domain or node.op_type not in RULES:
        return [f"{node.where}: no op for {node.domain + '.' if node.domain else ''}{node.op_type}"]
    entry = RULES[node.op_type]
    problems = []
    for name, value in node.attrs.items():
        attr = entry.attrs.get(name)
        if attr is None:
            problems.append(f"{node.where}: attribute {name!r}")
        elif value is None:
            problems.append(f"{node.where}: attribute {name!r} of its type")
        elif not isinstance(value, attr.kind):
            raise InvalidArgumentError(f"{node.where}: attribute {name!r} is a {type(value).__name__}")
        elif attr.items is not None and not _hold(value, attr.items):
            raise InvalidArgumentError(f"{node.where}: attribute {name!r} must hold {attr.items.__name__}s")
        elif attr.allowed and value not in attr.allowed:
            choices = ", ".join(map(str, attr.allowed))
            problems.append(f"{node.where}: {name}={value!r}, only {choices}")
    least, most = entry.inputs
    if not least <= len(node.inputs) <= most or not all(node.inputs[:least]):
        raise InvalidArgumentError(
            f"{node.where}: needs {least} inputs or more, at most {most}; has {len(node.inputs)}"
        )
    if any(node.outputs[entry.outputs :]):
        problems.append(f"{node.where}: its output {len(node.outputs)}, only {entry.outputs} has a counterpart")
    return problems
