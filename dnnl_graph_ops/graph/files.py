"""Model files from a path: ordinary files of a bounded size, so that reading ends."""

from __future__ import annotations

from pathlib import Path

from ..errors import InvalidArgumentError


def read_file(path: Path, most: int, where: str) -> bytes:
    """The content of an ordinary file.

    Raises:
        FileNotFoundError, PermissionError: as `open` does.
        InvalidArgumentError: a folder, device or pipe, or more than `most` bytes.
    """
    size = path.stat().st_size
    if not path.is_file():
        raise InvalidArgumentError(f"{where}: {path} is not an ordinary file; pass the path of one")
    if size > most:
        raise InvalidArgumentError(f"{where}: {path} has {size} bytes; the most is {most}")
    with path.open("rb") as file:
        # it may have grown meanwhile
        return file.read(most)
