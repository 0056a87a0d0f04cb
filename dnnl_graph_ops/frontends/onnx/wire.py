"""Reads a model's bytes without its large initializers, which protobuf would copy, and which stay in the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from ...graph.files import ModelFile

# bytes of raw data from which it stays in the file
LARGE_BYTES = 1 << 16
# field numbers of ModelProto.graph, GraphProto.initializer, TensorProto.raw_data
_ROUTE = (7, 5, 9)
# wire types of fields
_VARINT, _LONG, _BYTES, _INT = 0, 1, 2, 5
_FIXED = {_LONG: 8, _INT: 4}
# the most bytes of a number, and of a field's key and length
_MOST_DIGITS = 10
_MOST_HEAD = 2 * _MOST_DIGITS


class Stretch(NamedTuple):
    """A range of bytes in the file."""

    offset: int
    nbytes: int


class _Field(NamedTuple):
    number: int
    kind: int
    start: int
    begin: int
    stop: int


def without_large(file: ModelFile) -> tuple[bytes, dict[int, Stretch]]:
    """Returns the model without large raw data, and the ranges of the data by the initializer's number.

    Raises:
        ValueError: no protobuf message, or an initializer with its data more than once.
    """
    walk = _Walk()
    with os.fdopen(os.dup(file.descriptor), "rb") as stream:
        stream.seek(0)
        return walk.copied(stream, file.size, 0), walk.large


class _Walk:
    def __init__(self) -> None:
        self.large: dict[int, Stretch] = {}
        self.initializers = 0

    def copied(self, stream: BinaryIO, end: int, depth: int) -> bytes:
        parts = []
        # where the fields begin that were not copied yet
        data, first = 0, stream.tell()

        def copy(stop: int) -> None:
            if first < stop:
                stream.seek(first)
                parts.append(stream.read(stop - first))

        for field in _fields(stream, end):
            if field.kind != _BYTES or field.number != _ROUTE[depth]:
                continue
            if depth == 1 and field.stop - field.begin < LARGE_BYTES:
                # an initializer without large data
                self.initializers += 1
                continue
            if depth < len(_ROUTE) - 1:
                copy(field.start)
                stream.seek(field.begin)
                inner = self.copied(stream, field.stop, depth + 1)
                parts += [_varint(field.number << 3 | field.kind), _varint(len(inner)), inner]
                self.initializers += depth == 1
                first = field.stop
                continue
            data += 1
            if field.stop - field.begin >= LARGE_BYTES:
                self.large[self.initializers] = Stretch(field.begin, field.stop - field.begin)
                copy(field.start)
                first = field.stop
        copy(end)
        if data > 1:
            raise ValueError("raw data more than once")
        return b"".join(parts)


def _fields(stream: BinaryIO, end: int) -> Iterator[_Field]:
    start = stream.tell()
    while start < end:
        stream.seek(start)
        head = stream.read(_MOST_HEAD)
        key, at = _read_varint(head, 0)
        kind, length = key & 7, 0
        if kind == _VARINT:
            _, at = _read_varint(head, at)
        elif kind == _BYTES:
            length, at = _read_varint(head, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError(f"a field of kind {kind}")
        begin = start + at
        if begin + length > end:
            raise ValueError("a field beyond the end")
        yield _Field(key >> 3, kind, start, begin, begin + length)
        start = begin + length


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
