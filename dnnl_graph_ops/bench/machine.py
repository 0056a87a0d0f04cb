"""Describes the machine of a measurement: recorded with every result."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..errors import Error
from ..runtime import cpu
from ..runtime.cpuinfo import cpu_family, cpu_model, field
from ..runtime.engines import engine
from ..words import counted
from . import contention, pool

_CPU: Final = Path("/sys/devices/system/cpu")


def record(threads: int, cpus: list[int]) -> dict[str, Any]:
    """CPU, caches, governor, native types, system and versions as a JSON-ready dict."""
    isa = _isa()
    return {
        "host": socket.gethostname(),
        "cpu": cpu_model(),
        "cpu_family": cpu_family(),
        "isa": isa,
        "native_types": {name: name in cpu.native(isa) for name in ("bf16", "f16", "int8")},
        "cores": pool.physical_cores(),
        "threads": threads,
        "pinned_to": cpus,
        "caches": caches(),
        "memory_gib": _memory(),
        "governor": _read(_CPU / "cpu0/cpufreq/scaling_governor") or "not reported",
        "virtual": "hypervisor" in field("flags").split(),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "load": contention.load_average(),
    }


def commit() -> str:
    """The commit of the clone that this package was imported from; "" for an installed package."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, check=True)
        head = subprocess.run([*git, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no git, no clone, or a clone of something else
        return ""
    return head.stdout.strip()


def describe(machine: dict[str, Any]) -> str:
    """The record in one line."""
    native = [name for name, there in machine["native_types"].items() if there]
    parts = [
        machine["cpu"],
        f"{threads_text(machine['threads'])} on {machine['cores']} cores",
        f"ISA {machine['isa']}",
        f"native {', '.join(native)}" if native else "bf16 and f16 not native",
        "virtual machine" if machine["virtual"] else "",
    ]
    return ", ".join(p for p in parts if p)


def threads_text(count: int) -> str:
    return counted(count, "thread")


def caches() -> dict[str, int]:
    """Bytes per instance: L1d, L2, L3."""
    found: dict[str, int] = {}
    for index in sorted((_CPU / "cpu0/cache").glob("index*")):
        level, kind, size = _read(index / "level"), _read(index / "type"), _read(index / "size")
        if kind != "Instruction" and size.endswith("K"):
            found[f"L{level}{'d' if level == '1' else ''}"] = int(size[:-1]) * 1024
    return found


def _isa() -> str:
    """Returns the properties that the library reports, or why it cannot be asked."""
    try:
        return cpu.isa(engine("cpu"))
    except Error as error:
        return f"unknown ({error})"


def _memory() -> float:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return 0.0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
