"""Settings of a library, valid for the whole process and, where stated, for the rest of the package."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from ..errors import InvalidArgumentError
from ..runtime import Runtime
from ..schema.arguments import show
from .arguments import boolean, identifier, member, runtime_of
from .enumerators import cpu_isa, cpu_isa_hints, dump_mode, engine_kind, fpmath_modes

# paths of the libraries whose caches keep constants of this module's partitions
_keeps_constants: set[str] = set()
_alone = Lock()


def _flag(value: Any, where: str) -> bool:
    """Returns a bool, or 0 or 1, as a bool."""
    return boolean(bool(value) if value in (0, 1) else value, where)


def set_constant_tensor_cache(flag: bool, runtime: Runtime | str | None = None) -> None:
    """Set whether partitions that this module compiles from now on keep their packed constants.

    With True, a compiled partition packs its constant inputs at its first execution and reads the packed copy from
    then on. It keeps the inputs' memory alive and raises for another address; changes of the elements have no effect
    until the partition is compiled again. With False, the default, constants are variables to oneDNN. Partitions
    compiled before and the rest of the package do not change: oneDNN's cache is not switched, because a partition
    that was compiled with the cache and runs without it ends the process.

    Raises:
        TypeError: no bool. C++: set_constant_tensor_cache (dnnl_graph_set_constant_tensor_cache).
    """
    wanted = _flag(flag, "set_constant_tensor_cache: 'flag'")
    path = runtime_of(runtime, "set_constant_tensor_cache").path
    (_keeps_constants.add if wanted else _keeps_constants.discard)(path)


def get_constant_tensor_cache(runtime: Runtime | str | None = None) -> bool:
    """The flag that `set_constant_tensor_cache` set last; False at first. C++: get_constant_tensor_cache."""
    return runtime_of(runtime, "get_constant_tensor_cache").path in _keeps_constants


def set_constant_tensor_cache_capacity(kind: engine_kind, size: int, runtime: Runtime | str | None = None) -> None:
    """Limit the megabytes of packed constants that oneDNN keeps, in all of the package; cached constants are dropped
    and packed again at the next executions.

    Args:
        kind: `engine.kind`.
        size: megabytes, at least 1: partitions compiled with the cache would end the process without it.
        runtime: the library; None: the CPU default.

    Raises:
        UnsupportedError: before oneDNN 3.4. InvalidArgumentError: 0. TypeError: no int.

    C++: set_constant_tensor_cache_capacity (dnnl_graph_set_constant_tensor_cache_capacity).
    """
    where = "set_constant_tensor_cache_capacity"
    known = member(engine_kind, kind, f"{where}: 'kind'")
    megabytes = identifier(size, f"{where}: 'size'")
    if not 1 <= megabytes < 1 << 40:
        raise InvalidArgumentError(
            f"{where}: 'size' must be at least 1 megabyte and below 2**40, got {show(size)}: without a cache, "
            "partitions that were compiled with one would end the process"
        )
    runtime_of(runtime, where)._library.set_constant_tensor_cache_capacity(known, megabytes)


def get_constant_tensor_cache_capacity(kind: engine_kind, runtime: Runtime | str | None = None) -> int:
    """The limit of the packed constants that oneDNN keeps, in megabytes. UnsupportedError before oneDNN 3.4.

    C++: get_constant_tensor_cache_capacity.
    """
    where = "get_constant_tensor_cache_capacity"
    known = member(engine_kind, kind, f"{where}: 'kind'")
    return runtime_of(runtime, where)._library.get_constant_tensor_cache_capacity(known)


def set_compiled_partition_cache_capacity(capacity: int, runtime: Runtime | str | None = None) -> None:
    """Set how many compiled partitions oneDNN caches; the package sets 0.

    The setting holds for all of the package, whose nets have caches of their own and gain nothing from it.

    Raises:
        InvalidArgumentError: a negative number. TypeError: no int.

    C++: set_compiled_partition_cache_capacity (dnnl_graph_set_compiled_partition_cache_capacity).
    """
    where = "set_compiled_partition_cache_capacity"
    number = identifier(capacity, f"{where}: 'capacity'")
    if number >= 1 << 31:
        raise InvalidArgumentError(f"{where}: 'capacity' must be below 2**31, got {show(capacity)}")
    runtime_of(runtime, where)._library.set_compiled_partition_cache_capacity(number)


def get_compiled_partition_cache_capacity(runtime: Runtime | str | None = None) -> int:
    """The number of compiled partitions that oneDNN caches. C++: get_compiled_partition_cache_capacity."""
    library = runtime_of(runtime, "get_compiled_partition_cache_capacity")._library
    return library.get_compiled_partition_cache_capacity()


def drop_compiled(runtime: Runtime) -> None:
    """Empties oneDNN's cache of compiled partitions and of failures, which it would later report as other errors."""
    library = runtime._library
    if capacity := library.get_compiled_partition_cache_capacity():
        library.set_compiled_partition_cache_capacity(0)
        library.set_compiled_partition_cache_capacity(capacity)


@contextmanager
def constants_anew(runtime: Runtime, kind: engine_kind) -> Iterator[None]:
    """Compiles one partition at a time, with oneDNN's caches emptied of other constants.

    oneDNN identifies constants by address since 3.7, and not at all before: it cannot tell new elements from old ones.
    """
    with _alone:
        _drop_constants(runtime, kind)
        yield
        drop_compiled(runtime)


def _drop_constants(runtime: Runtime, kind: engine_kind) -> None:
    drop_compiled(runtime)
    library = runtime._library
    if library.has("dnnl_graph_set_constant_tensor_cache_capacity"):
        # setting the same capacity empties the cache
        library.set_constant_tensor_cache_capacity(kind, library.get_constant_tensor_cache_capacity(kind))


def set_dump_mode(mode: dump_mode | int, runtime: Runtime | str | None = None) -> None:
    """Set which graphs oneDNN writes as JSON files into the working directory, in all of the package.

    The files are named `graph-*.json`, in benchdnn's format, which `graph.from_json` reads.

    Args:
        mode: `dump_mode`: none, subgraph (partitions when they are compiled), graph, or both: `dump_mode.graph |
            dump_mode.subgraph`.

    Raises:
        UnsupportedError: before oneDNN 3.11, or a build without dumps. TypeError: no mode.

    C++: set_dump_mode (dnnl_graph_set_dump_mode).
    """
    where = "set_dump_mode: 'mode'"
    value = (
        mode if type(mode) is int and mode == dump_mode.graph | dump_mode.subgraph else member(dump_mode, mode, where)
    )
    runtime_of(runtime, "set_dump_mode")._library.set_dump_mode(value)


def set_max_cpu_isa(isa: cpu_isa, runtime: Runtime | str | None = None) -> None:
    """Limit the instruction set of oneDNN and of the builtin kernels; call it before anything is compiled.

    The limit holds for all of the package. The environment variable ONEDNN_MAX_CPU_ISA does the same from the start.

    Args:
        isa: `cpu_isa`.

    Raises:
        InvalidArgumentError: something was compiled, or the instruction set was queried, before. TypeError: no
        `cpu_isa`.

    C++: set_max_cpu_isa (dnnl_set_max_cpu_isa).
    """
    known = member(cpu_isa, isa, "set_max_cpu_isa: 'isa'")
    library = runtime_of(runtime, "set_max_cpu_isa")._library
    _before_the_first_compile(lambda: library.set_max_cpu_isa(known), "set_max_cpu_isa")


def get_effective_cpu_isa(runtime: Runtime | str | None = None) -> cpu_isa | int:
    """The `cpu_isa` that oneDNN uses: the CPU's, within `set_max_cpu_isa` and ONEDNN_MAX_CPU_ISA.

    A plain int if this package does not know it. C++: get_effective_cpu_isa (dnnl_get_effective_cpu_isa).
    """
    value = runtime_of(runtime, "get_effective_cpu_isa")._library.effective_cpu_isa()
    return cpu_isa(value) if value in set(cpu_isa) else value


def set_cpu_isa_hints(isa_hints: cpu_isa_hints, runtime: Runtime | str | None = None) -> None:
    """Set whether oneDNN prefers 256-bit registers, in all of the package; call it before anything is compiled.

    Raises:
        InvalidArgumentError: something was compiled before. TypeError: no `cpu_isa_hints`.

    C++: set_cpu_isa_hints (dnnl_set_cpu_isa_hints).
    """
    known = member(cpu_isa_hints, isa_hints, "set_cpu_isa_hints: 'isa_hints'")
    library = runtime_of(runtime, "set_cpu_isa_hints")._library
    _before_the_first_compile(lambda: library.set_cpu_isa_hints(known), "set_cpu_isa_hints")


def get_cpu_isa_hints(runtime: Runtime | str | None = None) -> cpu_isa_hints:
    """The `cpu_isa_hints` of the library. C++: get_cpu_isa_hints (dnnl_get_cpu_isa_hints)."""
    return cpu_isa_hints(runtime_of(runtime, "get_cpu_isa_hints")._library.get_cpu_isa_hints())


def _before_the_first_compile(call: Callable[[], object], where: str) -> None:
    try:
        call()
    except Exception as error:
        raise InvalidArgumentError(
            f"{where}: the library has settled its instruction set already; call it before anything is compiled, or "
            f"set an environment variable before the process starts (the library says: {error})"
        ) from error


def set_default_fpmath_mode(mode: fpmath_modes, runtime: Runtime | str | None = None) -> None:
    """Set the `fpmath_mode` of primitives without one. Every graph has one, so only the primitive API is concerned.

    C++: set_default_fpmath_mode (dnnl_set_default_fpmath_mode). TypeError: no `fpmath_mode`.
    """
    known = member(fpmath_modes, mode, "set_default_fpmath_mode: 'mode'")
    runtime_of(runtime, "set_default_fpmath_mode")._library.set_default_fpmath_mode(known)


def get_default_fpmath_mode(runtime: Runtime | str | None = None) -> fpmath_modes:
    """The `fpmath_mode` of primitives without one. C++: get_default_fpmath_mode (dnnl_get_default_fpmath_mode)."""
    return fpmath_modes(runtime_of(runtime, "get_default_fpmath_mode")._library.get_default_fpmath_mode())


def set_verbose(level: int, runtime: Runtime | str | None = None) -> None:
    """Set what oneDNN prints to stdout: 0 nothing, 1 executions, 2 also creations of primitives.

    The level holds for all of the package, which keeps oneDNN silent unless ONEDNN_VERBOSE is set.

    Raises:
        InvalidArgumentError: another level. TypeError: no int. C++: set_verbose (dnnl_set_verbose).
    """
    number = identifier(level, "set_verbose: 'level'")
    if number > 2:
        raise InvalidArgumentError(f"set_verbose: 'level' must be 0, 1 or 2, got {show(level)}")
    runtime_of(runtime, "set_verbose")._library.set_verbose(number)


def set_jit_dump(enable: bool, runtime: Runtime | str | None = None) -> None:
    """Set whether oneDNN writes its generated code into files of the working directory, for a disassembler.

    The setting holds for all of the package; builtin kernels are compiled ahead of time and are not written.

    Raises:
        TypeError: no bool. C++: set_jit_dump (dnnl_set_jit_dump).
    """
    runtime_of(runtime, "set_jit_dump")._library.set_jit_dump(_flag(enable, "set_jit_dump: 'enable'"))


def set_jit_profiling_flags(flags: int, runtime: Runtime | str | None = None) -> None:
    """Set how oneDNN registers its generated code with profilers from now on, in all of the package.

    Args:
        flags: a sum of 1 for VTune, 2 for perf's map file in /tmp, 4 for perf's jitdump, and 8 for its times by the
            CPU's own clock; 0: none.

    Raises:
        InvalidArgumentError: another number, or a profiler that the build lacks. TypeError: no int.

    C++: set_jit_profiling_flags (dnnl_set_jit_profiling_flags).
    """
    number = identifier(flags, "set_jit_profiling_flags: 'flags'")
    if number > 0xF:
        raise InvalidArgumentError(
            f"set_jit_profiling_flags: 'flags' must be a sum of 1, 2, 4 and 8, got {show(flags)}"
        )
    runtime_of(runtime, "set_jit_profiling_flags")._library.set_jit_profiling_flags(number)


def set_jit_profiling_jitdumpdir(dir: str | os.PathLike[str], runtime: Runtime | str | None = None) -> None:
    """Set the folder of perf's jitdump files, which are written to .debug/jit/ below it, in all of the package.

    Raises:
        InvalidArgumentError: no such folder. TypeError: no path.

    C++: set_jit_profiling_jitdumpdir (dnnl_set_jit_profiling_jitdumpdir).
    """
    if not isinstance(dir, str | os.PathLike):
        raise TypeError(f"set_jit_profiling_jitdumpdir: 'dir' must be a path, got {show(dir)}")
    folder = os.fspath(dir)
    if not os.path.isdir(folder):
        raise InvalidArgumentError(f"set_jit_profiling_jitdumpdir: there is no folder {folder!r}")
    runtime_of(runtime, "set_jit_profiling_jitdumpdir")._library.set_jit_profiling_jitdumpdir(folder)
