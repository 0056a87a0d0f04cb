"""Model files from a path: ordinary files of a bounded size, so that reading ends."""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from pathlib import Path

from ..errors import InvalidArgumentError

# NumPy asks for huge pages from here on, too
_HUGE_BYTES = 4 << 20


def check_file(path: Path, most: int, where: str) -> None:
    """That a path is one of an ordinary file.

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
    """The content of an ordinary file; raises as `check_file` does."""
    check_file(path, most, where)
    with path.open("rb") as file:
        # it may have grown meanwhile
        return file.read(most)


class Pages(mmap.mmap):
    """Memory of its own, which nobody writes once it is filled, and which goes back to the system once it is free."""


class Piece(Pages):
    """Part of a file."""

    file: ModelFile
    offset: int


class Mapped(mmap.mmap):
    """A file as it lies, for reading only: its pages are read when they are wanted, and shared by processes."""


class ModelFile:
    """A file that stays open, so that its parts can be read again even if its name has been given to another.

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
        """Bytes of the file.

        Raises:
            InvalidArgumentError: it was written to since it was opened.
        """
        piece = Piece(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        piece.file, piece.offset = self, offset
        if nbytes >= _HUGE_BYTES:
            # some systems have none
            with contextlib.suppress(OSError):
                piece.madvise(mmap.MADV_HUGEPAGE)
        done = 0
        with memoryview(piece) as room:
            while done < nbytes:
                got = os.preadv(self.descriptor, [room[done:]], offset + done)
                if not got:
                    break
                done += got
        if done < nbytes or self._seen() != self._state:
            raise InvalidArgumentError(
                f"{self.path} was written to after a graph was read from it, and constants that the graph no longer "
                "holds are needed again; read the graph anew, or write models to a new file and rename that"
            )
        return piece
