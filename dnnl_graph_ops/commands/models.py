"""Models and arrays of the command line: files of models by the ends of their names, inputs from files or random."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from .. import dtypes
from ..errors import InvalidArgumentError
from ..frontends import from_onnx, from_torch
from ..frontends.torch_export.host import pytorch
from ..graph import Graph, Value
from ..graph.array_file import is_array_file
from ..graph.choices import Algorithm, Precision, Tune
from ..net.files import load
from ..net.net import Net
from ..net.options import TUNES
from ..runtime import set_num_threads
from ..schema.arguments import suggest
from ..words import of_file

Array = np.ndarray[Any, Any]

FILES: Final = "an ONNX model (.onnx), an exported PyTorch program (.pt2), a compiled net (.net), or a graph (.json)"
_NET: Final = ".net"
_SEED: Final = 0
_PRECISIONS: Final = ("bf16", "f16")


def _program(path: Path) -> Graph:
    path.open("rb").close()  # PyTorch logs a traceback for a file that is not there
    return from_torch(pytorch("from_torch").export.load(str(path)))


_READERS: Final[Mapping[str, Callable[[Path], Graph]]] = {
    ".onnx": from_onnx,
    ".pt2": _program,
    ".json": Graph.from_json,
}


def add_file(parser: argparse.ArgumentParser, name: str = "model") -> None:
    parser.add_argument(name, help=FILES)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which arrays the model is called with."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="an array (.npy), or arrays by the names of inputs (.npz); without NAME= where the model has one input; "
        "may be repeated",
    )
    parser.add_argument("--random", action="store_true", help="random numbers for inputs without a file")
    add_shape(parser)


def add_shape(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,64,64",
        help="the shape of an input with dynamic dims; may be repeated",
    )


def _precision(text: str) -> str:
    name = dtypes.usual(text)
    return name if name in _PRECISIONS else text


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that a model is compiled with."""
    parser.add_argument("--tune", choices=TUNES, help="how implementations are chosen: see Graph.compile (heuristic)")
    parser.add_argument(
        "--precision", type=_precision, choices=_PRECISIONS, help="compute in this dtype where it is faster (f32)"
    )
    parser.add_argument("--algorithm", choices=("auto", "direct", "fast"), help="algorithms to choose from (auto)")
    parser.add_argument("--threads", type=int, metavar="N", help="the number of threads (one for each core)")


def _is_net(path: str) -> bool:
    """Whether a file is a compiled net, which may have any name."""
    return Path(path).suffix.lower() == _NET or is_array_file(path)


def graph_of(path: str) -> Graph:
    """Returns the graph of a model's file.

    Raises:
        InvalidArgumentError: a file of another kind, or a damaged one. OSError: the file cannot be read.
        UnsupportedError: ops that nothing computes. RuntimeUnavailableError: onnx or PyTorch is missing.
    """
    end = Path(path).suffix.lower()
    if _is_net(path):
        return load(path).graph
    if end not in _READERS:
        raise InvalidArgumentError(f"{path}: the end {end!r} is of no model here; pass {FILES}{of_file(path, '')}")
    try:
        return _READERS[end](Path(path))
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise OSError(error.errno, error.strerror, path) from None


def net_of(
    path: str,
    *,
    tune: Tune | None = None,
    precision: Precision | None = None,
    algorithm: Algorithm | None = None,
    threads: int | None = None,
) -> Net:
    """Returns the net of a model's file; a compiled net keeps its options, unless other options are given.

    Raises:
        As `graph_of`.
    """
    if threads is not None:
        set_num_threads(threads)
    given = {"tune": tune, "precision": precision, "algorithm": algorithm}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if _is_net(path):
        net = load(path)
        return net.graph.compile(dict(net.outputs), **options) if options else net
    return graph_of(path).compile(**options)


def compiled(path: str, options: argparse.Namespace) -> Net:
    """Returns the net of a model's file, compiled with the options of `add_options`; raises as `graph_of`."""
    return net_of(
        path, tune=options.tune, precision=options.precision, algorithm=options.algorithm, threads=options.threads
    )


def spelt(shape: Iterable[int | None]) -> str:
    """Returns a shape as the shell writes it, "1,3,64,64"; "?" for unknown sizes."""
    return ",".join("?" if size is None else str(size) for size in shape)


def arrays_of(net: Net, options: argparse.Namespace) -> list[Array]:
    """Returns the arrays that a net is called with, as `add_inputs` asks for.

    Raises:
        InvalidArgumentError: an array or a shape does not fit, or an input has none. OSError: a file cannot be read.
    """
    given = _from_files(net, options.input)
    missing = [value for value in net.inputs if value.name not in given]
    if missing and not options.random:
        value = missing[0]
        raise InvalidArgumentError(
            f"input {value.name!r} ({value.dtype}, {spelt(value.shape)}) has no array; pass --input {value.name}=FILE, "
            "or --random for random numbers"
        )
    return [
        given.get(name, array) for name, array in zip(net.input_names, random(net, options.shape, given), strict=True)
    ]


def _named(net: Net, word: str, option: str) -> tuple[str, str]:
    """Returns (name of an input, rest) of "NAME=REST", or of "REST" where the net has one input."""
    name, equals, rest = word.partition("=")
    if not equals and len(net.inputs) == 1:
        return net.input_names[0], word
    if name not in net.input_names:
        known = ", ".join(net.input_names)
        fix = suggest(name, net.input_names) if equals else f"; write {net.input_names[0]}={word}" if net.inputs else ""
        raise InvalidArgumentError(f"{option} {word}: no input {name if equals else ''!r}; there are {known}{fix}")
    return name, rest


def _from_files(net: Net, words: Sequence[str]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for word in words:
        if "=" not in word and word.lower().endswith(".npz"):
            with np.load(word) as file:
                found = {name: file[name] for name in file.files}
        else:
            name, path = _named(net, word, "--input")
            found = {name: _array(path, name)}
        for name, array in found.items():
            arrays[name] = _checked(net, name, array, word)
    return arrays


def _array(path: str, name: str) -> Array:
    try:
        held = np.load(path)
    except (ValueError, EOFError):
        raise InvalidArgumentError(f"--input {path}: no array of NumPy; write one with np.save(path, array)") from None
    if isinstance(held, np.ndarray):
        return held
    with held:
        names = held.files
        if name not in names and len(names) != 1:
            raise InvalidArgumentError(f"--input {path}: holds {', '.join(names)}, none of which is {name!r}")
        array: Array = held[name if name in names else names[0]]
        return array


def _checked(net: Net, name: str, array: Array, word: str) -> Array:
    value = next((value for value in net.inputs if value.name == name), None)
    if value is None:
        raise InvalidArgumentError(f"--input {word}: no input {name!r}; there are {', '.join(net.input_names)}")
    wanted = dtypes.numpy_dtype(value.dtype)
    _check_shape(value, array.shape, f"--input {word}")
    if array.dtype != wanted:
        # files of Python's numbers hold 64 bits, and NumPy knows no bf16; other conversions lose values
        if not (array.dtype.kind == "f" and wanted.kind in "fV") and not np.can_cast(array.dtype, wanted, "same_kind"):
            raise InvalidArgumentError(
                f"--input {word}: input {name!r} is {value.dtype}, and the file has {array.dtype}"
            )
        array = array.astype(wanted)
    return array


def _check_shape(value: Value, shape: Sequence[int], where: str) -> None:
    if len(shape) != len(value.shape) or any(
        want is not None and want != size for want, size in zip(value.shape, shape, strict=True)
    ):
        batch = f"; with a batch of one it is 1,{spelt(shape)}" if len(shape) + 1 == len(value.shape) else ""
        raise InvalidArgumentError(
            f"{where}: input {value.name!r} has the shape {spelt(value.shape)}, got {spelt(shape)}{batch}"
        )


def random(net: Net, stated: Sequence[str] = (), others: Iterable[str] = ()) -> list[Array]:
    """Returns random arrays for the inputs of a net, the same in each process.

    Args:
        stated: "NAME=SIZE,SIZE..." for inputs with dynamic dims.
        others: names of inputs whose arrays are not used, so that their sizes need not be known.

    Raises:
        InvalidArgumentError: a shape that does not fit, or an unknown size.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for word in stated:
        name, sizes = _named(net, word, "--shape")
        try:
            shapes[name] = tuple(int(size) for size in sizes.split(",") if size.strip() or "," not in sizes)
        except ValueError:
            raise InvalidArgumentError(
                f"--shape {word}: expected {name}=SIZE,SIZE..., such as {name}=1,3,64,64"
            ) from None
        _check_shape(next(value for value in net.inputs if value.name == name), shapes[name], f"--shape {word}")
    skipped = set(others)
    for value in net.inputs:
        if value.name in skipped:
            shapes[value.name] = ()
        elif None not in value.shape:
            shapes.setdefault(value.name, tuple(size or 0 for size in value.shape))
        elif value.name not in shapes:
            raise InvalidArgumentError(
                f"input {value.name!r} has the shape {spelt(value.shape)}; pass the unknown sizes by "
                f"--shape {value.name}={spelt(size or 1 for size in value.shape)}"
            )
    rng = np.random.default_rng(_SEED)
    # small positive numbers: they fit into integers, and roots and logarithms are defined
    return [rng.uniform(0.1, 2.0, shapes[value.name]).astype(dtypes.numpy_dtype(value.dtype)) for value in net.inputs]


def results_of(net: Net, arrays: Sequence[Array]) -> dict[str, Any]:
    """Calls a net; returns its results by the names of outputs."""
    return net.run(dict(zip(net.input_names, arrays, strict=True)))
