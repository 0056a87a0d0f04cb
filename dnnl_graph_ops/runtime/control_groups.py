"""What this process may use: memory and CPU time, of the machine's, by the limits of its control groups."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# by what is limited and the type of the mount: the files with the limit in every group, and the controller that a line
# of `cgroup` names
_FILES: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "memory": {"cgroup": (("memory.limit_in_bytes",), "memory"), "cgroup2": (("memory.max",), "")},
    "cpu": {"cgroup": (("cpu.cfs_quota_us", "cpu.cfs_period_us"), "cpu"), "cgroup2": (("cpu.max",), "")},
}
_SELF = Path("/proc/self")


def memory_limit(proc: Path = _SELF) -> int:
    """The limit in bytes. A group without a limit has its parent's."""
    limits = (int(text) for text, *_ in _groups(proc, "memory") if text.isdecimal())
    return min((os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"), *limits))


def cpu_limit(proc: Path = _SELF) -> int | None:
    """The number of CPUs that the time of the groups is enough for, at least 1; None: no group has a limit.

    A share of a CPU is left out: threads that wait for each other would all wait until time is given again.
    """
    quotas = [texts for texts in _groups(proc, "cpu") if len(texts) == 2 and all(map(str.isdecimal, texts))]
    return min((max(int(quota) // int(period), 1) for quota, period in quotas if int(period)), default=None)


@functools.cache
def process_limit() -> int:
    """The limit of this process's memory, read once: reading some 30 files takes a millisecond."""
    return memory_limit()


def _groups(proc: Path, what: str) -> Iterator[list[str]]:
    """The words of the limits of the process's groups and of their parents, as far as they are visible."""
    try:
        groups = [line.split(":", 2) for line in (proc / "cgroup").read_text("utf-8").splitlines()]
        mounts = [line.split() for line in (proc / "mountinfo").read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return
    for fields in mounts:
        kind = fields[fields.index("-") + 1] if "-" in fields else ""
        if kind not in _FILES[what]:
            continue
        names, wanted = _FILES[what][kind]
        for _, controllers, path in groups:
            if wanted in controllers.split(","):
                yield from _limits(Path(fields[4]), fields[3], path, names)


def _limits(mount: Path, root: str, path: str, names: tuple[str, ...]) -> Iterator[list[str]]:
    """From a group up to the one that is mounted; of a path that leads elsewhere only that one is to be seen."""
    inside = PurePosixPath(path)
    below = inside.relative_to(root) if inside.is_relative_to(root) else PurePosixPath()
    for folder in (below, *below.parents):
        try:
            texts = [(mount / folder / name).read_text("ascii") for name in names]
        except OSError:
            continue
        yield " ".join(texts).split() or [""]
