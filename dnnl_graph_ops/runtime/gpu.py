"""What the machine tells of GPUs: why there is none, and who else has opened one."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_DEVICES = Path("/dev/dri")
_LOADER = "libze_loader.so.1"
_DRIVER = "Intel's GPU driver with Level Zero (packages libze1 and libze-intel-gpu1, or intel-compute-runtime)"


_MAPS = Path("/proc/self/maps")


def sycl_runtimes() -> list[str]:
    """Paths of the SYCL runtimes that this process has loaded."""
    paths = {line.split(maxsplit=5)[-1] for line in _MAPS.read_text("utf-8", "replace").splitlines()}
    return sorted(path for path in paths if Path(path).name.startswith("libsycl.so"))


def remedy() -> str:
    """What to do so that the SYCL runtime finds a GPU."""
    nodes = sorted(_DEVICES.glob("renderD*"))
    if not nodes:
        return f"the kernel shows none ({_DEVICES}/renderD* is missing): install the driver of an Intel GPU"
    if not any(os.access(node, os.R_OK | os.W_OK) for node in nodes):
        return f"this user may not open {nodes[0]}: add it to the group that owns it, usually 'render'"
    try:
        ctypes.CDLL(_LOADER)
    except OSError:
        return f"{_LOADER} cannot be loaded: install {_DRIVER}"
    known = ", ".join(map(str, nodes))
    return f"the driver knows none of {known}: is it an Intel GPU? If so, install or update {_DRIVER}"
