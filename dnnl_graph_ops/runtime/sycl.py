"""The SYCL build of oneDNN: where it is, and what it needs around it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

NAME = "sycl"
MISSING = (
    "the SYCL build of oneDNN, which GPU engines need, is not installed; install it with "
    'pip install "dnnl-graph-ops[sycl]"'
)


def find() -> Path | None:
    """The SYCL libdnnl that the extra `sycl` installed, or None."""
    try:
        distribution = metadata.distribution("onednn")
    except metadata.PackageNotFoundError:
        return None
    for file in distribution.files or ():
        if file.name == "libdnnl.so.3":
            return Path(str(distribution.locate_file(file))).resolve()
    return None


def prepare(library: str) -> tuple[str, ...]:
    """Paths to open before the library, in order."""
    folder = Path(library).parent
    names = ("libintlc.so.5", "libimf.so", "libsvml.so", "libirng.so", "libtbb.so.12", "libsycl.so.9")
    return tuple(str(folder / name) for name in names if (folder / name).exists())
