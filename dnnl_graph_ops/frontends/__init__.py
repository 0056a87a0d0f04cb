"""Imports ONNX models and exported PyTorch programs as graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..graph import hooks
from ..schema.arguments import keywords_told

if TYPE_CHECKING:
    from ..graph import Graph
    from ..runtime.engines import Engine
    from .reading.input_shapes import InputShapes

__all__ = ["from_onnx", "from_torch"]


@keywords_told
def from_onnx(model_or_path: Any, engine: Engine | None = None, *, shapes: InputShapes | None = None) -> Graph:
    """Import an ONNX model as a graph; needs the extra `onnx`.

    Args:
        model_or_path: a path, the bytes of a file, or a ModelProto.
        engine: the engine that runs the graph; None: the default CPU engine.
        shapes: {input name: shape} fixes unknown dims: {"x": (1, 80, None)}; None leaves a dim as it is, a string names
            it. {"batch": 1} fixes all unknown dims of a name. Names of dims have no other meaning.

    Returns:
        A Graph with the model's inputs and outputs, in NCX. Dynamic dims of the model stay dynamic. Ops are named after
        the tensors that they give, as nodes of a model need no names.

    Raises:
        UnsupportedError: unsupported operators, all in one message. InvalidArgumentError: a damaged model, or no input
            or unknown dim of a name in `shapes`. ShapeError: a shape that contradicts the model's.
        RuntimeUnavailableError: onnx is not installed. TypeError: another type of source.
    """
    from .onnx import from_onnx as read

    return read(model_or_path, engine, shapes=shapes)


@keywords_told
def from_torch(exported_program: Any, engine: Engine | None = None, *, shapes: InputShapes | None = None) -> Graph:
    """Import an `ExportedProgram` of `torch.export` as a graph; needs the extra `torch`.

    Args:
        exported_program: the result of `torch.export.export(model.eval(), arguments)`.
        engine: the engine that runs the graph; None: the default CPU engine.
        shapes: {input name: shape} fixes sizes of unknown dims, as of `from_onnx`.

    Returns:
        A Graph with the program's tensors as inputs and outputs;
        `dnnl_graph_ops.frontends.torch_export.from_torch` documents the mapping of ops.

    Raises:
        UnsupportedError: unsupported ops and features, all in one message. TypeError: no ExportedProgram.
        InvalidArgumentError, ShapeError: `shapes` does not fit the program.
        RuntimeUnavailableError: torch is not installed.
    """
    from .torch_export import from_torch as read

    return read(exported_program, engine, shapes=shapes)


def _rebuilt(*args: Any) -> Any:
    from .reading.deferred import rebuilt

    return rebuilt(*args)


def _built(graph: Graph, node: Any, *rest: Any) -> Any:
    if node.domain == "torch":
        from .torch_export.build import built
    else:
        from .onnx.build import built
    return built(graph, node, *rest)


def _model(*args: Any) -> Any:
    from .onnx.importer import graph_of_record

    return graph_of_record(*args)


hooks.provide("model", _model)
hooks.provide("late", _rebuilt)
hooks.provide("built", _built)
