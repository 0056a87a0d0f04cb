"""Who pickled a net: asked before anything else of the pickle is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import Error
from ..runtime.info import version

# Counts the ways in which graphs and nets lie in a pickle: up by one whenever their attributes change.
LAYOUT = 10


@dataclass(frozen=True)
class MadeBy:
    """The first thing in a pickled net."""

    layout: int
    version: str

    def __reduce__(self) -> tuple[Any, ...]:
        return _checked, (self.layout, self.version)


def made_here() -> MadeBy:
    return MadeBy(LAYOUT, version())


def _checked(layout: int, made_by: str) -> MadeBy:
    """Runs while the pickle is read, before a graph that this version may not understand.

    Raises:
        Error: the pickle lies otherwise than this version writes it.
    """
    if layout != LAYOUT:
        raise Error(
            f"this net was pickled by dnnl_graph_ops {made_by} (layout {layout}), and this is {version()} (layout "
            f"{LAYOUT}); load it with the former, or build it again from its graph, Graph.to_json or the ONNX file"
        )
    return MadeBy(layout, made_by)
