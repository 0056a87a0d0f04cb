"""The releases of PyTorch: the oldest that the package needs, and the newest that its tests run with."""

from __future__ import annotations

import functools
from typing import Final

from ...errors import warn

OLDEST: Final = (2, 13)
# pyproject.toml pins it for the tests, and the page of versions names it
NEWEST_TRIED: Final = (2, 13)


def release(version: str) -> tuple[int, int]:
    """Returns (major, minor) of a version such as "2.13.0+cpu" or "2.14.0a0+git1234567"."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@functools.cache
def warn_of_newer(version: str) -> None:
    """Warns, once in a process, of a release that is newer than the newest one that was tried."""
    if release(version) > NEWEST_TRIED:
        tried = ".".join(map(str, NEWEST_TRIED))
        warn(
            f"PyTorch {version} is newer than {tried}, the newest release that this version of dnnl_graph_ops was "
            "tried with: results and speed may differ; docs/versions.md lists what was tried"
        )
