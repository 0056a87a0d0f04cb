"""The CPU as the system names it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import takewhile

_PATH = "/proc/cpuinfo"
_BLOCK = 1 << 12  # bytes that are read at once: more than a CPU's


@cache
def _fields() -> Mapping[str, str]:
    """Returns the fields of the first CPU that /proc/cpuinfo lists; empty if there is no such file."""
    try:
        with open(_PATH, "rb", buffering=_BLOCK) as file:
            # the system writes the text as it is read, which takes long for many CPUs
            lines = list(takewhile(bytes.strip, file))
    except OSError:
        return {}
    pairs = (line.decode("utf-8", "replace").partition(":") for line in lines)
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
