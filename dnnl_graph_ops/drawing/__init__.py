"""Graphs as text, in Graphviz's language, and as SVG with a layout of its own. Loaded when the first one is shown."""

from __future__ import annotations

from typing import Any

from ..graph import hooks
from .listing import listing


def graph_to_dot(graph: Any) -> str:
    """Implements `Graph.to_dot`."""
    from .picture import dot, of_graph

    return dot(of_graph(graph))


def net_to_dot(net: Any) -> str:
    """Implements `Net.to_dot`."""
    from .picture import dot, of_net

    return dot(of_net(net))


def net_to_svg(net: Any, path: Any = None) -> str:
    """Implements `Net.to_svg`."""
    from .picture import of_net
    from .svg import svg

    text = svg(of_net(net))
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


hooks.provide("to_text", listing)
hooks.provide("to_dot", graph_to_dot)
