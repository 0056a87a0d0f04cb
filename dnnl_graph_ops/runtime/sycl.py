"""The SYCL build of oneDNN: where it is, and what it needs around it."""

from __future__ import annotations

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


def prepare(library: str) -> tuple[str, ...]:
    """Paths to open before the library, in order; makes the OpenCL driver of the CPU known to this process.

    Raises:
        RuntimeUnavailableError: a dependency is missing; names it and what to install.
    """
    folder = Path(library).parent
    missing = [name for name in (*_DEPENDENCIES, _DRIVER) if not (folder / name).exists()]
    if missing:
        raise RuntimeUnavailableError(
            f"the SYCL build of oneDNN ({library}) lacks {', '.join(missing)} beside it; reinstall it with {INSTALL}"
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
    """What to do where the library finds no CPU."""
    chosen = os.environ.get(_DRIVER_VARIABLE)
    if chosen:
        return f"{_DRIVER_VARIABLE} is {chosen!r}: unset it, or let it name {_DRIVER} of the package intel-opencl-rt"
    return f"reinstall its OpenCL driver with {INSTALL}"
