"""Engines: one object per runtime, kind and index for the life of the process."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from functools import lru_cache
from itertools import product
from typing import Any, Literal

from .._core import Engine as NativeEngine
from .._core import EngineKind
from ..errors import Error, InvalidArgumentError, RuntimeUnavailableError, UnsupportedError
from ..schema.arguments import one_of
from ..words import counted
from . import sycl
from .libraries import ENVIRONMENT, Runtime, find_runtime, runtimes
from .locks import renew_after_fork

KINDS = {"cpu": EngineKind.cpu, "gpu": EngineKind.gpu}
_KIND_NAMES: tuple[Literal["cpu", "gpu"], ...] = ("cpu", "gpu")


class Engine:
    """A device that compiles and runs partitions. Made by `dgo.engine`."""

    def __init__(
        self, kind: str, index: int, runtime: Runtime, memory: str | None, native: NativeEngine | None = None
    ) -> None:
        self.kind = kind
        self.index = index
        self.runtime = runtime
        self.memory = memory
        self._of_sycl = native is not None
        self._native = native or NativeEngine(runtime._library, KINDS[kind], index, device_memory=memory is not None)

    @staticmethod
    def from_sycl(
        queue: Any, index: int = 0, runtime: Runtime | str | None = None, memory: str | None = None
    ) -> Engine:
        """The engine of a SYCL queue's device and context, so that it shares USM with the queue's owner.

        Queues of one device and context give the same object.

        Args:
            queue: a `dpctl.SyclQueue`, a `torch.xpu.Stream`, or the address of a sycl::queue as an int. Its SYCL
                runtime must be the one that oneDNN has loaded (libsycl.so.9).
            index: the device's index among those of its kind, for messages and DLPack.
            runtime: a `Runtime` or its name; None: "sycl".
            memory: see `dgo.engine`.

        Raises:
            TypeError: not a queue. RuntimeUnavailableError: no SYCL runtime here. UnsupportedError: an unknown
            version of it, two of them in one process, or a device that oneDNN does not use.
        """
        chosen = find_runtime(runtime, "gpu")
        check_memory(memory, "Engine.from_sycl")
        library, on_device = chosen._library, memory is not None
        loaded = sycl.sycl_runtimes()
        if len(loaded) > 1:
            raise UnsupportedError(
                f"Engine.from_sycl: {len(loaded)} SYCL runtimes are loaded ({', '.join(loaded)}), and objects of one "
                f"mean nothing to another; install the queue's package and oneDNN for the same one"
            )
        device, context = (
            getattr(getattr(queue, name, None), "addressof_ref", None) for name in ("sycl_device", "sycl_context")
        )
        if device is not None and context is not None:
            native = NativeEngine.from_sycl(library, int(device()), int(context()), index, on_device)
        else:
            address = getattr(queue, "sycl_queue", queue)
            if isinstance(address, bool) or not isinstance(address, int):
                raise TypeError(
                    f"Engine.from_sycl: 'queue' must be a dpctl.SyclQueue, a torch.xpu.Stream or the address of a "
                    f"sycl::queue, got {type(queue).__name__}"
                )
            native = NativeEngine.of_queue(library, address, index, on_device)
        kind = native.kind.name
        memory = "device" if kind == "gpu" else memory
        key = (chosen.path, *native.sycl_identity, memory)
        return _OF_SYCL.setdefault(key, Engine(kind, index, chosen, memory, native))

    @property
    def on_host(self) -> bool:
        """Whether buffers lie in host memory, which builtin kernels and NumPy can read."""
        return self.memory is None

    def __repr__(self) -> str:
        memory = f", memory={self.memory!r}" if self.memory and self.kind == "cpu" else ""
        return f"Engine({self.kind!r}, {self.index}, runtime={self.runtime.name!r}{memory})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._of_sycl:
            raise TypeError(f"{self!r} belongs to a SYCL queue of this process and cannot be pickled")
        return engine, (self.kind, self.index, self.runtime.name, self.memory)


_ENGINES: dict[tuple[str, str, int, str | None], Engine] = {}
_OF_SYCL: dict[tuple[str, int, int, str | None], Engine] = {}
_LOCK = threading.RLock()
renew_after_fork(sys.modules[__name__], "_LOCK")


def engine(
    kind: Literal["cpu", "gpu"] = "cpu",
    index: int = 0,
    runtime: Runtime | str | None = None,
    memory: Literal["device"] | None = None,
) -> Engine:
    """The engine of this kind and index; the same object for the same arguments.

    Args:
        kind: "cpu" or "gpu".
        index: the device's index among those of its kind.
        runtime: a `Runtime` or its name; None: the bundled OpenMP library for the CPU, SYCL for a GPU.
        memory: "device": buffers lie in the device's memory, and arrays are copied there and back. GPU engines always
            do so; a CPU engine of the SYCL runtime can do so for tests.

    Raises:
        InvalidArgumentError: an unknown kind, index, runtime or memory.
        RuntimeUnavailableError: no such library or device here; the message says what to install.
    """
    kind = one_of(kind, "engine: 'kind'", _KIND_NAMES)
    if isinstance(index, bool) or not isinstance(index, int):
        raise TypeError(f"engine: 'index' must be an int, got {type(index).__name__}")
    check_memory(memory, "engine")
    memory = "device" if kind == "gpu" else memory
    chosen = find_runtime(runtime, kind)
    key = (chosen.path, kind, index, memory)
    if key not in _ENGINES:
        with _LOCK:
            if key not in _ENGINES:
                _check_device(chosen, kind, index, memory)
                _ENGINES[key] = Engine(kind, index, chosen, memory)
    return _ENGINES[key]


def check_memory(memory: str | None, where: str) -> None:
    if memory not in (None, "device"):
        raise InvalidArgumentError(f"{where}: 'memory' must be None or 'device', got {memory!r}")


def _check_device(runtime: Runtime, kind: str, index: int, memory: str | None) -> None:
    if kind == "gpu" and runtime.gpu_runtime != "sycl":
        raise RuntimeUnavailableError(
            f"runtime {runtime.name!r} ({runtime.path}) has no SYCL engines for GPUs; install the build that has, "
            f"{sycl.INSTALL}"
        )
    count = runtime._library.engine_count(KINDS[kind])
    if kind == "cpu" and memory == "device" and runtime.cpu_runtime != "sycl":
        raise InvalidArgumentError(
            f"engine: memory='device' needs the SYCL runtime, but {runtime.name!r} is {runtime.cpu_runtime}"
        )
    if count == 0:
        cpu = sycl.no_cpu() if runtime.cpu_runtime == "sycl" else "reinstall it"
        remedy = sycl.no_gpu() if kind == "gpu" else f"{cpu}, or use another runtime"
        raise RuntimeUnavailableError(f"runtime {runtime.name!r} ({runtime.path}) finds no {kind} device; {remedy}")
    if not 0 <= index < count:
        raise InvalidArgumentError(
            f"engine: 'index' {index} is out of range; {runtime.name!r} has {counted(count, f'{kind} device')}"
        )


def engines() -> tuple[Engine, ...]:
    """Every engine that can be opened here."""
    found = []
    for runtime, kind in product(runtimes(), _KIND_NAMES):
        for index in range(runtime._library.engine_count(KINDS[kind])):
            with suppress(Error):
                found.append(engine(kind, index, runtime))
    return tuple(found)


def default_engine() -> Engine:
    """The CPU engine of calls that name none."""
    return _default(os.environ.get(ENVIRONMENT))


@lru_cache(8)
def _default(by_path: str | None) -> Engine:
    """The default engine, looked up once for each library that the environment names: the look-up is slow."""
    return engine("cpu")
