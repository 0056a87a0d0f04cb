"""The oneDNN libraries on this machine; each is loaded at its first use."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .._core import EngineKind, Library
from .._core import __file__ as extension_file
from ..errors import InvalidArgumentError, RuntimeUnavailableError
from . import sycl
from .locks import renew_after_fork

ENVIRONMENT = "DNNL_GRAPH_OPS_LIBRARY"
BUNDLED = "omp"
# since 3.4 the cache of packed constants is bounded; older versions keep them with the compiled partition
_CONSTANT_CACHE_MB = 1024


@dataclass(frozen=True)
class Runtime:
    """A oneDNN library: its name and its file."""

    name: str
    path: str

    @property
    def _library(self) -> Library:
        """The loaded library; opens it at the first use."""
        found = _BY_PATH.get(self.path)
        if found is None:
            with _LOADING:
                found = _BY_PATH[self.path] = _load(self)
        return found

    @property
    def version(self) -> str:
        """oneDNN's version as text, such as "3.2.0"."""
        return ".".join(map(str, self._library.version))

    @property
    def version_info(self) -> tuple[int, ...]:
        """oneDNN's version as numbers, such as (3, 2, 0)."""
        return tuple(self._library.version)

    @property
    def cpu_runtime(self) -> str:
        """The runtime of its CPU engines: omp, sycl, none, ..."""
        return self._library.cpu_runtime

    @property
    def gpu_runtime(self) -> str:
        """The runtime of its GPU engines: sycl, ocl or none."""
        return self._library.gpu_runtime

    def __repr__(self) -> str:
        return f"Runtime({self.name!r}, {self.path!r})"


_LOADING = threading.RLock()
renew_after_fork(sys.modules[__name__], "_LOADING")
_LOADED: dict[str, Library] = {}  # by resolved path
_BY_PATH: dict[str, Library] = {}
_OPENED: dict[str, Runtime] = {}  # by the path that the user gave


def _load(runtime: Runtime) -> Library:
    """One Library per file, however many Runtime objects name it."""
    key = os.path.realpath(runtime.path)
    if key not in _LOADED:
        is_sycl = runtime.name == sycl.NAME or sycl.is_complete(runtime.path)
        preload = sycl.prepare(runtime.path) if is_sycl else ()
        try:
            library = Library(runtime.path, preload)
            if preload:
                library.engine_count(EngineKind.cpu)
        finally:
            sycl.finish()
        if library.has("dnnl_graph_set_constant_tensor_cache_capacity"):
            for kind in (EngineKind.cpu, EngineKind.gpu)[: 1 + (library.gpu_runtime != "none")]:
                library.set_constant_tensor_cache_capacity(kind, _CONSTANT_CACHE_MB)
        _LOADED[key] = library
    return _LOADED[key]


def loaded() -> list[Library]:
    """The libraries that are loaded."""
    with _LOADING:
        return list(_LOADED.values())


def bundled_path() -> Path:
    """The path of the OpenMP build of oneDNN in the wheel."""
    # next to the extension, which an editable install keeps outside of the source folder
    return Path(extension_file).resolve().parent / "_lib" / "libdnnl.so.3"


def _name_of(path: Path) -> str:
    """The file's name, unless the path leads to one of the two known libraries."""
    for name, known in ((BUNDLED, bundled_path()), (sycl.NAME, sycl.find())):
        if known is not None and known.exists() and path.exists() and path.samefile(known):
            return name
    return path.name + "@path" if path.name in (BUNDLED, sycl.NAME) else path.name


def candidates() -> dict[str, Runtime]:
    """The libraries by name, those that fail to load included; the first may be the default of CPU engines."""
    found: dict[str, Runtime] = {}
    by_path = os.environ.get(ENVIRONMENT)
    if by_path:
        name = _name_of(Path(by_path))
        found[name] = Runtime(name, str(Path(by_path).absolute()))
    if bundled_path().exists():
        found.setdefault(BUNDLED, Runtime(BUNDLED, str(bundled_path())))
    library = sycl.find()
    if library is not None:
        found.setdefault(sycl.NAME, Runtime(sycl.NAME, str(library)))
    found.update((runtime.name, runtime) for runtime in _OPENED.values())
    return found


def runtimes() -> tuple[Runtime, ...]:
    """The oneDNN libraries that can be loaded here; `info()` says why others fail to load."""
    return tuple(runtime for runtime in candidates().values() if load_error(runtime) is None)


def load_error(runtime: Runtime) -> str | None:
    """The reason why a library cannot be loaded, or None."""
    try:
        _ = runtime._library
    except RuntimeUnavailableError as error:
        return str(error)
    return None


def find_runtime(runtime: Runtime | str | None, kind: str, where: str = "engine") -> Runtime:
    """The Runtime of an object, a name or a path; None: the default of the engine kind."""
    if isinstance(runtime, Runtime):
        return runtime
    if runtime is not None and not isinstance(runtime, str | os.PathLike):
        raise TypeError(f"{where}: 'runtime' must be a Runtime, a name or a path, got {type(runtime).__name__}")
    found = candidates()
    default = sycl.NAME if kind == "gpu" else next(iter(found), None)
    name = default if runtime is None else os.fspath(runtime)
    if name is None:
        raise RuntimeUnavailableError(
            f"the bundled oneDNN library is missing ({bundled_path()}); reinstall the package, or set {ENVIRONMENT} to "
            f"the path of a libdnnl.so.3 of version 3.2 or later"
        )
    if name in found:
        return found[name]
    if name == sycl.NAME:
        raise RuntimeUnavailableError(sycl.MISSING)
    if os.sep in name:
        return _by_path(Path(name), found)
    raise InvalidArgumentError(
        f"{where}: there is no runtime {name!r}; known here: {', '.join(found) or 'none'}; or give the path of a "
        "libdnnl.so.3"
    )


def _by_path(path: Path, known: Mapping[str, Runtime]) -> Runtime:
    """The Runtime of a file: an existing one, or a new one with the file's name."""
    for runtime in known.values():
        if path.exists() and path.samefile(runtime.path):
            return runtime
    absolute = str(path.absolute())
    if absolute not in _OPENED:
        name = _name_of(path)
        taken = {runtime.name for runtime in (*known.values(), *_OPENED.values())}
        names = itertools.chain([name], (f"{name}@{n}" for n in itertools.count(2)))
        opened = Runtime(next(text for text in names if text not in taken), absolute)
        _ = opened._library
        _OPENED[absolute] = opened
    return _OPENED[absolute]
