"""Unrolls loops whose trip count is known while the model is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...errors import Error
from ..reading.budget import Budget
from ..reading.fold import fold
from ..reading.node import Array, Body, OnnxNode, Tensor, flat, tensor_of, tensors_of
from ..reading.numpy_steps import row_of

# most nodes of an unrolled Loop
_MOST_NODES = 1 << 14
# most elements of arrays that a condition is computed from
_FEW = 1 << 12
_MOST_TURNS = 1 << 10

Fresh = Callable[[str], str]


def counters(body: Body) -> Callable[[int], tuple[Array, Array]]:
    """Returns iteration number and condition of the ranks that the body declares: 0, or 1 in older files."""
    infos = (*body.input_infos, Tensor(), Tensor())
    number, condition = (len(info.shape or ()) for info in infos[:2])
    goes = np.array(True, ndmin=condition)
    return lambda iteration: (np.array(iteration, np.int64, ndmin=number), goes)


def trip_count(node: OnnxNode, arrays: Mapping[str, Array]) -> int | None:
    """Returns the trip count of a Loop; None if it depends on the call, or gives too many nodes."""
    body, given = node.bodies.get("body"), (*node.inputs, "", "")[:2]
    if body is None or len(body.inputs) != max(len(node.inputs), 2) or len(body.outputs) < len(body.inputs) - 1:
        return None
    if any(name and (name not in arrays or arrays[name].size != 1) for name in given):
        return None
    most = int(arrays[given[0]].reshape(())) if given[0] else None
    goes = bool(arrays[given[1]].reshape(())) if given[1] else True
    limit = min(_MOST_TURNS, _MOST_NODES // max(len(list(flat(body.nodes))), 1))
    around = {name: arrays[name] for name in body.free if name in arrays}
    carried = {
        inner: arrays[name] for inner, name in zip(body.inputs[2:], node.inputs[2:], strict=True) if name in arrays
    }
    needed, count = _needed(body), counters(body)
    for iteration in range(limit + 1):
        if not goes or iteration == most:
            return iteration
        own = dict(zip(body.inputs, count(iteration), strict=False))
        known = _evaluated(needed, tensors_of({**around, **body.arrays, **carried, **own}))
        results = {name: tensor.array for name, tensor in known.items() if tensor.array is not None}
        flag = results.get(body.outputs[0])
        if flag is None or flag.size != 1:
            return None
        goes = bool(flag.reshape(()))
        pairs = zip(body.inputs[2:], body.outputs[1:], strict=False)
        carried = {inner: results[name] for inner, name in pairs if name in results}
    return None


def _needed(body: Body) -> list[OnnxNode]:
    """Returns the nodes that the condition depends on, in this or a later iteration."""
    wanted = {body.outputs[0]}
    before = dict(zip(body.inputs[2:], body.outputs[1:], strict=False))
    while True:
        count = len(wanted)
        for node in reversed(body.nodes):
            if not wanted.isdisjoint(node.outputs):
                wanted.update(node.reads)
        wanted.update(before[name] for name in before.keys() & wanted)
        if len(wanted) == count:
            return [node for node in body.nodes if not wanted.isdisjoint(node.outputs)]


def _evaluated(nodes: Sequence[OnnxNode], known: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the known results of nodes."""
    budget = Budget(0)
    for node in nodes:
        if node.bodies or not all(name in known for name in node.reads):
            continue
        try:
            folded = fold(node, known, budget)
            results = _computed(node, known) if folded is None else (folded,)
        except (Error, ValueError, LookupError, ArithmeticError, TypeError):
            continue
        known.update(zip(node.outputs, results, strict=False))
    return known


def _computed(node: OnnxNode, known: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """Returns NumPy's results for a few elements."""
    inputs = [known[name].array if name else None for name in node.inputs]
    row = row_of(node)
    if (
        row is None
        or row.compute is None
        or any(name and (one is None or one.size > _FEW) for name, one in zip(node.inputs, inputs, strict=True))
    ):
        return ()
    found = row.run(node, inputs)
    return tuple(map(tensor_of, found if isinstance(found, tuple) else (np.asarray(found),)))


def unrolled(
    node: OnnxNode, iterations: int, spliced: Callable[..., tuple[list[OnnxNode], dict[str, Array]]], fresh: Fresh
) -> tuple[list[OnnxNode], dict[str, Array]] | None:
    """Returns the nodes of the unrolled iterations, and their arrays; None if stacked results have no rows."""
    body = node.bodies["body"]
    carried, count = list(node.inputs[2:]), len(body.inputs) - 2
    rows: list[list[str]] = [[] for _ in body.outputs[1 + count :]]
    loop_values = counters(body)
    if any(node.outputs[count:]) and not iterations:
        return None
    nodes: list[OnnxNode] = []
    arrays: dict[str, Array] = {}
    for iteration in range(iterations):
        own = fresh("iteration"), fresh("goes")
        arrays |= dict(zip(own, loop_values(iteration), strict=True))
        made = [fresh(name) for name in body.outputs[1:]]
        some, more = spliced(body, node, (*own, *carried), ("", *made), fresh)
        nodes += some
        arrays |= more
        carried = made[:count]
        for row, name in zip(rows, made[count:], strict=True):
            row.append(name)
    for name, result in zip(carried, node.outputs, strict=False):
        nodes += [_op(node, "Identity", (name,), (result,))] if result else []
    for row, result in zip(rows, node.outputs[count:], strict=False):
        if result:
            nodes += stacked(node, row, result, 0, arrays, fresh)
    return nodes, arrays


def stacked(
    node: OnnxNode, names: Sequence[str], result: str, axis: int, arrays: dict[str, Array], fresh: Fresh
) -> list[OnnxNode]:
    """Returns nodes that stack tensors on a new axis."""
    parts, nodes = [fresh(name) for name in names], list[OnnxNode]()
    if node.opset >= 13:
        axes = fresh("axes")
        arrays[axes] = np.asarray([axis], np.int64)
        nodes = [_op(node, "Unsqueeze", (name, axes), (part,)) for name, part in zip(names, parts, strict=True)]
    else:
        nodes = [_op(node, "Unsqueeze", (name,), (part,), axes=[axis]) for name, part in zip(names, parts, strict=True)]
    return [*nodes, _op(node, "Concat", tuple(parts), (result,), axis=axis)]


def _op(node: OnnxNode, kind: str, inputs: tuple[str, ...], outputs: tuple[str, ...], **attrs: object) -> OnnxNode:
    return replace(node, op_type=kind, domain="", overload="", inputs=inputs, outputs=outputs, attrs=attrs)
