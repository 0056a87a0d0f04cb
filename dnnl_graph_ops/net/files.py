"""Saves compiled nets to files, and loads them: the graph as records, constants and packed weights as arrays.

The arrays of a file are used as they are, mapped into memory. Modules that read and write files are imported at the
first use.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import singledispatch
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core import kernels
from ..compile.pack_weights import keep
from ..compile.specialise import Options
from ..compile.template import MOST_TEMPLATES, Templates
from ..errors import Error, InvalidArgumentError, RuntimeUnavailableError, UnsupportedError, warn
from ..graph import Graph, hooks
from ..passes.mixed_precision import AUTO
from ..runtime import cpu
from ..runtime.engines import Engine, default_engine, engine
from ..runtime.info import version
from ..schema.arguments import show
from . import cache_keys
from .net import Net, made
from .options import checked_options

# above the size of any dim that a template is traced at
_FAR = 1 << 32

if TYPE_CHECKING:
    from ..graph.array_file import ArrayFile
    from ..graph.constants import Constant

# errors of a disk that takes no more, and the next step
_FULL = dict.fromkeys(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space, or give a file on another disk; nothing was written"
)


def save(net: Net, path: str | os.PathLike[str]) -> None:
    """Implements `Net.save`."""
    from ..graph.array_file import write

    if str(path).lower().endswith((".onnx", ".pt", ".pt2", ".pth")):
        raise InvalidArgumentError(
            f"Net.save: {path} would be no file of that kind, but one for dgo.load; end the name in .net. "
            "calibration.to_onnx(path) writes ONNX"
        )
    header, arrays = _contents(net)
    if header.get("graph", {}).get("constants") and not net.plan_count() and not net._holds:
        warn(f"Net.save: {net!r} has no plan, so its file holds nothing that is packed; prepare a usual size before")
    try:
        write(_path(path, "Net.save"), header, arrays)
    except OSError as error:
        # the error of the file that it is written to first names that
        remedy = _FULL.get(error.errno or 0, "give a file in a folder that is there and can be written")
        raise OSError(error.errno, f"Net.save: {error.strerror}; {remedy}", os.fspath(path)) from None


def pickled(net: Net) -> tuple[Any, ...]:
    """Implements `Net.__reduce__`: a pickle holds the file that `save` writes."""
    from ..graph.array_file import write_to

    file = io.BytesIO()
    write_to(file, *_contents(net), "pickle")
    return unpickled, (file.getvalue(),), *net._state()


def unpickled(data: bytes) -> Net:
    """Loads the net of a pickle; raises as `load` does."""
    from ..graph.array_file import ArrayFile

    return _loaded(ArrayFile(data, "pickle"), None, "pickle")


def _contents(net: Net) -> tuple[dict[str, Any], Iterable[Any]]:
    """Returns the header and the arrays of a net's file."""
    body, arrays = described(net)
    header = {
        "made_by": made_by(net.engine),
        "engine": _arguments(net.engine) if net.graph.engine is not None else None,
        "options": vars(net._named_options()),
        **body,
    }
    return header, arrays


@singledispatch
def described(net: Net) -> tuple[dict[str, Any], Iterable[Any]]:
    """Returns what a net's header says of its graph, and the arrays; other types of net register their own function."""
    from ..ops import records

    nodes, constants = net._parts
    held = [value._held for value in constants if value._held is not None]
    packed = list(cache_keys.of_arrays([*net._constants_read(), *net._holds], held))
    record, more = records.described(net.graph, net.inputs, constants, nodes, net.outputs)
    arrays = chain(_let_go(held), more, (array for _, array in packed))
    return {
        "graph": record,
        "packed": [cache_key for cache_key, _ in packed],
        "traced": net._templates.traced(),
    }, arrays


def _let_go(held: Iterable[Constant]) -> Iterator[Any]:
    for constant in held:
        yield constant.array
        constant.let_go()


def load(path: str | os.PathLike[str], engine: Engine | None = None, *, verify: bool = False) -> Net:
    """Loads a net that `Net.save` has written, and compiles it for its engine.

    A net of unknown dims that was saved after calls with several sizes compiles its first size for similar sizes as
    well: from the second size on, a new, similar size takes little time.

    The file is mapped into memory: its pages are read at their first use, and processes that load the same file share
    the pages. Do not write to the file or truncate it while a net loaded from it exists, as this ends processes that
    read the file (SIGBUS). Replace the file by renaming another file to its name, as `Net.save` does.

    Args:
        path: the path of the file.
        engine: the engine that the net runs on; None: the engine that the net was compiled for, or the default engine
            if the graph named no engine.
        verify: whether to read the whole file first, and to compare it with its checksums.

    Returns:
        The net.

    Raises:
        FileNotFoundError, PermissionError: as `open` does.
        InvalidArgumentError: the file has another format, or is damaged. Nothing in the file is run as code.
        RuntimeUnavailableError: the engine that the net was compiled for is no CPU, and is not available.

    Warns:
        RuntimeWarning: another version, library or instruction set saved the net, so its weights are packed again; or
            the CPU engine that it was compiled for is not available, so the net runs on the default engine.
    """
    from ..graph.array_file import ArrayFile

    where = "dgo.load"
    if engine is not None and not isinstance(engine, Engine):
        raise TypeError(f"{where}: 'engine' must come from dgo.engine(...), got {show(engine)}")
    file = ArrayFile(_path(path, where), where)
    if verify:
        file.verify()
    return _loaded(file, engine, where)


def _loaded(file: ArrayFile, engine: Engine | None, where: str) -> Net:
    from ..graph.array_file import field
    from ..ops.records import rebuilt

    where = f"{where}: {file.path}"
    header = file.header
    options = field(header, "options", dict, where)
    chosen = _engine(header.get("engine"), where) if engine is None else engine
    others = _differences(field(header, "made_by", dict, where), chosen or default_engine())
    try:
        packed, traced = list[Any](), list[Any]()
        if "model" in header:
            graph, outputs = hooks.call("model", header["model"], file.array, chosen, where), None
        else:
            graph, outputs = rebuilt(header.get("graph"), file, chosen, where)
            graph._keeps_inputs = True
            packed = [] if others else _packed(graph, field(header, "packed", list, where), file, where)
            traced = _traced(graph, header.get("traced", []), where)
        net = made(graph, outputs, _options(options, graph.engine or default_engine(), where))
    except Error as error:
        if not others:
            raise
        raise InvalidArgumentError(f"{error} (saved with {others})") from error
    net._holds = packed
    if traced:
        net._templates = Templates(traced)
    if others:
        text = f"{where} was saved with {others}: its weights are packed again; save the net again on this machine"
        warn(text, RuntimeWarning)
    return net


def _options(stated: Mapping[str, Any], engine: Engine, where: str) -> Options:
    from ..graph.array_file import field

    names = ("policy", "tune", "algorithm", "precision")
    policy, tune, algorithm, precision = (field(stated, name, str, where) for name in names)
    selected = stated.get("algorithms", [])
    pairs = isinstance(selected, list) and all(_are_names(item) and len(item) == 2 for item in selected)
    if not pairs:
        raise InvalidArgumentError(f"{where}: is damaged: the algorithms of ops are {str(selected)[:60]}")
    narrow = None if precision == "f32" else precision
    threads = stated.get("threads")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise InvalidArgumentError(f"{where}: is damaged: the number of threads is {str(threads)[:60]}")
    checked = checked_options(engine, policy, tune, algorithm, narrow, algorithms=dict(selected), threads=threads)
    wide = stated.get("wide", [])
    if checked.precision == AUTO or not _are_names(wide):
        raise InvalidArgumentError(f"{where}: is damaged: the ops that stay in f32 are {str(wide)[:60]}")
    return replace(checked, wide=tuple(wide))


def _are_names(item: Any) -> bool:
    return isinstance(item, list) and all(isinstance(name, str) for name in item)


def _packed(graph: Graph, records: list[Any], file: ArrayFile, where: str) -> list[Any]:
    """Enters a file's packed weights in the cache, for plans of the graph to use; returns them, to be kept alive."""
    held = [value._held for value in graph.constants if value._held is not None]
    arrays = []
    for number, record in enumerate(records, len(file) - len(records)):
        cache_key, dtype, elements = cache_keys.read(record, held, where)
        arrays.append(file.array(number, dtype, (elements,)))
        keep(cache_key, arrays[-1])
    return arrays


def _traced(graph: Graph, sizes: Any, where: str) -> list[tuple[int, ...]]:
    """Returns the sizes of the graph's unknown dims that templates were traced at; raises if they cannot be such."""
    count = sum(dim is None for value in graph.inputs for dim in value.shape)

    def are_dims(item: Any) -> bool:
        return isinstance(item, list) and len(item) == count and all(type(n) is int and 0 < n < _FAR for n in item)

    if not (isinstance(sizes, list) and len(sizes) <= MOST_TEMPLATES and all(map(are_dims, sizes))):
        raise InvalidArgumentError(f"{where}: is damaged: the sizes of its templates are {str(sizes)[:60]}")
    return [tuple(size) for size in sizes]


def made_by(engine: Engine) -> dict[str, str]:
    """Returns the versions and instruction sets that packed weights depend on besides their cache keys."""
    sets = (cpu.isa(engine), kernels.isa(), kernels.bf16_isa()[0], kernels.int8_isa()[0])
    return {
        "dnnl_graph_ops": version(),
        "oneDNN": f"{engine.runtime.version} ({engine.runtime._library.cpu_runtime})",
        "instruction set": ", ".join(filter(None, sets)) if engine.kind == "cpu" else engine.kind,
    }


def _differences(stated: Mapping[str, Any], engine: Engine) -> str:
    """Returns how the versions and instruction sets that a file states differ from those here; "" if they do not."""
    here = made_by(engine).items()
    return ", ".join(f"{name} {str(stated.get(name))[:60]} (here {i})" for name, i in here if stated.get(name) != i)


def _path(path: Any, where: str) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{where}: 'path' must be a path, got {type(path).__name__}")
    return Path(path)


def _arguments(engine: Engine) -> tuple[str, int, str, str | None]:
    """Returns the arguments with which `dgo.engine` opens this engine again."""
    try:
        kind, index, runtime, memory = engine.__reduce__()[1]
    except TypeError:
        raise UnsupportedError(
            f"Net.save: {engine!r} belongs to a SYCL queue of this process; save a net of the same graph that is "
            "compiled for dgo.engine(...)"
        ) from None
    return kind, index, runtime, memory


def _engine(arguments: Any, where: str) -> Engine | None:
    """Opens the engine that a file names; returns None, for the default engine, if a CPU engine fails to open."""
    if arguments is None:
        return None
    if not isinstance(arguments, list) or len(arguments) != 4:
        raise InvalidArgumentError(f"{where}: needs the four arguments of an engine, got {str(arguments)[:60]}")
    kind, index, runtime, memory = arguments
    try:
        return engine(kind, index, str(runtime), memory)
    except (Error, TypeError) as error:
        if kind != "cpu" or memory is not None:
            raise RuntimeUnavailableError(
                f"{where}: its engine is not here ({error}); name another, dgo.load(path, engine=dgo.engine('cpu'))"
            ) from error
        warn(f"{where}: runs on the default engine, since the engine of the file is not here ({error})", RuntimeWarning)
        return None
