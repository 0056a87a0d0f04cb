"""Checks the outputs that a graph is compiled for, and the strides that they declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidArgumentError
from ..graph import Graph, Value
from ..runtime import arrays
from ..strides import is_row_major


class Outputs(dict[str, Value]):
    """The outputs of a net by name, with an error that tells them."""

    def __missing__(self, name: object) -> Value:
        raise KeyError(
            f"{name!r} is the name of no output; the outputs are {', '.join(self)}, and in order "
            "list(net.outputs.values())"
        )


def named_outputs(graph: Graph, outputs: Any) -> dict[str, Value]:
    """Returns the outputs that a graph is to be compiled for by name, as Graph.compile takes them."""
    if outputs is None:
        outputs = graph.outputs
    if isinstance(outputs, Value):
        named = {outputs.name: outputs}
    elif isinstance(outputs, Mapping):
        named = dict(outputs)
    elif isinstance(outputs, tuple | list):
        named = {}
        for value in outputs:
            name = value.name if isinstance(value, Value) else f"number {len(named)}"
            if name in named:
                raise InvalidArgumentError(f"Graph.compile: output {name!r} is listed twice")
            named[name] = value
    else:
        raise TypeError(
            f"Graph.compile: 'outputs' must be a Value, a sequence of them, or {{name: Value}}, got "
            f"{type(outputs).__name__}"
        )
    if not named:
        raise InvalidArgumentError("Graph.compile: needs at least one output, g.compile(y) or g.compile([y, z])")
    for name, value in named.items():
        if not isinstance(name, str):
            raise TypeError(f"Graph.compile: names of outputs must be strings, got {type(name).__name__}")
        if not isinstance(value, Value):
            shape = f" of shape {value.shape}" if hasattr(value, "shape") else ""
            raise TypeError(
                f"Graph.compile: output {name!r} must be a Value, got {type(value).__name__}{shape}; "
                f"builders of dgo.ops and Graph.constant give Values"
            )
        graph._check_owner(value, "Graph.compile")
    return named


def result_strides(name: str, value: Value) -> tuple[int, ...] | None:
    """Returns the strides of a new array for the output `name`; None for row-major.

    Raises:
        InvalidArgumentError: by its declared strides, several elements of the output share memory.
    """
    if value.strides is None or None in value.shape:
        return None
    shape: tuple[int, ...] = value.shape  # type: ignore[assignment]
    if is_row_major(shape, value.strides):
        return None
    if not arrays.overlaps_itself(shape, value.strides):
        return value.strides
    if value.node is None:
        # the output is an input that is broadcast
        return None
    raise InvalidArgumentError(
        f"Graph.compile: output {name!r} of shape {shape} has the strides {value.strides}, so that several of its "
        f"elements share memory; give it strides of distinct elements"
    )
