"""Engines: one object per runtime, kind and index for the life of the process."""

from __future__ import annotations

import threading
from typing import Any

from .. import _core
from ..errors import Error, InvalidArgumentError, RuntimeUnavailableError
from .libraries import Runtime, find_runtime, runtimes

KINDS = {"cpu": _core.EngineKind.cpu, "gpu": _core.EngineKind.gpu}


class Engine:
    """A device that compiles and runs partitions. Made by `dgo.engine`."""

    def __init__(self, kind: str, index: int, runtime: Runtime, memory: str | None) -> None:
        self.kind = kind
        self.index = index
        self.runtime = runtime
        self.memory = memory
        self.native = _core.Engine(runtime.library, KINDS[kind], index)

    def __repr__(self) -> str:
        return f"Engine({self.kind!r}, {self.index}, runtime={self.runtime.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return engine, (self.kind, self.index, self.runtime.name, self.memory)


_ENGINES: dict[tuple[str, str, int, str | None], Engine] = {}
_LOCK = threading.RLock()


def engine(
    kind: str = "cpu", index: int = 0, runtime: Runtime | str | None = None, memory: str | None = None
) -> Engine:
    """The engine of this kind and index; the same object for the same arguments.

    Args:
        kind: "cpu" or "gpu".
        index: which device of that kind.
        runtime: a `Runtime` or its name; None: the bundled OpenMP library for the CPU, SYCL for a GPU.
        memory: None, or "device" to keep buffers in device memory (SYCL).

    Raises:
        InvalidArgumentError: an unknown kind, index, runtime or memory.
        RuntimeUnavailableError: no library or no such device here; the message says what to install.
    """
    if not isinstance(kind, str):
        raise TypeError(f"engine: 'kind' must be a string, got {type(kind).__name__}")
    if kind.lower() not in KINDS:
        raise InvalidArgumentError(f"engine: 'kind' must be one of {', '.join(KINDS)}, got {kind!r}")
    if isinstance(index, bool) or not isinstance(index, int):
        raise TypeError(f"engine: 'index' must be an int, got {type(index).__name__}")
    if memory not in (None, "device"):
        raise InvalidArgumentError(f"engine: 'memory' must be None or 'device', got {memory!r}")
    kind = kind.lower()
    chosen = find_runtime(runtime, kind)
    key = (chosen.path, kind, index, memory)
    found = _ENGINES.get(key)
    if found is not None:
        return found
    with _LOCK:
        if key not in _ENGINES:
            _check_device(chosen, kind, index, memory)
            _ENGINES[key] = Engine(kind, index, chosen, memory)
        return _ENGINES[key]


def _check_device(runtime: Runtime, kind: str, index: int, memory: str | None) -> None:
    count = runtime.library.engine_count(KINDS[kind])
    if memory == "device" and runtime.cpu_runtime != "sycl":
        raise InvalidArgumentError(
            f"engine: memory='device' needs the SYCL runtime, but {runtime.name!r} is {runtime.cpu_runtime}"
        )
    if count == 0:
        raise RuntimeUnavailableError(
            f"runtime {runtime.name!r} ({runtime.path}) finds no {kind} device; "
            + ("install the device's driver" if kind == "gpu" else "check its installation")
            + " or use another runtime"
        )
    if not 0 <= index < count:
        raise InvalidArgumentError(
            f"engine: 'index' {index} is out of range; {runtime.name!r} has {count} {kind} devices"
        )


def engines() -> tuple[Engine, ...]:
    """Every engine that can be opened here."""
    found = []
    for runtime in runtimes():
        for kind, code in KINDS.items():
            for index in range(runtime.library.engine_count(code)):
                try:
                    found.append(engine(kind, index, runtime))
                except Error:
                    continue
    return tuple(found)


def default_engine() -> Engine:
    """The CPU engine that is taken when none is named."""
    return engine("cpu")
