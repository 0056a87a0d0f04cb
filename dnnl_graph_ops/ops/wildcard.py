"""The builder of Wildcard, an op that the Graph API does not define."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..errors import InvalidArgumentError
from ..graph import Value
from ..shapes import Meta, check_sizes
from ..shapes.attributes import integers
from .build import as_value, graph_of, label


def wildcard(
    *srcs: Value | Any,
    shapes: Sequence[Sequence[int]] = (),
    dtype: Any = "f32",
    name: str | None = None,
) -> tuple[Value, ...]:
    """Wildcard: an op that the Graph API does not define. It bounds the partitions around it; it cannot be compiled.

    Args:
        srcs: any number of tensors of any dtype.
        shapes: the shape of each result, which only the caller knows.
        dtype: the dtype of the results.

    Returns:
        A Value for each of `shapes`.

    Raises:
        TypeError: no Value among `srcs`. ShapeError: impossible shapes.

    Source: oneDNN Graph API, Wildcard (dev_guide_op_wildcard).
    """
    where = label("wildcard", name)
    graph = graph_of(srcs, where)
    values = [as_value(graph, src, where, f"srcs[{i}]") for i, src in enumerate(srcs)]
    if isinstance(shapes, str | bytes) or not isinstance(shapes, Sequence):
        raise TypeError(f"{where}: 'shapes' must be a sequence of shapes, got {type(shapes).__name__}")
    kind = dtypes.canonical(dtype)
    metas = [Meta(integers(shape, "shapes", where), kind) for shape in shapes]
    for meta in metas:
        check_sizes(meta.shape, where, "'shapes'")
    if not srcs and not metas:
        raise InvalidArgumentError(f"{where}: needs an input or a result")
    slots = [f"dst_{i}" for i in range(len(metas))]
    return graph._add_node("Wildcard", where, values, {}, metas, slots, name)
