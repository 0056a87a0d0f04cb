"""Checks which version pickled a net, before anything else of the pickle is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import Error
from ..runtime.info import version

# version of the pickles' format: raise by one whenever attributes of graphs or nets change
LAYOUT = 15


@dataclass(frozen=True)
class MadeBy:
    """The version record of a pickled net, first in the pickle: its format (`layout`) and the package's version."""

    layout: int
    version: str

    def __reduce__(self) -> tuple[Any, ...]:
        return _checked, (self.layout, self.version)


def made_here() -> MadeBy:
    return MadeBy(LAYOUT, version())


def _checked(layout: int, made_by: str) -> MadeBy:
    """Rebuilds a MadeBy; pickle calls this function before it reads the graph, and raises if the format is another."""
    if layout != LAYOUT:
        raise Error(
            f"this net was pickled by dnnl_graph_ops {made_by} (layout {layout}), and this is {version()} (layout "
            f"{LAYOUT}); load it with the former, or build it again from its graph, Graph.to_json or the ONNX file"
        )
    return MadeBy(layout, made_by)
