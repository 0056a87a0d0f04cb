"""Checks that PyTorch and this package share one OpenMP, and so one thread pool."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from pathlib import Path

_MAPS = Path("/proc/self/maps")
# GNU's library, also under the names that auditwheel gives to copies in wheels
_LIBRARY = re.compile(r"(/.*/libgomp[^/]*\.so[^/]*)$")


def libraries(maps: Iterable[str]) -> list[str]:
    """Returns the files of OpenMP libraries in the system's list of mapped memory."""
    return sorted({found[1] for line in maps if (found := _LIBRARY.search(line.strip()))})


def warn_of_two() -> None:
    """Warns of two OpenMP libraries: their threads spin on the same cores and slow each other down."""
    if not _MAPS.exists():
        return
    with _MAPS.open() as maps:
        found = libraries(maps)
    if len(found) > 1:
        warnings.warn(
            f"PyTorch and dnnl_graph_ops have an OpenMP library each ({', '.join(found)}), whose threads get in each "
            "other's way: import torch before dnnl_graph_ops, and if that does not help, install PyTorch's wheel from "
            "PyPI or call torch.set_num_threads(1)",
            RuntimeWarning,
            stacklevel=3,
        )
