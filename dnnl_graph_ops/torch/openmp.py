"""One pool of threads: PyTorch and this package are to share one OpenMP."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from pathlib import Path

_MAPS = Path("/proc/self/maps")
# GNU's, also as auditwheel renames copies that wheels bring along
_LIBRARY = re.compile(r"(/.*/libgomp[^/]*\.so[^/]*)$")


def libraries(maps: Iterable[str]) -> list[str]:
    """The files of OpenMP libraries among mapped memory, as the system lists it."""
    return sorted({found[1] for line in maps if (found := _LIBRARY.search(line.strip()))})


def warn_of_two() -> None:
    """Where each has its own: their threads wait for work on the same cores, and each slows the other's down."""
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
