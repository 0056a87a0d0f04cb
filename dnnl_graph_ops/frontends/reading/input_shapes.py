"""Shapes that a user states for the inputs of a model: sizes of dims that the model leaves unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ...errors import InvalidArgumentError, ShapeError
from ...net.sizes import by_name, is_shape
from ...schema.arguments import int64, show
from ...words import counted
from .faults import check_size

Dims: TypeAlias = tuple[int | None, ...]
# a str is the name of an unknown dim
NamedDims: TypeAlias = tuple[int | str | None, ...]
# what users pass: {input name: shape} and {name of unknown dims: size}
InputShapes: TypeAlias = Mapping[str, Sequence[int | str | None] | int]


def fixed(shapes: Any, inputs: Mapping[str, NamedDims | None], where: str) -> dict[str, Dims]:
    """Returns the dims of the inputs that `shapes` states, or has sizes for.

    Args:
        shapes: {input name: shape} fixes or names unknown dims, None leaves one as it is; {name: size} fixes all
            unknown dims of a name.
        inputs: the dims of each input in the model; None: of unknown rank.
        where: the beginning of messages.

    Raises:
        TypeError: other types. ShapeError: a shape contradicts the model, or is impossible.
        InvalidArgumentError: the model has no input, and no unknown dim, of a name.
    """
    written = [item for item in shapes.values() if is_shape(item)] if isinstance(shapes, Mapping) else []
    names = sorted({dim for dims in (*inputs.values(), *written) for dim in _names(dims)} - inputs.keys())
    given = by_name(shapes, [*inputs, *names], where, "input or unknown dim" if names else "input")
    sizes = {name: int64(given[name], f"{where}: the dim {name!r}") for name in names if name in given}

    def filled(dims: NamedDims) -> NamedDims:
        return tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in dims)

    found: dict[str, Dims] = {}
    for name, declared in inputs.items():
        place, dims = f"{where}: input {name!r}", declared if declared is None else filled(declared)
        if name in given:
            dims = filled(_shape(given[name], declared, dims, place))
        if dims is not None:
            found[name] = tuple(None if isinstance(dim, str) else dim for dim in dims)
            check_size(found[name], 1, place)
    return found


def _names(dims: Iterable[Any] | None) -> Iterable[str]:
    return (dim for dim in dims or () if isinstance(dim, str))


def _shape(shape: Any, declared: NamedDims | None, dims: NamedDims | None, where: str) -> NamedDims:
    """Returns the declared dims with those of `shape` instead of unknown ones; `dims`: with sizes by name."""
    if not is_shape(shape):
        raise TypeError(f"{where}: a shape is a tuple of ints, and None for dims that stay unknown; got {show(shape)}")
    items = tuple(_dim(item, f"{where}: a dim of the shape {show(shape)}") for item in shape)
    if declared is None or dims is None:
        return items
    if len(items) != len(dims):
        raise ShapeError(
            f"{where}: the shape {items} has {counted(len(items), 'dim')}, in the model it has {len(dims)}: {dims}"
        )
    for axis, (known, dim, item) in enumerate(zip(declared, dims, items, strict=True)):
        if (isinstance(known, int) or isinstance(item, int)) and isinstance(dim, int) and dim != item:
            raise ShapeError(
                f"{where}: dim {axis} is {dim} in {dims}, and cannot become {item!r}: write {dim}, or export the model "
                "with this dim dynamic"
            )
    return tuple(dim if item is None else item for dim, item in zip(declared, items, strict=True))


def _dim(item: Any, where: str) -> int | str | None:
    if item == "":
        raise InvalidArgumentError(f"{where} has an empty name; write None")
    return item if item is None or isinstance(item, str) else int64(item, where)
