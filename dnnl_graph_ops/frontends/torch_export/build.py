"""Builds an op of PyTorch: by its rule, else once sizes are known, else as a step that PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import Error, UnsupportedError
from ...graph import Graph, Value, reclaim
from ...graph.constants import Constant, Meta
from ..reading.budget import Budget
from ..reading.build import undoing
from ..reading.deferred import Scratch, deferred
from ..reading.faults import FAULTS, quietly
from ..reading.node import Array, OnnxNode, Tensor, tensor_of
from . import elementwise, host, layers, quantization  # noqa: F401  (fill the table)
from .call import Call
from .movement import TURNS
from .sizes import SIZES, number
from .table import RULES

# constants up to so many bytes are copied, and rules may read them
_FEW_BYTES = 1 << 14


def built(graph: Graph, node: OnnxNode, known: dict[str, Tensor], budget: Budget) -> tuple[Tensor, ...]:
    """Returns the results of an op up to the last that is read: folded if known now, else outputs of ops.

    Raises:
        UnsupportedError: not even a step of PyTorch computes the op.
    """
    return tuple(map(tensor_of, _built(graph, node, known, budget)[: len(node.outputs)]))


def _built(graph: Graph, node: OnnxNode, known: dict[str, Tensor], budget: Budget) -> tuple[Any, ...]:
    call = Call(graph, node, {}, known, budget)
    if node.op_type.startswith(SIZES):
        return (number(call),)
    undo = undoing(graph, known)
    try:
        with quietly():
            return _ruled(call)
    except (Error, *FAULTS) as error:
        why = error
    if budget.exceeded:
        raise why
    undo()
    call = Call(graph, node, {}, known, budget)
    try:
        host.overload(node.op_type, node.where, call.traced.calls[-1].arguments)
        if isinstance(graph, Scratch):
            return host.appended(call)
        return deferred(graph, node, call.metas[: len(node.outputs)], known, budget)
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}" + (f"; {why}" if node.op_type in RULES else "")) from None


def _ruled(call: Call) -> tuple[Any, ...]:
    """Builds an op by its rule.

    Raises:
        UnsupportedError: no rule, or the rule does not support these arguments.
    """
    turns = call.node.op_type in TURNS and isinstance(call.items[0], Value) and call.items[0].ndim == 2
    if all(map(_is_known, call.items)) and not turns and not quantization.stays(call):
        return tuple(constant(call.graph, array) for array in host.computed(call))
    *before, last = call.traced.calls
    rule = RULES.get(last.op)
    if rule is None or before:
        raise UnsupportedError(f"{call.where}: no rule for it")
    made = rule(call, last.arguments)
    results = made if isinstance(made, tuple) else (made,)
    if not call.fits(results):
        raise UnsupportedError(f"{call.where}: its rule gives {results}, where {call.traced.results} was announced")
    return results


def _is_known(item: Any) -> bool:
    return item.is_constant if isinstance(item, Value) else isinstance(item, np.ndarray)


def constant(graph: Graph, array: Array, name: str | None = None) -> Array | Value:
    """Returns a known tensor: as an array if it is small, else as a constant over the same memory."""
    if not _is_few(array):
        reclaim.account(array, graph)
    return parameter(graph, lambda: array, name)


def parameter(graph: Graph, read: Callable[[], Array], name: str | None = None) -> Array | Value:
    """Returns a tensor of a model as `constant` does. `read` returns its elements, which the graph does not hold."""
    array = read()
    return np.array(array) if _is_few(array) else graph._keep(held(read), name)


def _is_few(array: Array) -> bool:
    return array.ndim <= 1 or array.nbytes <= _FEW_BYTES or not host.is_own(array)


def held(read: Callable[[], Array]) -> Constant:
    """Returns a constant that is read, and made row-major, when it is needed."""

    def make() -> Array:
        ordered = np.ascontiguousarray(read())
        ordered = ordered.view()
        ordered.flags.writeable = False
        return ordered

    like = read()
    return Constant(None, make, Meta(like.shape, like.dtype))
