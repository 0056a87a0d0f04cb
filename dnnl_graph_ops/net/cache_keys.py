"""Writes the cache keys of a net's packed weights as JSON for its file, and reads them.

A cache key in a file names constants by their number in the graph, as another process has other constants.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Hashable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtypes
from ..compile import pack_weights
from ..errors import InvalidArgumentError
from ..graph.constants import Constant
from ..passes.fold_affine import scaled
from ..passes.fold_branches import joined, with_diagonal
from ..passes.folding.taps import channels_constant, summed_constant
from ..passes.mixed_precision import PRECISIONS, converted

Array = np.ndarray[Any, Any]
# for each constant, the constant that it is derived from and how; or None and its number in the graph
Places = dict[Constant, tuple[Constant | None, Any]]

# an array whose cache key has more characters is not saved, but packed again after loading
_LONGEST = 1 << 18
# the most lists nested in a cache key that is read
_DEEPEST = 200
# most taps of summed weights on an axis, of which weights have at most so many
_MOST_TAPS, _SPATIAL = 1 << 12, 3


class _Strange(Exception):
    """Raised for a cache key that is valid in this process only."""


def of_arrays(arrays: Sequence[Array], constants: Sequence[Constant]) -> Iterator[tuple[Any, Array]]:
    """Yields (record, array) for each of the arrays that was packed from these constants; `read` takes the record."""
    places: Places = {}
    for number, constant in enumerate(constants):
        _place(constant, None, number, places)
    used = set(map(id, arrays))
    for cache_key, array in pack_weights.kept().items():
        if id(array) in used and array.size:
            try:
                found: list[bool] = []
                record = _written(cache_key, places, found)
            except _Strange:
                continue
            # a cache key of small constants alone contains their elements and names no constant: it is not saved
            if found and len(json.dumps(record)) <= _LONGEST:
                yield record, array


def _place(constant: Constant, source: Constant | None, how: Any, places: Places) -> None:
    places[constant] = source, how
    for derivation, other in constant.derivations().items():
        _place(other, constant, derivation, places)


def _written(item: Any, places: Places, found: list[bool]) -> Any:
    if isinstance(item, tuple):
        return [_written(part, places, found) for part in item]
    if isinstance(item, bytes):
        return {"bytes": base64.b64encode(item).decode()}
    if isinstance(item, Constant) and item in places:
        found.append(True)
        source, how = places[item]
        if source is None:
            return {"constant": how}
        return {"of": _written(source, places, found), "how": _written(how, places, found)}
    if isinstance(item, np.integer):
        return int(item)
    if item is None or type(item) in (bool, int, float, str):
        return item
    raise _Strange


def read(record: Any, constants: Sequence[Constant], where: str) -> tuple[Hashable, str, int]:
    """Returns the cache key of a file's record, and its array's dtype and number of elements; raises if damaged."""
    reader = _Reader(constants, f"{where}: a cache key of packed weights")
    cache_key = reader.read(record, 0)
    dtype, elements = pack_weights.meant(cache_key) or ("", 0)
    if not reader.found or dtype not in dtypes.CODES or type(elements) is not int:
        raise reader.wrong(record)
    return cache_key, dtype, elements


class _Reader:
    def __init__(self, constants: Sequence[Constant], where: str) -> None:
        self.constants, self.where, self.found = constants, where, False

    def wrong(self, item: Any) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self.where} is damaged: {str(item)[:60]}")

    def read(self, item: Any, depth: int) -> Hashable:
        if isinstance(item, list) and depth < _DEEPEST:
            return tuple(self.read(part, depth + 1) for part in item)
        if isinstance(item, dict):
            return self._bytes(item) if "bytes" in item else self._constant(item, depth)
        if item is None or type(item) in (bool, int, float, str):
            return item
        raise self.wrong(item)

    def _bytes(self, item: Any) -> bytes:
        try:
            return base64.b64decode(item["bytes"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise self.wrong(item) from None

    def _constant(self, item: Any, depth: int) -> Constant:
        if depth >= _DEEPEST:
            raise self.wrong(item)
        if "of" not in item:
            number = item.get("constant")
            if type(number) is not int or not 0 <= number < len(self.constants):
                raise self.wrong(item)
            self.found = True
            return self.constants[number]
        if not isinstance(item["of"], dict):
            raise self.wrong(item)
        constant = self._constant(item["of"], depth + 1)
        match self.read(item.get("how"), depth + 1):
            case ("scaled", tuple(shape), bytes(data)) if all(type(n) is int and n >= 0 for n in shape):
                alike = len(shape) == len(constant.shape) and all(
                    n in (1, m) for n, m in zip(shape, constant.shape, strict=True)
                )
                if alike and prod(shape) * 8 == len(data) and constant.dtype == np.float32:
                    return scaled(constant, np.frombuffer(data, np.float64).reshape(shape))
            case ("summed", tuple(axes), tuple(matrices)) if _are_sums(constant.shape, axes, matrices):
                return summed_constant(constant, axes, matrices)
            case ("channels", int(axis), tuple(ranges)) if _are_channels(constant.shape, axis, ranges):
                return channels_constant(constant, axis, ranges)
            case ("joined", Constant() as other, tuple(places)) if _are_places(constant.shape, other.shape, places):
                if constant.dtype == other.dtype == np.float32:
                    return joined(constant, other, places)
            case ("diagonal", bytes(data), (int(i), int(o)), tuple(places)) if len(data) % 8 == 0 and data:
                scale = np.frombuffer(data, np.float64)
                ones = tuple(len(scale) if axis == o else 1 for axis in range(len(constant.shape)))
                if {i, o} < set(range(len(ones))) and _are_places(constant.shape, ones, places):
                    return with_diagonal(constant, scale, (i, o), places)
            case ("converted", str(dtype)) if dtype in PRECISIONS and constant.dtype == np.float32:
                return converted(constant, dtype)
        raise self.wrong(item)


def _are_sums(shape: Sequence[int], axes: tuple[Any, ...], matrices: tuple[Any, ...]) -> bool:
    """Whether matrices of small numbers fit these axes, each of which is named once."""

    def fits(axis: Any, matrix: Any) -> bool:
        if type(axis) is not int or not 0 <= axis < len(shape) or type(matrix) is not tuple:
            return False
        rows = 0 < len(matrix) <= _MOST_TAPS and all(type(row) is tuple and len(row) == shape[axis] for row in matrix)
        return rows and all(type(n) in (int, float) and 0 <= n <= _MOST_TAPS for row in matrix for n in row)

    return len(set(axes)) == len(axes) == len(matrices) <= _SPATIAL and all(map(fits, axes, matrices))


def _are_channels(shape: Sequence[int], axis: int, ranges: tuple[Any, ...]) -> bool:
    """Whether ranges of an axis, each a pair of first and last, are there and follow each other."""
    if not 0 <= axis < len(shape):
        return False
    last = 0
    for pair in ranges:
        match pair:
            case (int(start), int(stop)) if last <= start < stop <= shape[axis]:
                last = stop
            case _:
                return False
    return True


def _are_places(shape: Sequence[int], other: Sequence[int], places: tuple[Any, ...]) -> bool:
    """Whether weights of the shape `other` lie at these places, pairs of the first and the step, of an array."""

    def fits(size: int, count: int, pair: Any) -> bool:
        match pair:
            case (int(begin), int(step)):
                return begin >= 0 and step > 0 and begin + (count - 1) * step < size
        return False

    return len(shape) == len(other) == len(places) and all(map(fits, shape, other, places))
