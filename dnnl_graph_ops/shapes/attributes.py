"""The convolution families' typed attributes: the record, what operands add to it, and how it is read from keywords."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..errors import InvalidArgumentError, ShapeError
from ..schema import KEYWORDS, Keyword
from ..schema.arguments import INT32_MAX, int64, one_of

_KEYWORDS = KEYWORDS["conv_transpose"]
DATA_FORMATS = _KEYWORDS["data_format"].choices
# iterable, but not values in an order
_NO_SEQUENCE = (str, bytes, Mapping, set, frozenset)

Dim: TypeAlias = int | None
Dims: TypeAlias = tuple[Dim, ...]
Ints: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WeightsShape:
    """What a weights shape says: totals of the channels, the kernel, and which of two grouped shapes it is.

    `documented`: the shape that the pages of ConvTranspose print, (IC/groups, OC), not the library's own.
    """

    in_channels: Dim
    out_channels: Dim
    kernel: Dims
    documented: bool = False


@dataclass(frozen=True, slots=True)
class Geometry:
    """One ConvTranspose problem with auto_pad resolved; sizes in elements, None where unknown.

    dst = strides * (src - 1) + dilations * (kernel - 1) + 1 - pads_begin - pads_end + output_padding

    Of an ordinary convolution: the transposed one with the roles of src and dst, and of the channels, exchanged.
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


@dataclass(frozen=True, slots=True)
class Resolved:
    """What operands of these shapes make of an op."""

    operands: tuple[Dims, ...]
    weights: WeightsShape
    result: Dims
    geometry: Geometry


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Attributes(Mapping[str, Any]):
    """The checked attributes of an op of the convolution families, one value for each spatial axis.

    A mapping of those that the op has; `resolved` is none of them.
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
    # the shape of the result, by the name that the op has for it
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
    def known(self) -> Resolved:
        """What the operands' shapes say; attributes that inference has returned have it."""
        if self.resolved is None:
            raise RuntimeError("these attributes have not met any operands")
        return self.resolved

    @property
    def geometry(self) -> Geometry:
        """The problem that the op solves."""
        return self.known.geometry


_NAMES = tuple(name for name in Attributes.__dataclass_fields__ if name != "resolved")


def integer(value: object, name: str, where: str, least: int | None = None) -> int:
    """`value` as a Python int; TypeError for anything that is not an integer (bool included)."""
    number = int64(value, f"{where}: '{name}'")
    if least is not None and number < least:
        raise InvalidArgumentError(f"{where}: '{name}' must be at least {least}, got {number}")
    return number


def integers(value: object, name: str, where: str) -> tuple[int, ...]:
    """A sequence or 1-D integer array as a tuple of ints."""
    if isinstance(value, _NO_SEQUENCE) or not hasattr(value, "__iter__"):
        raise TypeError(
            f"{where}: '{name}' must be a sequence of ints or a 1-D integer array, got {type(value).__name__}"
        )
    if getattr(value, "ndim", 1) != 1:
        raise ShapeError(f"{where}: '{name}' must have one axis, got an array of rank {value.ndim}")  # type: ignore[attr-defined]
    return tuple(integer(item, name, where) for item in value)


def per_axis(value: object, name: str, rank: int, minimum: int, where: str) -> tuple[int, ...]:
    """An int for all axes, or one int per spatial axis, each from `minimum` to 2^31 - 1."""
    if type(value) is tuple and len(value) == rank and all(type(n) is int and minimum <= n <= INT32_MAX for n in value):
        return value
    many = hasattr(value, "__iter__") and not isinstance(value, _NO_SEQUENCE) and getattr(value, "ndim", 1) > 0
    values = integers(value, name, where) if many else (integer(value, name, where),) * rank
    if len(values) != rank:
        raise ShapeError(
            f"{where}: '{name}' has {len(values)} values {values}, but there are {rank} spatial axes; "
            f"pass one int, or one int per spatial axis"
        )
    for axis, item in enumerate(values):
        if not minimum <= item <= INT32_MAX:
            bound = f"at least {minimum}" if item < minimum else f"at most {INT32_MAX}"
            raise InvalidArgumentError(f"{where}: '{name}' must be {bound}, got {item} on spatial axis {axis}")
    return values


def choice(value: object, name: str, allowed: Sequence[str], where: str) -> str:
    """One of `allowed`, in any case."""
    return one_of(value, f"{where}: '{name}'", allowed)


def attributes(
    rank: int, where: str, values: Mapping[str, Any], keywords: Mapping[str, Keyword] = _KEYWORDS
) -> Attributes:
    """Check the attributes of a problem with `rank` spatial axes; missing ones take the documented default."""
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
