"""A graph as text, an op to a line: what `print(graph)` shows."""

from __future__ import annotations

from ..graph import Graph, Node, Value

_LONGEST = 60


def listing(graph: Graph) -> str:
    """Inputs, constants and ops in the order in which they were made, with shapes and the attributes given."""
    lines = [repr(graph)]
    lines += [f"  {value.name}: input {_tensor(value)}" for value in graph.inputs]
    lines += [f"  {value.name}: constant {_tensor(value)}" for value in graph.constants]
    lines += [f"  {op_line(node)}" for node in graph.nodes]
    lines += [f"  output {name}" + ("" if name == v.name else f" = {v.name}") for name, v in graph.outputs.items()]
    return "\n".join(lines)


def op_line(node: Node) -> str:
    """An op with the shapes of what it gives, its operands by name and its attributes."""
    made = ", ".join(f"{value.name}: {_tensor(value)}" for value in node.outputs)
    given = [value.name for value in node.inputs]
    given += [f"{name}={_brief(value)}" for name, value in node.attrs.items() if value is not None]
    return f"{made} = {node.kind}({', '.join(given)})"


def _tensor(value: Value) -> str:
    return f"{value.dtype} ({', '.join('?' if dim is None else str(dim) for dim in value.shape)})"


def _brief(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
