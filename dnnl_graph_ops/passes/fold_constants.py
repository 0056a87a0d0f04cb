"""Computes values that depend on constants alone, such as the weights of a weight norm, once, as constants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtypes, schema
from ..backends.backend import FusionGroup
from ..graph import Node, Value
from ..graph.constants import Constant
from ..ir import GraphView, dims, make_constant, postorder
from ..ir.rewrites import Rewrite

Array = np.ndarray[Any, Any]
# called with nodes and a value; returns a function that runs the nodes, and returns the elements of the value
Prepare = Callable[[Sequence[Node], Value], Callable[[], Array]]

# kinds that are not folded: int8 patterns begin and end with quantizing ops, and it is unknown what a Wildcard computes
_STAY = schema.kinds("quantizes") | {"Wildcard"}
# A value that only these kinds compute is a view of a constant, and not worth a copy.
_MOVES = schema.kinds("moves")
# A folded value may have _LARGER times the bytes of the constants that it depends on, or _SMALL_BYTES.
_LARGER, _SMALL_BYTES = 2, 1 << 20


FOLD_CONSTANTS = Rewrite(
    "fold_constants",
    "a value that depends on constants alone is computed once, as a constant",
    (
        "no int8 pattern begins or ends with the op",
        "an op computes, rather than moves, elements",
        "the value is not much larger than its constants",
    ),
)
FOLD_DEQUANTIZE = Rewrite(
    "fold_dequantize",
    "a Dequantize of a constant that runs alone is a constant",
    ("the Dequantize runs alone", "the net does not return the result"),
)


class _How:
    """The cache key of a derived constant, equal for equal ops on equal constants.

    A type of its own keeps it out of files, which accept plain tuples only: it means something in this process alone.
    """

    __slots__ = ("key",)

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _How) and self.key == other.key


def run(graph: GraphView, prepare: Prepare) -> None:
    """Removes ops that depend on constants alone; the readers of their results read constants, computed when needed."""
    fixed: dict[Node, None] = {}
    for node in graph:
        if not node.inputs or not all(v._held is not None or v.node in fixed for v in node.inputs):
            continue
        if node.kind in _STAY:
            FOLD_CONSTANTS.declined(node, "no int8 pattern begins or ends with the op")
        else:
            fixed[node] = None
    if not fixed:
        return
    read = {value for node in graph if node not in fixed for value in node.inputs} | graph.returned
    gone: set[Node] = set()
    for value in [value for node in fixed for value in node.outputs if value in read]:
        parts = _leading_to([value], fixed)
        if _is_worthwhile(value, parts):
            make_constant(value, _constant(value, parts, prepare))
            gone.update(parts)
    # nodes stay if their results are returned or read, directly or by other nodes that stay
    read = {value for node in graph if node not in gone for value in node.inputs} | graph.returned
    graph.remove(*gone.difference(_leading_to(read, gone)))


def fold_dequantize(groups: Sequence[FusionGroup], kept: Collection[Value], prepare: Prepare) -> list[FusionGroup]:
    """Returns the groups without those of a single Dequantize of a constant; their results become f32 constants.

    A step that reads such a constant packs floats.
    """
    kept_groups = []
    for group in groups:
        node = group.nodes[0]
        value = node.outputs[0]
        if node.kind == "Dequantize" and node.inputs[0]._held is not None:
            unmet = ""
            if len(group.nodes) > 1:
                unmet = "the Dequantize runs alone"
            elif value in kept:
                unmet = "the net does not return the result"
            FOLD_DEQUANTIZE.tell(node, unmet)
            if not unmet:
                make_constant(value, _constant(value, [node], prepare))
                continue
        kept_groups.append(group)
    return kept_groups


def _leading_to(values: Iterable[Value], among: Collection[Node]) -> list[Node]:
    """Returns the nodes in `among` that values depend on, in topological order."""

    def makers(read: Iterable[Value]) -> list[Node]:
        return [v.node for v in read if v._held is None and v.node is not None and v.node in among]

    return postorder(makers(values), lambda node: makers(node.inputs))


def _is_worthwhile(value: Value, parts: Sequence[Node]) -> bool:
    sources = {v._held for node in parts for v in node.inputs if v._held is not None}
    nbytes = sum(prod(source.shape) * source.dtype.itemsize for source in sources)
    unmet = ""
    if all(node.kind in _MOVES for node in parts):
        unmet = "an op computes, rather than moves, elements"
    elif prod(dims(value)) * dtypes.numpy_dtype(value.dtype).itemsize > max(_SMALL_BYTES, _LARGER * nbytes):
        unmet = "the value is not much larger than its constants"
    FOLD_CONSTANTS.tell(parts[-1], unmet)
    return not unmet


def _constant(value: Value, parts: Sequence[Node], prepare: Prepare) -> Constant:
    """Returns the constant that `parts` compute for a value: one for all plans of a graph, so it is packed once."""
    names: dict[Value, Any] = {}
    sources: list[Constant] = []
    steps = []
    for number, node in enumerate(parts):
        read = {v: v._held for v in node.inputs if v not in names and v._held is not None}
        names.update({v: held.token for v, held in read.items()})
        sources += read.values()
        steps.append((node.kind, repr(sorted(node.attrs.items())), tuple(names[v] for v in node.inputs)))
        names.update({v: (number, place, v.dtype) for place, v in enumerate(node.outputs)})
    largest, compute = max(sources, key=lambda source: prod(source.shape)), prepare(parts, value)
    how = _How((*steps, names[value]))
    return largest.derived(how, lambda _: compute(), dims(value), dtypes.numpy_dtype(value.dtype))
