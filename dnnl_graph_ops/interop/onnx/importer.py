"""Build a graph from an ONNX model, node by node; all that cannot be expressed is said at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import Error, InvalidArgumentError, UnsupportedError
from ...graph import Graph, Value
from ...runtime.engines import Engine
from . import (  # noqa: F401  (fill the table)
    convolution,
    einsum,
    elementwise,
    movement,
    normalization,
    pieces,
    quantization,
    resize,
)
from .budget import Budget
from .fold import FOLDED
from .late import FAULTS, built, constant_of, fault, lacking
from .model import Model, read
from .node import Item, Measured, OnnxNode

_SHOWN = 50


def from_onnx(model_or_path: Any, engine: Engine | None = None) -> Graph:
    """An ONNX model of float or QDQ form as a graph: `from_onnx("m.onnx").compile()(x)`.

    Args:
        model_or_path: a path, the file's content as bytes, or an `onnx.ModelProto`.
        engine: where it will run; None: the default CPU engine.

    Returns:
        A Graph whose inputs are those without initializer, in their order, and whose `outputs` are those
        of the model. A symbolic dim is known at the call only, and so is what a model computes of it; nodes that depend
        on that are built at the first call of each shape. Data stays channels-first. Of a model from a path, a net
        without such dims keeps only what it has made of large initializers; the file stays open, and they are read
        again when they are wanted (by another `compile`, for other strides, by `pickle`): an error if it was written to
        meanwhile. Deleting it, or renaming another to its name, changes nothing.

    Raises:
        RuntimeUnavailableError: the package `onnx` is missing: pip install "dnnl-graph-ops[onnx]".
        UnsupportedError: lists every node and attribute value that no op expresses, what lies behind them left out;
            or the model computes more constants as it is read than 256 MiB and four times what it stores.
        InvalidArgumentError: no ONNX model, cycles, functions that call themselves, missing tensors, wrong types.
        ShapeError: impossible shapes.

    Source: the ONNX operator specifications, from opset 7 on.
    """
    model = read(model_or_path)
    graph = Graph(engine, name=model.name.replace("\0", "?"))
    problems = list(model.problems)
    known: dict[str, Item] = dict(model.arrays)
    budget = Budget(model.nbytes)
    for item in model.inputs:
        known[item.name] = graph.input(item.name, item.shape, item.dtype)
    for node in model.nodes:
        if all(name in known for name in node.inputs if name):
            problems += _append(graph, node, known, budget)
        elif node.domain or node.op_type not in FOLDED:
            # behind a node that cannot be expressed: only what is wrong with this one too
            problems += lacking(node)
    if problems:
        raise UnsupportedError(_refusal(problems))
    graph.outputs = _outputs(graph, model, known, budget)
    return graph


def _append(graph: Graph, node: OnnxNode, known: dict[str, Item], budget: Budget) -> list[str]:
    """Build one node; what is unsupported about it is returned, and its results stay unknown."""
    try:
        found = built(graph, node, known, budget)
    except UnsupportedError as error:
        return str(error).split("\n  ")
    except Error:
        raise
    except FAULTS as error:
        raise fault(node, error) from None
    known.update((name, item) for name, item in zip(node.outputs, found, strict=False) if name)
    return []


def _refusal(problems: Sequence[str]) -> str:
    unique = list(dict.fromkeys(problems))
    lines = [f"from_onnx: {len(unique)} parts of the model cannot be expressed:"]
    lines += [f"  {problem}" for problem in unique[:_SHOWN]]
    if len(unique) > _SHOWN:
        lines.append(f"  and {len(unique) - _SHOWN} more")
    return "\n".join(lines)


def _outputs(graph: Graph, model: Model, known: dict[str, Item], budget: Budget) -> dict[str, Value]:
    if not model.outputs:
        raise InvalidArgumentError("from_onnx: the model declares no outputs")
    found = {}
    for name in model.outputs:
        item = known[name]
        if isinstance(item, Measured):
            item = constant_of(graph, item, known, budget)
        elif not isinstance(item, Value):
            budget.spend(item.nbytes, f"ONNX output {name[:80]!r}")
            item = graph.constant(item)
        found[name] = item
    return found
