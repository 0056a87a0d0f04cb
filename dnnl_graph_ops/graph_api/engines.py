"""Engines, streams and allocators of the Graph API."""

from __future__ import annotations

from typing import Any, Literal

from .._core import Allocator, Stream
from .._core import Engine as NativeEngine
from ..errors import InvalidArgumentError, UnsupportedError
from ..runtime import Engine, Runtime
from ..runtime import engine as shared_engine
from ..schema.arguments import show
from .arguments import identifier, instance, member, runtime_of
from .enumerators import EngineNames, StreamNames, engine_kind, stream_flags


class engine(EngineNames):
    """A device of a library; shares the native engine of `dgo.engine` with the same arguments.

    Args:
        kind: `engine.kind.cpu` or `engine.kind.gpu`.
        index: the device's index among those of its kind, from 0.
        runtime: the library: a Runtime, its name, or the path of a libdnnl.so.3; None: the default of the kind.
        memory: "device": tensors lie in the device's memory, as for a GPU. A CPU engine of the SYCL runtime can
            do so for tests.

    Raises:
        InvalidArgumentError: an index without a device, or an unknown memory. RuntimeUnavailableError: no such library
        or device. TypeError: arguments of other types.

    C++: dnnl::engine (dnnl_engine_create).
    """

    __slots__ = ("_allocator", "_native", "_runtime")

    def __init__(
        self,
        kind: engine_kind,
        index: int = 0,
        *,
        runtime: Runtime | str | None = None,
        memory: Literal["device"] | None = None,
    ) -> None:
        name: Any = kind_name(kind, "engine: 'kind'")
        index = identifier(index, "engine: 'index'")
        self._set(shared_engine(name, index, runtime_of(runtime, "engine", name), memory))

    def _set(self, shared: Engine) -> None:
        self._runtime = shared.runtime
        self._native = shared._native
        self._allocator: allocator | None = None

    @classmethod
    def _of(cls, runtime: Runtime, native: NativeEngine, allocator: allocator | None = None) -> engine:
        made = cls.__new__(cls)
        # keeps the allocator's ctypes functions alive, which oneDNN calls
        made._runtime, made._native, made._allocator = runtime, native, allocator
        return made

    def get_kind(self) -> engine_kind:
        """An `engine.kind`. C++: get_kind."""
        return engine_kind(self._native.kind)

    @staticmethod
    def get_count(kind: engine_kind, runtime: Runtime | str | None = None) -> int:
        """The number of devices of a kind that a library finds. C++: get_count (dnnl_engine_get_count)."""
        name = kind_name(kind, "engine.get_count: 'kind'")
        return runtime_of(runtime, "engine.get_count", "cpu")._library.engine_count(engine_kind[name])

    def __eq__(self, other: object) -> bool:
        return self._native is other._native if isinstance(other, engine) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._native)

    def __repr__(self) -> str:
        kind = self.get_kind()
        memory = ", memory='device'" if self._native.on_device and kind == engine_kind.cpu else ""
        return f"engine({kind.name}, {self._native.index}, runtime={self._runtime.name!r}{memory})"


def wrapped(shared: Engine) -> engine:
    """Returns an engine of `dgo.engine` as an object of this module."""
    made = engine.__new__(engine)
    made._set(shared)
    return made


def kind_name(kind: engine_kind, where: str) -> str:
    """Returns the name of an engine kind; raises for `any`."""
    known = member(engine_kind, kind, where)
    if known == engine_kind.any:
        raise InvalidArgumentError(f"{where} must be engine.kind.cpu or engine.kind.gpu, got any")
    return str(known.name)


class stream(StreamNames):
    """A queue of executions on an engine.

    Args:
        engine: the engine of the partitions that this stream executes.
        flags: `stream.flags`: default_flags, in_order or out_of_order.

    Raises:
        TypeError: arguments of other types.

    C++: dnnl::stream (dnnl_stream_create).
    """

    __slots__ = ("_engine", "_native", "_pending")

    def __init__(self, engine: engine, flags: stream_flags = stream_flags.default_flags) -> None:
        where = "stream: 'engine'"
        self._engine = instance(_engine_class, engine, where)
        self._native = Stream(engine._native, member(stream_flags, flags, "stream: 'flags'"))
        self._pending: list[Any] = []

    @classmethod
    def _of(cls, engine: engine, native: Stream) -> stream:
        made = cls.__new__(cls)
        made._engine, made._native, made._pending = engine, native, []
        return made

    def wait(self) -> stream:
        """Wait until all executions in the stream have ended. On a CPU `execute` is synchronous.

        The GIL is released. C++: wait (dnnl_stream_wait).
        """
        # later executions are not waited for
        done = len(self._pending)
        self._native.wait()
        del self._pending[:done]
        return self

    def get_engine(self) -> engine:
        """The stream's engine. C++: get_engine."""
        return self._engine

    def __repr__(self) -> str:
        return f"stream({self._engine!r})"


_engine_class = engine


class allocator:
    """The user's functions for an engine's memory: see `make_engine_with_allocator`.

    Args:
        host_malloc: a C function `void *(size_t size, size_t alignment)`: its address, or a ctypes function. oneDNN
            calls it from any thread, without the GIL. It must return memory: NULL, which a ctypes function returns
            when it raises, ends the process. None: memory aligned to 64 bytes.
        host_free: a C function `void (void *buffer)`, given in the same way. Give both or neither.
        runtime: the library whose engines will use it; None: the CPU default.

    Raises:
        UnsupportedError: a SYCL build, which takes allocators of `sycl_interop` only.
        TypeError: no functions.

    C++: dnnl::graph::allocator (dnnl_graph_allocator_create).
    """

    __slots__ = ("_functions", "_native", "_runtime")

    def __init__(self, host_malloc: Any = None, host_free: Any = None, *, runtime: Runtime | str | None = None) -> None:
        self._runtime = runtime_of(runtime, "allocator")
        if self._runtime.cpu_runtime == "sycl":
            raise UnsupportedError(
                f"allocator: {self._runtime.name!r} is a SYCL build, which takes the allocators of "
                "graph_api.sycl_interop.make_allocator"
            )
        # kept alive: ctypes frees a function with its last reference
        self._functions = (host_malloc, host_free)
        self._native = Allocator.host(self._runtime._library, *addresses(host_malloc, host_free, "allocator"))

    @classmethod
    def _of(cls, runtime: Runtime, native: Allocator, functions: tuple[Any, Any]) -> allocator:
        made = cls.__new__(cls)
        made._runtime, made._native, made._functions = runtime, native, functions
        return made

    def __repr__(self) -> str:
        return f"allocator(runtime={self._runtime.name!r})"


def addresses(allocate: Any, free: Any, where: str) -> tuple[int, int]:
    """Returns the addresses of two C functions; 0 for both if neither is given."""
    found = (
        _address(allocate, f"{where}: the function that allocates"),
        _address(free, f"{where}: the function that frees"),
    )
    if (found[0] == 0) != (found[1] == 0):
        raise InvalidArgumentError(f"{where}: give both functions, to allocate and to free, or neither")
    return found


def _address(function: Any, where: str) -> int:
    if function is None:
        return 0
    if isinstance(function, int) and not isinstance(function, bool) and 0 < function < 1 << 64:
        return int(function)
    import ctypes  # few use it

    if isinstance(function, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise TypeError(f"{where} must be the address of a C function or a function of ctypes, got {show(function)}")


def make_engine_with_allocator(kind: engine_kind, index: int, allocator: allocator) -> engine:
    """An engine that allocates memory with the user's functions.

    The engine is a native object of its own: its partitions, streams and tensors cannot be used with other engines.

    Args:
        kind: `engine.kind.cpu` or `engine.kind.gpu`.
        index: the device's index among those of its kind, from 0.
        allocator: the functions, and the library of the engine.

    Raises:
        RuntimeUnavailableError: no such device. TypeError: arguments of other types.

    C++: make_engine_with_allocator (dnnl_graph_make_engine_with_allocator).
    """
    where = "make_engine_with_allocator"
    name = kind_name(kind, f"{where}: 'kind'")
    chosen = instance(_allocator_class, allocator, f"{where}: 'allocator'")
    number = identifier(index, f"{where}: 'index'")
    native = NativeEngine(chosen._runtime._library, engine_kind[name], number, chosen._native)
    return engine._of(chosen._runtime, native, chosen)


_allocator_class = allocator
