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
        data = 0
        for field in _fields(stream, end):
            followed = field.kind == _BYTES and field.number == _ROUTE[depth]
            if followed and depth < len(_ROUTE) - 1:
                stream.seek(field.begin)
                inner = self.copied(stream, field.stop, depth + 1)
                parts += [_varint(field.number << 3 | field.kind), _varint(len(inner)), inner]
                self.initializers += depth == 1
                continue
            data += followed
            if followed and field.stop - field.begin >= LARGE_BYTES:
                self.large[self.initializers] = Stretch(field.begin, field.stop - field.begin)
                continue
            stream.seek(field.start)
            parts.append(stream.read(field.stop - field.start))
        if data > 1:
            raise ValueError("raw data more than once")
        return b"".join(parts)


def _fields(stream: BinaryIO, end: int) -> Iterator[_Field]:
    start = stream.tell()
    while start < end:
        key = _read_varint(stream)
        kind = key & 7
        if kind == _VARINT:
            _read_varint(stream)
            length = 0
        elif kind == _BYTES:
            length = _read_varint(stream)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError(f"a field of kind {kind}")
        begin = stream.tell()
        if begin + length > end:
            raise ValueError("a field behind the end")
        yield _Field(key >> 3, kind, start, begin, begin + length)
        start = begin + length
        stream.seek(start)


def _read_varint(stream: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            break
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value
    raise ValueError("a number without end")


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
