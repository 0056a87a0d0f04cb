"""Small JSON files in the user's cache directory: bounded when read, replaced at once when written."""

from __future__ import annotations

import json
import os
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

# bytes; larger files are refused
LARGEST_FILE = 1 << 16
_DECODER = json.JSONDecoder()
T = TypeVar("T")


def folder(subject: str) -> Path:
    """The folder of a subject, below dnnl_graph_ops in the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "dnnl_graph_ops" / subject


def read(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        OSError: no such file. ValueError, RecursionError: no regular file, too large, or no JSON.
    """
    return json.loads(text(path))


def item(content: str, name: str) -> Any:
    """Returns the value of a key of the outermost object in the text of a JSON file, and parses nothing else.

    Returns None if the object lacks the key. Keys are written as `json` writes them, and strings contain no braces.

    Raises:
        ValueError, RecursionError: no JSON.
    """
    key = f"{json.dumps(name)}: "
    place = content.find(key)
    while place >= 0 and content.count("{", 0, place) - content.count("}", 0, place) != 1:
        place = content.find(key, place + 1)
    return _DECODER.raw_decode(content, place + len(key))[0] if place >= 0 else None


def first(paths: Iterable[Path], parse: Callable[[Path], T | None], subject: str) -> T | None:
    """Returns the first result of `parse` for these paths that is not None; None if there is none.

    Missing files are skipped, and damaged ones with a RuntimeWarning about their `subject`.
    """
    for path in paths:
        try:
            content = parse(path)
        except OSError:
            continue
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            warnings.warn(f"the {subject} in {path} are damaged and are ignored", RuntimeWarning, stacklevel=3)
        else:
            if content is not None:
                return content
    return None


def text(path: Path) -> str:
    """The text of a small file; raises as `read` does."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is no regular file")
    with path.open("rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ValueError(f"{path} has more than {LARGEST_FILE} bytes")
    return data.decode("utf-8")


def write(path: Path, text: str) -> None:
    """Write a temporary file and rename it, so that nobody reads half a file. Raises OSError."""
    _place(path, text, os.replace)


def write_first(path: Path, text: str) -> None:
    """Write a file that is not there yet; one that another process wrote before stays. Raises OSError."""
    with suppress(FileExistsError):
        _place(path, text, os.link)


def _place(path: Path, text: str, place: Callable[[str, Path], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".new", delete=False, encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
            place(file.name, path)
        finally:
            Path(file.name).unlink(missing_ok=True)
