"""The way to other libraries: DLPack, ONNX and torch.export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..graph import hooks
from ..runtime.dlpack import from_dlpack
from .dlpack import to_dlpack

if TYPE_CHECKING:
    from ..graph import Graph
    from ..runtime.engines import Engine

__all__ = ["from_dlpack", "from_onnx", "from_torch", "to_dlpack"]


def from_onnx(model_or_path: Any, engine: Engine | None = None) -> Graph:
    """An ONNX model (a path, bytes, or a ModelProto) as a graph; needs the extra `onnx`.

    See `dnnl_graph_ops.interop.onnx.from_onnx` for what is mapped and what is raised.
    """
    from .onnx import from_onnx as read

    return read(model_or_path, engine)


def from_torch(exported_program: Any, engine: Engine | None = None) -> Graph:
    """An `ExportedProgram` of `torch.export` as a graph; needs the extra `torch`.

    See `dnnl_graph_ops.interop.aten.from_torch` for what is mapped and what is raised.
    """
    from .aten import from_torch as read

    return read(exported_program, engine)


def _late(*args: Any) -> Any:
    from . import aten  # noqa: F401  (nodes of both may be kept)
    from .onnx.late import rebuilt

    return rebuilt(*args)


hooks.provide("late", _late)
