"""Imports dnnl_graph_ops from one folder, whatever is installed beside it."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "dnnl_graph_ops"
CORE = f"{NAME}._core"


class Finder:
    """Finds the package in `folder`; `watch` is given the extension before any other module sees it."""

    def __init__(self, folder: Path, watch: Callable[[ModuleType], None] | None) -> None:
        self._folder, self._watch = folder, watch

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] != NAME:
            return None
        spec = PathFinder.find_spec(name, path if path is not None else [str(self._folder)])
        if name == CORE and spec is not None and self._watch is not None:
            load = spec.loader.exec_module

            def watched(module: ModuleType) -> None:
                load(module)
                self._watch(module)

            spec.loader.exec_module = watched
        return spec


def use(folder: Path, watch: Callable[[ModuleType], None] | None = None) -> ModuleType:
    """Imports the package of `folder`, which comes before an editable installation's own finder."""
    sys.meta_path.insert(0, Finder(folder, watch))
    import dnnl_graph_ops

    place = Path(dnnl_graph_ops.__file__).resolve()
    if folder.resolve() not in place.parents:
        raise ImportError(f"{NAME} came from {place}, not from {folder}")
    return dnnl_graph_ops
