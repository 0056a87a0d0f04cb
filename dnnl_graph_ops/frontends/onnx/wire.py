"""Reads a model's bytes without its large initializers, which protobuf would copy, and which stay in the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from ...graph.files import ModelFile

# bytes of raw data from which it stays in the file
LARGE_BYTES = 1 << 14
# files of fewer bytes are read as a whole
_WHOLE_BYTES = 1 << 16
# field numbers of ModelProto.graph, GraphProto.initializer, TensorProto.raw_data
_ROUTE = (7, 5, 9)
# wire types of fields
_VARINT, _LONG, _BYTES, _INT = 0, 1, 2, 5
_FIXED = {_LONG: 8, _INT: 4}
# the most bytes of a number, and of a field's key and length
_MOST_DIGITS = 10
_MOST_HEAD = 2 * _MOST_DIGITS
_BLOCK = 1 << 12  # bytes that are read at once to find fields


class Stretch(NamedTuple):
    """A range of bytes in the file."""

    offset: int
    nbytes: int


def without_large(file: ModelFile) -> tuple[bytes, dict[int, Stretch]]:
    """Returns the model without large raw data, and the ranges of the data by the initializer's number.

    Raises:
        ValueError: no protobuf message, or an initializer with its data more than once.
    """
    walk = _Walk(file.descriptor)
    if file.size < _WHOLE_BYTES:
        return walk.read(0, file.size), {}
    return b"".join(walk.copied(0, file.size, 0)), walk.large


class _Walk:
    def __init__(self, descriptor: int) -> None:
        self.large: dict[int, Stretch] = {}
        self.initializers = 0
        self._descriptor = descriptor
        # part of the file, and its offset
        self._block, self._offset = b"", 0

    def copied(self, first: int, end: int, depth: int) -> list[bytes]:
        """Returns a message without large data, in parts; `first`: where the fields begin that were not copied yet."""
        parts: list[bytes] = []
        data = 0
        for number, kind, start, begin, stop in self._fields(first, end):
            if kind != _BYTES or number != _ROUTE[depth]:
                continue
            if depth == 1 and stop - begin < LARGE_BYTES:
                # an initializer without large data
                self.initializers += 1
                continue
            if depth < len(_ROUTE) - 1:
                inner = self.copied(begin, stop, depth + 1)
                length = sum(map(len, inner))
                parts += [self.read(first, start), _varint(number << 3 | kind), _varint(length), *inner]
                self.initializers += depth == 1
                first = stop
                continue
            data += 1
            if stop - begin >= LARGE_BYTES:
                self.large[self.initializers] = Stretch(begin, stop - begin)
                parts.append(self.read(first, start))
                first = stop
        parts.append(self.read(first, end))
        if data > 1:
            raise ValueError("raw data more than once")
        return parts

    def _fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Yields each field's number and kind, and where it, its data and the next field begin."""
        while start < end:
            block, at = self._head(start)
            # most fields have a key of one byte and a length of one or two
            if at + 3 <= len(block) and block[at] < 128 and block[at] & 7 == _BYTES and block[at + 2] < 128:
                key, length, after = block[at], block[at + 1], at + 2
                if length > 127:
                    length, after = length & 127 | block[at + 2] << 7, at + 3
            else:
                key, length, after = _read_head(block, at)
            begin = start + after - at
            stop = begin + length
            if stop > end:
                raise ValueError("a field beyond the end")
            yield key >> 3, key & 7, start, begin, stop
            start = stop

    def _head(self, start: int) -> tuple[bytes, int]:
        """Returns a block of the file, and where a field's head lies in it, as a whole unless the file ends before."""
        at = start - self._offset
        if not 0 <= at <= len(self._block) - _MOST_HEAD:
            self._block, self._offset, at = os.pread(self._descriptor, _BLOCK, start), start, 0
        return self._block, at

    def read(self, start: int, stop: int) -> bytes:
        """Returns a range of the file, which is shorter if the file ends before."""
        parts = []
        while start < stop and (part := os.pread(self._descriptor, stop - start, start)):
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Returns a field's key and number of bytes after its head, and the position after the head; a varint is part of
    the head.
    """
    key, after = _read_varint(data, at)
    kind = key & 7
    if kind == _VARINT:
        return key, 0, _read_varint(data, after)[1]
    if kind == _BYTES:
        return key, *_read_varint(data, after)
    if kind not in _FIXED:
        raise ValueError(f"a field of kind {kind}")
    return key, _FIXED[kind], after


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number at a position, and the position after it."""
    if at < len(data) and data[at] < 128:
        return data[at], at + 1
    value = 0
    for shift, byte in enumerate(data[at : at + _MOST_DIGITS]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, at + shift + 1
    raise ValueError("a number without end")


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
