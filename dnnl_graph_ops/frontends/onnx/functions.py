"""Inlines a model's local functions, with a bound on the number of nodes.

The inliner of `onnx` has no bound: functions that each call the next one twice double the nodes each time, and before
onnx 1.20 a function that calls itself overflows the stack.

Source: the ONNX IR specification, "Functions".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import InvalidArgumentError
from ...graph.json_format import MAX_OPS
from ...graph.order import topological
from ..reading.node import Array, Body, OnnxNode, Reference, flat

# most nodes plus names of tensors; a name costs as much as a node
_MAX_SIZE = 10 * MAX_OPS
_NAME_LENGTH = 200

# domain, name, overload
Identity = tuple[str, str, str]


@dataclass(frozen=True)
class Function:
    """A function with its body; `defaults`: attributes that a call may leave out."""

    identity: Identity
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: Mapping[str, Any]
    nodes: tuple[OnnxNode, ...]

    @property
    def where(self) -> str:
        domain, name, overload = (part[:80] for part in self.identity)
        return f"ONNX function {f'{domain}.' if domain else ''}{name}{f' ({overload})' if overload else ''}"


def inlined(nodes: Sequence[OnnxNode], functions: Iterable[Function], taken: Iterable[str]) -> list[OnnxNode]:
    """Returns the nodes with every call of a function replaced by the body.

    Args:
        taken: names of tensors that new names must differ from, besides those of the nodes.

    Raises:
        InvalidArgumentError: two functions of one identity, functions that call themselves, too many nodes.
    """
    table: dict[Identity, Function] = {}
    for function in functions:
        if function.identity in table:
            raise InvalidArgumentError(f"{function.where}: is defined twice")
        table[function.identity] = function
    _check_size(nodes, table)
    used = (*names_of(nodes), *(name for function in table.values() for name in names_of(function.nodes)))
    return _inlined(nodes, table, fresh_names((*taken, *used)))


def names_of(nodes: Iterable[OnnxNode]) -> Iterator[str]:
    """Returns all names of tensors in nodes."""
    for node in flat(nodes):
        yield from (*node.inputs, *node.outputs)
        for body in node.bodies.values():
            yield from (*body.inputs, *body.arrays, *body.outputs)


def _inlined(
    nodes: Sequence[OnnxNode], table: Mapping[Identity, Function], fresh: Callable[[str], str]
) -> list[OnnxNode]:
    result = []
    frames: list[Iterator[OnnxNode]] = [iter(nodes)]
    while frames:
        node = next(frames[-1], None)
        if node is None:
            frames.pop()
        elif (called := table.get(node.identity)) is None:
            bodies = {
                name: replace(body, nodes=tuple(_inlined(body.nodes, table, fresh)))
                for name, body in node.bodies.items()
            }
            result.append(replace(node, attrs={**node.attrs, **bodies}) if bodies else node)
        else:
            frames.append(_body(called, node, fresh))
    return result


def _check_size(nodes: Sequence[OnnxNode], table: Mapping[Identity, Function]) -> None:
    """Raises for cycles of calls, and for more nodes than a graph may have, before a body is copied."""
    functions = list(table.values())
    number = {function.identity: i for i, function in enumerate(functions)}
    needs = [{number[n.identity] for n in flat(function.nodes) if n.identity in number} for function in functions]
    order, circle = topological(needs)
    if circle:
        raise InvalidArgumentError(
            f"{functions[circle[0]].where}: calls itself, or functions that do; there is no end to its nodes"
        )
    sizes: dict[Identity, int] = {}
    for i in order:
        # without a bound these sums would have as many digits as there are functions
        sizes[functions[i].identity] = min(_size(functions[i].nodes, table, sizes), _MAX_SIZE + 1)
    if _size(nodes, table, sizes) > _MAX_SIZE:
        raise InvalidArgumentError(
            f"from_onnx: with its functions in place the model has more than {_MAX_SIZE} nodes and names of tensors; "
            f"export it without functions, or in parts"
        )


def _size(nodes: Iterable[OnnxNode], table: Mapping[Identity, Function], sizes: Mapping[Identity, int]) -> int:
    total = 0
    for node in flat(nodes):
        total += 1 + len(node.inputs) + len(node.outputs) + len(node.attrs)
        if (called := table.get(node.identity)) is not None:
            total += sizes[node.identity] + len(called.inputs) + len(called.outputs) + len(called.defaults)
    return total


def fresh_names(used: Iterable[str]) -> Callable[[str], str]:
    """Returns a function that generates names other than these."""
    taken, count = set(used), 0

    def fresh(name: str) -> str:
        nonlocal count
        while True:
            count += 1
            if (made := f"{name[:_NAME_LENGTH]}__{count}") not in taken:
                return made

    return fresh


def _body(function: Function, call: OnnxNode, fresh: Callable[[str], str]) -> Iterator[OnnxNode]:
    """Returns the nodes of a call, with the caller's tensors and attributes."""
    for given, known, what in (
        (call.inputs, function.inputs, "inputs"),
        (call.outputs, function.outputs, "outputs"),
    ):
        if len(given) > len(known):
            raise InvalidArgumentError(f"{call.where}: has {len(given)} {what}, but the function {len(known)}")
    renamed = dict.fromkeys(function.inputs, "") | dict(zip(function.inputs, call.inputs, strict=False))
    # an output that the caller drops gets a new name, as inner tensors do
    renamed |= {name: wanted for name, wanted in zip(function.outputs, call.outputs, strict=False) if wanted}
    values = {**function.defaults, **call.attrs}
    rename = _renaming(renamed, fresh)
    for node in function.nodes:
        yield _renamed(node, rename, values, f"{call.name}/")


def _renaming(
    renamed: dict[str, str], fresh: Callable[[str], str], own: Collection[str] | None = None
) -> Callable[[str], str]:
    """Returns a function that renames tensors, or only `own`, by `renamed`, to which it adds new names."""

    def rename(name: str) -> str:
        if name and name not in renamed and (own is None or name in own):
            renamed[name] = fresh(name)
        return renamed.get(name, name)

    return rename


def _renamed(node: OnnxNode, rename: Callable[[str], str], values: Mapping[str, Any], prefix: str = "") -> OnnxNode:
    """Returns a node with renamed tensors, and with References replaced by the call's attributes."""
    attrs = {
        name: values[value.name] if isinstance(value, Reference) else value
        for name, value in node.attrs.items()
        if not isinstance(value, Reference) or value.name in values
    }
    for name, body in node.bodies.items():
        attrs[name] = moved(body, rename, values, prefix)
    return replace(
        node,
        name=f"{prefix}{node.name}"[:_NAME_LENGTH],
        inputs=tuple(map(rename, node.inputs)),
        outputs=tuple(map(rename, node.outputs)),
        attrs=attrs,
    )


def moved(body: Body, rename: Callable[[str], str], values: Mapping[str, Any], prefix: str) -> Body:
    """Returns a subgraph with its outer tensors renamed."""

    def inner(name: str) -> str:
        return name if not name or name in body.local else rename(name)

    nodes = tuple(_renamed(node, inner, values, prefix) for node in body.nodes)
    return replace(body, nodes=nodes, outputs=tuple(map(inner, body.outputs)))


def spliced(
    body: Body, node: OnnxNode, inputs: Sequence[str], outputs: Sequence[str], fresh: Callable[[str], str]
) -> tuple[list[OnnxNode], dict[str, Array]]:
    """Returns the nodes of a subgraph that replace its node, and its arrays."""
    rename = _renaming(dict(zip(body.inputs, inputs, strict=True)), fresh, body.local)
    arrays = {rename(name): array for name, array in body.arrays.items()}
    nodes = [_renamed(one, rename, {}, f"{node.name}/") for one in body.nodes]
    pairs = zip(body.outputs, outputs, strict=False)
    return [*nodes, *(identity(node, rename(name), given) for name, given in pairs if given)], arrays


def identity(node: OnnxNode, source: str, result: str) -> OnnxNode:
    """Returns an Identity of one tensor to another."""
    return OnnxNode(node.name, "Identity", "", "", node.opset, (source,), (result,), {})
