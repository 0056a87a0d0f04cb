"""The CPU as the system names it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache


@cache
def _fields() -> Mapping[str, str]:
    """Returns the fields of the first CPU that /proc/cpuinfo lists; empty if there is no such file."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read().split("\n\n", 1)[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def field(name: str) -> str:
    """Returns a field of /proc/cpuinfo, such as "flags"; empty if the system does not say."""
    return _fields().get(name, "")


def cpu_model() -> str:
    """Returns the CPU's name. Several CPUs may share a name: `cpu_family` tells them apart."""
    return field("model name") or "unknown"


def cpu_family() -> str:
    """Returns the CPU's family, model and stepping: "6/207/2"."""
    return "/".join(field(name) for name in ("cpu family", "model", "stepping"))
