"""Writes and maps files of arrays with a JSON header that describes them.

A file begins with 32 bytes: a magic number, the format's number, and the header's checksum, offset and size. Arrays
follow, then the header. A file contains no code, and every field is checked before it is used.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from .. import dtypes, words
from ..errors import InvalidArgumentError, UnsupportedError
from .files import Mapped, Pages, check_file

Array = np.ndarray[Any, Any]
T = TypeVar("T")

MAGIC = b"dgo net\n"
# The format's number: raise it by one whenever the meaning of the header changes.
FORMAT = 2
MAX_HEADER = 1 << 24
MAX_BYTES = 1 << 44
# magic, format, checksum of the header, its offset and size
_START = struct.Struct("<8sIIQQ")
# alignment: of vectors and cache lines; of pages for large arrays, so that unread arrays share no page with read ones
_ALIGNMENT, _PAGE = 64, 4096


def write(path: Path, header: Mapping[str, Any], arrays: Iterable[Array]) -> None:
    """Writes the header and its arrays; replaces an existing file when the new one is complete.

    Raises:
        OSError: the file cannot be written. UnsupportedError: the header is too large to be read again.
        InvalidArgumentError: a device, pipe or socket, which a file would replace.
    """
    # replace the target of a symbolic link, not the link
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InvalidArgumentError(
            f"Net.save: {path} is a device, pipe or socket, which a file would replace; give the path of a file"
        )
    made = path.with_name(f".{path.name[:200]}.{os.urandom(6).hex()}")
    try:
        with made.open("xb") as file:
            write_to(file, header, arrays, str(path))
        made.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            made.unlink(missing_ok=True)
        raise


def write_to(file: BinaryIO, header: Mapping[str, Any], arrays: Iterable[Array], name: str) -> None:
    """Writes the header and its arrays to an open, empty file; `name` is for messages."""
    file.write(bytes(_START.size))
    places = []
    for array in arrays:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""
        step = _PAGE if len(data) >= _PAGE else _ALIGNMENT
        file.write(bytes(-file.tell() % step))
        places.append((file.tell(), len(data), zlib.crc32(data)))
        file.write(data)
    text = json.dumps({**header, "arrays": places}, separators=(",", ":")).encode()
    if len(text) > MAX_HEADER:
        raise UnsupportedError(f"{name}: a net whose description has {len(text)} bytes; at most {MAX_HEADER}")
    start = _START.pack(MAGIC, FORMAT, zlib.crc32(text), file.tell(), len(text))
    file.write(text)
    file.seek(0)
    file.write(start)


def is_array_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as `write` begins it; False also for what is no file, or cannot be read."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class ArrayFile:
    """A mapped file, or its bytes: the `header`, and the arrays by number as views of the mapping.

    Raises:
        FileNotFoundError, PermissionError: as `open` does.
        InvalidArgumentError: another kind of file, another format, or a damaged file.
    """

    def __init__(self, source: Path | bytes, where: str) -> None:
        self._where, self.path = where, "a pickled net" if isinstance(source, bytes) else source
        size, self._mapped = _mapped(source, where)
        start = self._mapped[: _START.size]
        if len(start) < _START.size or start[: len(MAGIC)] != MAGIC:
            hint = words.of_file(self.path, ".net")
            raise InvalidArgumentError(f"{where}: {self.path} was not written by Net.save{hint}")
        _, number, checksum, offset, length = _START.unpack(start)
        if number != FORMAT:
            raise InvalidArgumentError(
                f"{where}: {self.path} has the format {number}, this version reads {FORMAT}; save the net again"
            )
        if offset < _START.size or offset + length != size or length > MAX_HEADER:
            raise InvalidArgumentError(f"{where}: {self.path} of {size} bytes is damaged: it ends elsewhere")
        text = self._mapped[offset:]
        if zlib.crc32(text) != checksum:
            raise self.damaged("its header was changed")
        self.header = self._parsed(text)
        places = field(self.header, "arrays", list, str(self.damaged("arrays")))
        self._places = [self._checked(item, offset) for item in places]

    def damaged(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self._where}: {self.path} is damaged: {what}")

    def _parsed(self, text: bytes) -> Any:
        try:
            header = json.loads(text)
            if b"\\ud" in text.lower():
                # a lone surrogate, which no native name may have
                json.dumps(header, ensure_ascii=False).encode()
            return header
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"its header is no JSON: {str(error)[:200]}") from None

    def _checked(self, item: Any, end: int) -> tuple[int, int, int]:
        if isinstance(item, list) and len(item) == 3 and all(type(number) is int for number in item):
            offset, nbytes, checksum = item
            if _START.size <= offset and not offset % _ALIGNMENT and nbytes >= 0 and offset + nbytes <= end:
                return offset, nbytes, checksum
        raise self.damaged(f"an array {str(item)[:60]} that does not lie in it")

    def __len__(self) -> int:
        return len(self._places)

    def array(self, number: int, dtype: str, shape: tuple[int, ...]) -> Array:
        """Returns an array as a view of the mapping, without reading its elements.

        Raises:
            InvalidArgumentError: the file has no such array, or its size differs.
        """
        if dtype not in dtypes.CODES:
            raise self.damaged(f"a dtype {dtype[:60]!r}")
        kind = dtypes.numpy_dtype(dtype)
        elements = 1
        for size in shape:
            elements *= size
        if not 0 <= number < len(self._places) or self._places[number][1] != elements * kind.itemsize:
            raise self.damaged(f"no array {number} of shape {str(shape)[:60]} and dtype {dtype}")
        if not elements:
            return np.empty(shape, kind)
        flat = np.frombuffer(self._mapped, np.uint8, elements * kind.itemsize, self._places[number][0])
        flat.flags.writeable = False
        if dtype == "boolean" and flat.max() > 1:
            raise self.damaged(f"array {number} holds booleans that are neither true nor false")
        return flat.view(kind).reshape(shape)

    def verify(self) -> None:
        """Reads the whole file and compares it with its checksums.

        Raises:
            InvalidArgumentError: a byte was changed since the file was written.
        """
        with memoryview(self._mapped) as data:
            for number, (offset, nbytes, checksum) in enumerate(self._places):
                if zlib.crc32(data[offset : offset + nbytes]) != checksum:
                    raise self.damaged(f"array {number} was changed")


def _mapped(source: Path | bytes, where: str) -> tuple[int, Any]:
    """Returns the size of a file, and the mapping of its bytes."""
    if isinstance(source, bytes):
        pages = Pages(-1, len(source) or 1)
        pages.write(source)
        return len(source), pages
    check_file(source, MAX_BYTES, where)
    with source.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return size, Mapped(file.fileno(), size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) if size else b""


def numbering(arrays: list[Array], first: int = 0) -> Callable[[Array], int]:
    """Appends arrays to a list, equal memory once, and returns the arrays' numbers, counted from `first`."""
    places: dict[Any, int] = {}

    def keep(array: Array) -> int:
        key = array.ctypes.data, array.dtype, array.shape, array.strides
        if key not in places:
            places[key] = first + len(arrays)
            arrays.append(array)
        return places[key]

    return keep


def field(record: Any, name: str, kind: type[T], where: str) -> T:
    """Returns the field of a JSON object.

    Raises:
        InvalidArgumentError: no object, no such field, or a field of another type.
    """
    value = record.get(name) if isinstance(record, dict) else None
    # bool is an int to isinstance
    if type(value) is not kind:
        raise InvalidArgumentError(f"{where}: needs {name!r}, which is a {kind.__name__}, got {str(value)[:60]!r}")
    return value


def sizes(value: Any, where: str) -> tuple[int, ...]:
    """Returns a checked list of ints of at least 0 and at most 64 bits.

    Raises:
        InvalidArgumentError: anything else.
    """
    if not isinstance(value, list) or not all(type(item) is int and 0 <= item < 1 << 63 for item in value):
        raise InvalidArgumentError(f"{where}: needs a list of sizes, got {str(value)[:60]!r}")
    return tuple(value)
