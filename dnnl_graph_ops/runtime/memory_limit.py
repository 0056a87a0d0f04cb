"""The memory that this process may use: the machine's, or the limit of its control groups."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# by the type of the mount: the file with the limit in every group, and the controller that a line of `cgroup` names
_FILES = {"cgroup": ("memory.limit_in_bytes", "memory"), "cgroup2": ("memory.max", "")}


def memory_limit(proc: Path = Path("/proc/self")) -> int:
    """The limit in bytes. A group without a limit has its parent's."""
    return min((os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"), *_groups(proc)))


@functools.cache
def process_limit() -> int:
    """The limit of this process, read once: reading some 30 files takes a millisecond."""
    return memory_limit()


def _groups(proc: Path) -> Iterator[int]:
    """The limits of the process's groups and of their parents, as far as they are visible."""
    try:
        groups = [line.split(":", 2) for line in (proc / "cgroup").read_text("utf-8").splitlines()]
        mounts = [line.split() for line in (proc / "mountinfo").read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return
    for fields in mounts:
        kind = fields[fields.index("-") + 1] if "-" in fields else ""
        if kind not in _FILES:
            continue
        name, wanted = _FILES[kind]
        for _, controllers, path in groups:
            if wanted in controllers.split(","):
                yield from _limits(Path(fields[4]), fields[3], path, name)


def _limits(mount: Path, root: str, path: str, name: str) -> Iterator[int]:
    """From a group up to the one that is mounted; of a path that leads elsewhere only that one is to be seen."""
    inside = PurePosixPath(path)
    below = inside.relative_to(root) if inside.is_relative_to(root) else PurePosixPath()
    for folder in (below, *below.parents):
        try:
            text = (mount / folder / name).read_text("ascii").strip()
        except OSError:
            continue
        if text.isdecimal():
            yield int(text)
