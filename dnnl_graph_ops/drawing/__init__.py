"""Graphs as text, in Graphviz's language, and as SVG with a layout of its own. Loaded when the first one is shown."""

from __future__ import annotations

from os import PathLike
from pathlib import PurePath
from typing import Any

from ..errors import InvalidArgumentError
from ..graph import hooks


def graph_to_text(graph: Any) -> str:
    """Implements `print(graph)`."""
    from .listing import listing

    return listing(graph)


def graph_to_dot(graph: Any) -> str:
    """Implements `Graph.to_dot`."""
    from .dot import dot
    from .picture import of_graph

    return dot(of_graph(graph))


def net_to_dot(net: Any) -> str:
    """Implements `Net.to_dot`."""
    from .dot import dot
    from .picture import of_net

    return dot(of_net(net))


def net_to_svg(net: Any, path: Any = None) -> str:
    """Implements `Net.to_svg`."""
    from .picture import of_net
    from .svg import svg

    suffix = PurePath(path).suffix if isinstance(path, str | PathLike) else ""
    if suffix.lower() not in ("", ".svg"):
        raise InvalidArgumentError(f"Net.to_svg: {str(path)!r} is written as SVG; give a name that ends in .svg")
    text = svg(of_net(net))
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


hooks.provide("to_text", graph_to_text)
hooks.provide("to_dot", graph_to_dot)
