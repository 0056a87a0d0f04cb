"""Resident memory of this process, from /proc; zeros where the system has none."""

from __future__ import annotations

import contextlib
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident() -> int:
    """Bytes now; from here on the peak counts anew, where the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _field("VmRSS")


def peak() -> int:
    """The most bytes since."""
    return _field("VmHWM")


def _field(name: str) -> int:
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)
