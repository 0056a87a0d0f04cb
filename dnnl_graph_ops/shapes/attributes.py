"""Typed attributes of the convolution ops: the record, its reading from keywords, and shapes from operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeAlias

from ..errors import InvalidArgumentError, ShapeError
from ..record import record
from ..schema import KEYWORDS, Keyword
from ..schema.arguments import INT32_MAX, int64, one_of
from ..words import counted

_KEYWORDS = KEYWORDS["conv_transpose"]
DATA_FORMATS = _KEYWORDS["data_format"].choices
# iterable, but without an order of values
_NO_SEQUENCE = (str, bytes, Mapping, set, frozenset)

Dim: TypeAlias = int | None
Dims: TypeAlias = tuple[Dim, ...]
Ints: TypeAlias = tuple[int, ...]


@record()
class WeightsShape:
    """The facts of a weights shape: numbers of channels, kernel size, and which grouped shape it is.

    `documented`: the grouped shape (IC/groups, OC) of the pages of ConvTranspose, not oneDNN's (IC, OC/groups).
    """

    in_channels: Dim
    out_channels: Dim
    kernel: Dims
    documented: bool = False


@record()
class Geometry:
    """A ConvTranspose problem with auto_pad resolved; sizes in elements, None where unknown.

    dst = strides * (src - 1) + dilations * (kernel - 1) + 1 - pads_begin - pads_end + output_padding

    An ordinary convolution is described as the transposed one with src and dst, and IC and OC, swapped.
    """

    batch: Dim
    groups: int
    in_channels: Dim
    out_channels: Dim
    src: Dims
    kernel: Dims
    dst: Dims
    strides: Ints
    pads_begin: Ints
    pads_end: Ints
    dilations: Ints
    output_padding: Ints

    @property
    def rank(self) -> int:
        return len(self.strides)


@record()
class Resolved:
    """The result shape, attributes and geometry of an op for operands of known shapes."""

    operands: tuple[Dims, ...]
    weights: WeightsShape
    result: Dims
    geometry: Geometry


# frozen, no record: users see it as the attributes of a node
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Attributes(Mapping[str, Any]):
    """Checked attributes of a convolution op, with a value for each spatial axis; a mapping of the op's attributes.

    `resolved` is not an attribute.
    """

    strides: Ints
    pads_begin: Ints
    pads_end: Ints
    dilations: Ints
    # empty: not an attribute of the op
    output_padding: Ints = ()
    auto_pad: str
    groups: int
    data_format: str
    weights_format: str
    # the shape of the result, under the op's name for it
    src_shape: Dims | None = None
    dst_shape: Dims | None = None
    weights_shape: Dims | None = None
    resolved: Resolved | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> Any:
        value = getattr(self, name) if name in _NAMES else None
        if value is None or value == ():
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return (name for name in _NAMES if getattr(self, name) not in (None, ()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def stated(self) -> tuple[Any, ...]:
        """Returns all attributes in order, as a key."""
        values: tuple[Any, ...] = _STATED(self)
        return values

    @property
    def known(self) -> Resolved:
        """Shapes and geometry for the operands, set by shape inference."""
        if self.resolved is None:
            raise RuntimeError("these attributes have not met any operands")
        return self.resolved

    @property
    def geometry(self) -> Geometry:
        """The problem of the op."""
        return self.known.geometry


_NAMES = tuple(name for name in Attributes.__dataclass_fields__ if name != "resolved")
_STATED = attrgetter(*_NAMES)


def integer(value: object, name: str, where: str, least: int | None = None) -> int:
    """Returns `value` as a Python int; raises TypeError if it is no integer, such as a bool."""
    number = int64(value, f"{where}: '{name}'")
    if least is not None and number < least:
        raise InvalidArgumentError(f"{where}: '{name}' must be at least {least}, got {number}")
    return number


def integers(value: object, name: str, where: str) -> tuple[int, ...]:
    """Returns a sequence or 1-D integer array as a tuple of ints."""
    if isinstance(value, _NO_SEQUENCE) or not hasattr(value, "__iter__"):
        raise TypeError(
            f"{where}: '{name}' must be a sequence of ints or a 1-D integer array, got {type(value).__name__}"
        )
    if getattr(value, "ndim", 1) != 1:
        raise ShapeError(f"{where}: '{name}' must have one axis, got an array of rank {value.ndim}")  # type: ignore[attr-defined]
    return tuple(integer(item, name, where) for item in value)


def per_axis(value: object, name: str, rank: int, minimum: int, where: str) -> tuple[int, ...]:
    """Returns a value for each spatial axis from an int or one int per axis, each from `minimum` to 2^31 - 1."""
    if type(value) is tuple and len(value) == rank and all(type(n) is int and minimum <= n <= INT32_MAX for n in value):
        return value
    many = hasattr(value, "__iter__") and not isinstance(value, _NO_SEQUENCE) and getattr(value, "ndim", 1) > 0
    values = integers(value, name, where) if many else (integer(value, name, where),) * rank
    if len(values) != rank:
        raise ShapeError(
            f"{where}: '{name}' has {counted(len(values), 'value')} {values}, but there are "
            f"{counted(rank, 'spatial axis')}; "
            f"pass one int, or one int per spatial axis"
        )
    for axis, item in enumerate(values):
        if not minimum <= item <= INT32_MAX:
            bound = f"at least {minimum}" if item < minimum else f"at most {INT32_MAX}"
            raise InvalidArgumentError(f"{where}: '{name}' must be {bound}, got {item} on spatial axis {axis}")
    return values


def choice(value: object, name: str, allowed: Sequence[str], where: str) -> str:
    """Returns the item of `allowed` that equals a string in any case."""
    return one_of(value, f"{where}: '{name}'", allowed)


def attributes(
    rank: int, where: str, values: Mapping[str, Any], keywords: Mapping[str, Keyword] = _KEYWORDS
) -> Attributes:
    """Checks the attributes of a problem with `rank` spatial axes; missing attributes get their defaults."""
    if not 1 <= rank <= 3:
        raise ShapeError(f"{where}: needs 1 to 3 spatial axes (arrays of rank 3 to 5), got rank {rank + 2}")
    for name in values:
        if name not in keywords:
            raise InvalidArgumentError(f"{where}: unknown attribute {name!r}; known are {', '.join(sorted(keywords))}")
    return Attributes(
        **{
            word.attribute: _checked(word, values.get(name, word.default), rank, where)
            for name, word in keywords.items()
        }
    )


def _checked(word: Keyword, given: Any, rank: int, where: str) -> Any:
    if word.type == "string":
        return choice(given, word.name, word.choices, where)
    if word.type == "s64[]":
        return per_axis(given, word.name, rank, word.least, where)
    return integer(given, word.name, where, word.least)
