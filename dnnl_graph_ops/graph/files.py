"""Opens model files: only ordinary files of a bounded size, so that reading ends."""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from ..errors import InvalidArgumentError

# bytes from which huge pages are requested, as in NumPy
_HUGE_BYTES = 4 << 20
_P = TypeVar("_P", bound="Pages")


def check_file(path: Path, most: int, where: str) -> None:
    """Checks that a path leads to an ordinary file.

    Raises:
        FileNotFoundError, PermissionError: as `open` does.
        InvalidArgumentError: a folder, device or pipe, or more than `most` bytes.
    """
    size = path.stat().st_size
    if not path.is_file():
        raise InvalidArgumentError(f"{where}: {path} is not an ordinary file; pass the path of one")
    if size > most:
        raise InvalidArgumentError(f"{where}: {path} has {size} bytes; the most is {most}")


def read_file(path: Path, most: int, where: str) -> bytes:
    """Returns the content of an ordinary file; raises as `check_file` does."""
    check_file(path, most, where)
    with path.open("rb") as file:
        # the file may have grown meanwhile
        return file.read(most)


class Pages(mmap.mmap):
    """Anonymous memory that is written once, and that goes back to the system when it is freed."""


class Piece(Pages):
    """Part of a file."""

    file: ModelFile
    offset: int


def adjacent(kind: type[_P], sizes: Sequence[int]) -> list[_P]:
    """Returns pages of so many bytes each, which are written in a third of the time where they share huge pages.

    The system places what is mapped at once side by side; each is freed by itself all the same.
    """
    huge, flags = sum(sizes) >= _HUGE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    # all small pages at once take less time than one by one as they are written
    every = [kind(-1, nbytes, flags=flags if huge else flags | mmap.MAP_POPULATE) for nbytes in sizes]
    if huge:
        # some systems have none
        with contextlib.suppress(OSError):
            for pages in every:
                pages.madvise(mmap.MADV_HUGEPAGE)
    return every


class Mapped(mmap.mmap):
    """A file mapped read-only: pages are read at their first use and shared between processes."""


class ModelFile:
    """A file that stays open, so that its parts can be read again even if its name leads to another file by then.

    Raises:
        FileNotFoundError, PermissionError: as `open` does. InvalidArgumentError: as `check_file` does.
    """

    def __init__(self, path: Path, most: int, where: str) -> None:
        check_file(path, most, where)
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self.descriptor)
        self._state = self._seen()

    @property
    def size(self) -> int:
        return self._state[0]

    def _seen(self) -> tuple[int, int]:
        status = os.fstat(self.descriptor)
        return status.st_size, status.st_mtime_ns

    def piece(self, offset: int, nbytes: int) -> Piece:
        """Returns a range of the file; raises as `pieces` does."""
        return self.pieces([(offset, nbytes)])[0]

    def pieces(self, ranges: Sequence[tuple[int, int]]) -> list[Piece]:
        """Returns ranges of the file, by offset and number of bytes.

        Raises:
            InvalidArgumentError: the file was changed since it was opened.
        """
        pieces = adjacent(Piece, [nbytes for _, nbytes in ranges])
        whole = True
        for piece, (offset, nbytes) in zip(pieces, ranges, strict=True):
            piece.file, piece.offset = self, offset
            done = 0
            with memoryview(piece) as room:
                while done < nbytes and (got := os.preadv(self.descriptor, [room[done:]], offset + done)):
                    done += got
            whole &= done == nbytes
        if not whole or self._seen() != self._state:
            raise InvalidArgumentError(
                f"{self.path} was written to after a graph was read from it, and constants that the graph no longer "
                "holds are needed again; read the graph again, or write a model to a new file and rename this file"
            )
        return pieces
