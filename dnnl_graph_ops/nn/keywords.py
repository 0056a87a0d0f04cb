"""Keywords of modules: PyTorch's names and the one-shot functions' names for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

import numpy as np

from ..errors import InvalidArgumentError
from ..ops.annotations import Written
from ..schema.arguments import bound, show, unexpected
from ..words import ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

Init = TypeVar("Init", bound=Callable[..., None])


class FunctionWords(TypedDict, total=False):
    """The one-shot functions' names for a module's stride, padding (both pads) and dilation."""

    strides: int | Sequence[int]
    pads_begin: int | Sequence[int]
    pads_end: int | Sequence[int]
    dilations: int | Sequence[int]


def both_spellings(init: Init) -> Init:
    """Returns an `__init__` that takes PyTorch's and the functions' keywords; its signature shows PyTorch's."""
    whole = signature(init).replace(return_annotation=None)
    parameters = [p.replace(annotation=Written(p.annotation)) for p in whole.parameters.values()]
    own, *shown = [p for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
    shape = whole.replace(parameters=shown)

    @wraps(init)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        where = type(self).__name__
        init(self, **bound(where, shape, args, in_words_of_pytorch(where, kwargs, shape.parameters)))

    call.__signature__ = whole.replace(parameters=[own.replace(annotation=Parameter.empty), *shown])  # type: ignore[attr-defined]
    return cast("Init", call)


def in_words_of_pytorch(where: str, given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Returns the keywords renamed to PyTorch's names, which are in `known`.

    Raises:
        TypeError: an unknown name, both names of one argument, or only one of the two pads.
        InvalidArgumentError: unequal pads at the begin and the end, which modules do not support.
    """
    result = {name: value for name, value in given.items() if name in known}
    for theirs, ours in ARGUMENTS.items():
        values = {name: given[name] for name in ours if name in given}
        if not values:
            continue
        first = next(iter(values))
        if theirs in result:
            raise TypeError(f"{where}: {theirs!r} and {first!r} say the same; give it once, as {theirs!r}")
        if len(values) < len(ours):
            raise TypeError(f"{where}: {first!r} pads one end of an axis, a module both alike; pass padding=")
        if not all(_alike(value, values[first]) for value in values.values()):
            texts = " and ".join(f"{name}={show(value)}" for name, value in values.items())
            raise InvalidArgumentError(f"{where}: pads both ends of an axis alike, got {texts}; use numpy.pad on src")
        result[theirs] = values[first]
    for name in given:
        if name not in known and not any(name in ours for ours in ARGUMENTS.values()):
            raise unexpected(where, name, known)
    return result


def _alike(one: Any, other: Any) -> bool:
    """Whether two values are equal on each axis: 1 and (1, 1) are."""
    try:
        first, second = np.broadcast_arrays(one, other)
    except ValueError:
        return False
    return np.array_equal(first, second)
