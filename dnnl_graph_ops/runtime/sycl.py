"""The SYCL build of oneDNN: where it is, what it needs around it, and what to do where it finds no device."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

from ..errors import RuntimeUnavailableError, extra

NAME = "sycl"
INSTALL = extra("sycl")
MISSING = f"the SYCL build of oneDNN, which GPU engines need, is not installed; install it with {INSTALL}"

# The library has no search path of its own: what it needs is opened first, dependencies before dependents.
_DEPENDENCIES = ("libintlc.so.5", "libimf.so", "libsvml.so", "libirng.so", "libtbb.so.12", "libsycl.so.9")
_DRIVER_VARIABLE = "OCL_ICD_FILENAMES"
_DRIVER = "libintelocl.so"
_MAPS = Path("/proc/self/maps")
_DEVICES = Path("/dev/dri")
_LOADER = "libze_loader.so.1"
_GPU_DRIVER = "Intel's GPU driver with Level Zero (packages libze1 and libze-intel-gpu1, or intel-compute-runtime)"


@cache
def find() -> Path | None:
    """The SYCL libdnnl that the extra `sycl` installed, or None."""
    from importlib import metadata  # slow to load, and most processes never look

    try:
        distribution = metadata.distribution("onednn")
    except metadata.PackageNotFoundError:
        return None
    for file in distribution.files or ():
        if file.name == "libdnnl.so.3":
            return Path(str(distribution.locate_file(file))).resolve()
    return None


def is_complete(library: str) -> bool:
    """Whether what the SYCL build needs lies next to a library: then it is that build, wherever it was unpacked."""
    return all((Path(library).parent / name).exists() for name in (*_DEPENDENCIES, _DRIVER))


def prepare(library: str) -> tuple[str, ...]:
    """Paths to open before the library, in order; makes the OpenCL driver of the CPU known to this process.

    Raises:
        RuntimeUnavailableError: a dependency is missing; names it and what to install.
    """
    folder = Path(library).parent
    missing = [name for name in (*_DEPENDENCIES, _DRIVER) if not (folder / name).exists()]
    if missing:
        raise RuntimeUnavailableError(
            f"the SYCL build of oneDNN ({library}) lacks {', '.join(missing)}; reinstall it with {INSTALL}"
        )
    if not os.environ.get(_DRIVER_VARIABLE):
        # C code reads it at its first look for devices; os.environ stays as the user made it
        os.putenv(_DRIVER_VARIABLE, str(folder / _DRIVER))
    return tuple(str(folder / name) for name in _DEPENDENCIES)


def finish() -> None:
    """To be called when devices have been looked for: child processes get the environment that the user made."""
    if _DRIVER_VARIABLE not in os.environ:
        os.unsetenv(_DRIVER_VARIABLE)


def no_cpu() -> str:
    """Returns advice for a library that finds no CPU."""
    chosen = os.environ.get(_DRIVER_VARIABLE)
    if chosen:
        return f"{_DRIVER_VARIABLE} is {chosen!r}: unset it, or let it name {_DRIVER} of the package intel-opencl-rt"
    return f"reinstall its OpenCL driver with {INSTALL}"


def sycl_runtimes() -> list[str]:
    """Paths of the SYCL runtimes that this process has loaded."""
    paths = {line.split(maxsplit=5)[-1] for line in _MAPS.read_text("utf-8", "replace").splitlines()}
    return sorted(path for path in paths if Path(path).name.startswith("libsycl.so"))


def no_gpu() -> str:
    """Returns advice for a SYCL runtime that finds no GPU."""
    nodes = sorted(_DEVICES.glob("renderD*"))
    if not nodes:
        return f"the kernel shows none ({_DEVICES}/renderD* is missing): install the driver of an Intel GPU"
    if not any(os.access(node, os.R_OK | os.W_OK) for node in nodes):
        return f"this user may not open {nodes[0]}: add it to the group that owns it, usually 'render'"
    try:
        ctypes.CDLL(_LOADER)
    except OSError:
        return f"{_LOADER} cannot be loaded: install {_GPU_DRIVER}"
    known = ", ".join(map(str, nodes))
    return f"the driver knows none of {known}: is it an Intel GPU? If so, install or update {_GPU_DRIVER}"
