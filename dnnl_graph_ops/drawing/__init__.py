"""Shows graphs and nets as text, in Graphviz's DOT language, and as SVG.

The package imports this room at its first use.
"""

from __future__ import annotations

from os import PathLike
from pathlib import PurePath
from typing import Any

from ..errors import InvalidArgumentError
from ..graph import Graph, Node, Value, hooks

_LONGEST = 60


def listing(graph: Graph) -> str:
    """Returns the inputs, constants and ops of a graph as text, in the order in which they were built."""
    lines = [repr(graph)]
    lines += [f"  {value.name}: input {_tensor(value)}" for value in graph.inputs]
    lines += [f"  {value.name}: constant {_tensor(value)}" for value in graph.constants]
    lines += [f"  {op_line(node)}" for node in graph.nodes]
    lines += [f"  output {name}" + ("" if name == v.name else f" = {v.name}") for name, v in graph.outputs.items()]
    return "\n".join(lines)


def op_line(node: Node) -> str:
    """Returns an op as text: the shapes of its results, the names of its operands, and its attributes."""
    made = ", ".join(f"{value.name}: {_tensor(value)}" for value in node.outputs)
    given = [value.name for value in node.inputs]
    given += [f"{name}={_brief(value)}" for name, value in node.attrs.items() if value is not None]
    return f"{made} = {node.kind}({', '.join(given)})"


def _tensor(value: Value) -> str:
    return f"{value.dtype} ({', '.join('?' if dim is None else str(dim) for dim in value.shape)})"


def _brief(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def graph_to_dot(graph: Any) -> str:
    """Implements `Graph.to_dot`."""
    from .picture import dot, of_graph

    return dot(of_graph(graph))


def graph_to_svg(graph: Any) -> str:
    """Implements `Graph._repr_svg_`."""
    from .picture import of_graph
    from .svg import svg

    return svg(of_graph(graph))


def net_to_dot(net: Any) -> str:
    """Implements `Net.to_dot`."""
    from .picture import dot, of_net

    return dot(of_net(net))


def net_to_svg(net: Any, path: Any = None) -> str:
    """Implements `Net.to_svg`."""
    from .picture import of_net
    from .svg import svg

    if not isinstance(path, str | PathLike | None):
        raise TypeError(f"Net.to_svg: 'path' must be a path or None, got {type(path).__name__}")
    suffix = PurePath(path).suffix if path is not None else ""
    if suffix.lower() not in ("", ".svg"):
        raise InvalidArgumentError(f"Net.to_svg: {str(path)!r} is written as SVG; give a name that ends in .svg")
    text = svg(of_net(net))
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


hooks.provide("to_text", listing)
hooks.provide("to_dot", graph_to_dot)
hooks.provide("to_svg", graph_to_svg)
