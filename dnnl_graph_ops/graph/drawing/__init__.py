"""Graphs as pictures: Graphviz text, and SVG with a layout of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import hooks
from .dot import dot
from .picture import of_graph, of_net
from .svg import svg


def net_to_svg(net: Any, path: Any = None) -> str:
    """Implements `Net.to_svg`."""
    text = svg(of_net(net))
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


hooks.provide("graph_to_dot", lambda graph: dot(of_graph(graph)))
hooks.provide("net_to_dot", lambda net: dot(of_net(net)))
hooks.provide("net_to_svg", net_to_svg)
