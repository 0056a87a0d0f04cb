"""Engines, streams and allocators."""

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
    """A device of a library; the native object is the one that `dgo.engine` has for the same arguments.

    Args:
        kind: `engine.kind.cpu` or `engine.kind.gpu`.
        index: of the device among those of its kind, from 0.
        runtime: the library: a Runtime, its name, or the path of a libdnnl.so.3; None: the default of the kind.
        memory: "device": tensors lie in memory of the device, as they do for a GPU. A CPU engine of the SYCL runtime
            then stands in for a GPU, for tests.

    Raises:
        InvalidArgumentError: an index that there is not, or another memory. RuntimeUnavailableError: no library, or no
        such device. TypeError: arguments of other types.

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
        # the allocator keeps functions of ctypes, which the library calls
        made._runtime, made._native, made._allocator = runtime, native, allocator
        return made

    def get_kind(self) -> engine_kind:
        """An `engine.kind`. C++: get_kind."""
        return engine_kind(self._native.kind)

    @staticmethod
    def get_count(kind: engine_kind, runtime: Runtime | str | None = None) -> int:
        """How many devices of a kind a library finds. C++: get_count (dnnl_engine_get_count)."""
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
    """An engine of `dgo.engine` as an object of this module."""
    made = engine.__new__(engine)
    made._set(shared)
    return made


def kind_name(kind: engine_kind, where: str) -> str:
    """The name of a kind of engines that there are: not any."""
    known = member(engine_kind, kind, where)
    if known == engine_kind.any:
        raise InvalidArgumentError(f"{where} must be engine.kind.cpu or engine.kind.gpu, got any")
    return str(known.name)


class stream(StreamNames):
    """A queue of executions on an engine.

    Args:
        engine: where partitions run; those of other engines do not run in this stream.
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
        """Return when all that was executed in the stream has ended. On a CPU, `execute` has waited already.

        The GIL is released. C++: wait (dnnl_stream_wait).
        """
        # what is executed meanwhile is not waited for
        done = len(self._pending)
        self._native.wait()
        del self._pending[:done]
        return self

    def get_engine(self) -> engine:
        """The engine that it was made for. C++: get_engine."""
        return self._engine

    def __repr__(self) -> str:
        return f"stream({self._engine!r})"


_engine_class = engine


class allocator:
    """Functions that an engine takes memory from instead of the library's own: see `make_engine_with_allocator`.

    Args:
        host_malloc: `void *(size_t size, size_t alignment)`, a C function: its address, or a function of ctypes. It
            is called from any thread, without the GIL, and must return memory: by NULL, which a function of ctypes
            returns where it raises, the process ends. None: memory aligned to 64 bytes.
        host_free: `void (void *buffer)`, likewise. Both are given or neither.
        runtime: the library whose engines will use it; None: the CPU default.

    Raises:
        UnsupportedError: the library has no such allocators: a SYCL build takes those of `sycl_interop`.
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
        # kept: ctypes frees a function with its last reference
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
    """The addresses of two C functions; 0 for both if there is neither."""
    found = (
        _address(allocate, f"{where}: the function that allocates"),
        _address(free, f"{where}: the function that frees"),
    )
    if (found[0] == 0) != (found[1] == 0):
        raise InvalidArgumentError(f"{where}: needs the function that allocates and the one that frees, or neither")
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
    """An engine that takes memory by functions of the user.

    It is a native object of its own: partitions, streams and tensors of it and of other engines do not mix.

    Args:
        kind: `engine.kind.cpu` or `engine.kind.gpu`.
        index: of the device among those of its kind, from 0.
        allocator: whose library the engine is of.

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
