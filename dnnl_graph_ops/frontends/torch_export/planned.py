"""The strides that PyTorch plans for the results of a captured graph, which their readers may rely on."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ...errors import UnsupportedError

if TYPE_CHECKING:
    from torch import SymInt, Tensor, fx


def hinted(dims: Sequence[int | SymInt]) -> tuple[int, ...]:
    """Returns sizes or strides as ints; dynamic ones have their values at the capture."""
    return tuple(dim if isinstance(dim, int) else int(dim.node.hint) for dim in dims)


def order_of(fake: Tensor) -> tuple[int, ...] | None:
    """Returns the axes of a dense tensor from the slowest to the fastest; None if the tensor is not dense."""
    shape, strides = hinted(fake.shape), hinted(fake.stride())
    (nbytes,) = hinted([fake.untyped_storage().nbytes()])
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    expected = 1
    for axis in reversed(order):
        # a size of 1 at the capture may be 2 at the next call, and windows overlap then
        is_one = isinstance(fake.shape[axis], int) and shape[axis] == 1
        if not is_one and strides[axis] != expected and 0 not in shape:
            return None
        expected *= shape[axis]
    return tuple(order) if nbytes <= expected * fake.element_size() else None


def base_of(result: fx.Node, may_vary: bool = False) -> tuple[fx.Node, tuple[fx.Node, ...]]:
    """Returns the node whose memory a result views, and the views from the node to the result, for PyTorch to run.

    may_vary: whether arguments of the views may be numbers computed from the graph's arguments.

    Raises:
        UnsupportedError: a view of other arguments.
    """
    views: list[fx.Node] = []
    node = result
    while node.op != "placeholder" and not _is_dense(node):
        source = _source_of(node, may_vary)
        if source is None:
            raise UnsupportedError(f"torch node {node.name!r} ({node.target}): PyTorch plans its result with gaps")
        views.append(node)
        node = source
    return node, tuple(reversed(views))


def root_of(result: fx.Node) -> tuple[fx.Node, tuple[fx.Node, ...]]:
    """Returns the argument or the dense node that owns a result's memory, and the views from there to the result.

    Returns the result itself, without views, where PyTorch cannot repeat the views.
    """
    views: list[fx.Node] = []
    node: fx.Node | None = result
    while node is not None and node.op != "placeholder":
        source = _source_of(node, may_vary=True)
        if source is None:
            break
        views.append(node)
        node = source
    if node is None or not _is_dense(node):
        return result, ()
    return node, tuple(reversed(views))


def _is_dense(node: fx.Node) -> bool:
    return not isinstance(node.meta["val"], tuple | list) and order_of(node.meta["val"]) is not None


def _source_of(node: fx.Node, may_vary: bool) -> fx.Node | None:
    """Returns the node that a node is a view, or a part, of; None if it is none that PyTorch can repeat."""
    schema = getattr(node.target, "_schema", None)
    source: Any = node.args[0] if node.args else None
    is_part = node.target is operator.getitem
    is_view = is_part or (schema is not None and len(schema.returns) == 1 and schema.returns[0].alias_info is not None)
    others = [one for one in node.all_input_nodes if one is not source]
    is_told = all(may_vary and _is_told(one) for one in others)
    return source if is_view and hasattr(source, "all_input_nodes") and is_told else None


def _is_told(node: fx.Node) -> bool:
    """Whether a number is an argument of the graph, or is computed from sizes of arguments."""
    from torch import SymInt

    val = node.meta.get("val")
    if node.op == "placeholder" or not isinstance(val, SymInt):
        return node.op == "placeholder"
    arguments = {one: one.meta.get("val") for one in node.graph.nodes if one.op == "placeholder"}
    return val.node.expr.free_symbols <= _symbols(arguments).keys()


def _symbols(arguments: Mapping[fx.Node, Any]) -> dict[Any, Any]:
    """Returns the values of symbolic sizes for these arguments."""
    from torch import SymInt, Tensor

    sizes: dict[Any, Any] = {}
    for node, value in arguments.items():
        val = node.meta.get("val")
        pairs = zip(val.shape, value.shape, strict=True) if isinstance(val, Tensor) else [(val, value)]
        sizes |= {dim.node.expr: size for dim, size in pairs if isinstance(dim, SymInt) and dim.node.expr.is_Symbol}
    return sizes


def viewed(tensor: Any, views: Sequence[fx.Node], arguments: Mapping[fx.Node, Any]) -> Any:
    """Applies views to a tensor, with numbers computed from the graph's arguments."""
    from torch.fx.node import map_arg

    @cache
    def sizes() -> dict[Any, Any]:
        return _symbols(arguments)

    def number(node: fx.Node) -> Any:
        return arguments[node] if node in arguments else int(node.meta["val"].node.expr.xreplace(sizes()))

    for node in views:
        given = map_arg((node.args[1:], node.kwargs), number)
        tensor = node.target(tensor, *given[0], **given[1])  # type: ignore[operator]
    return tensor
