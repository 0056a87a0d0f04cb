"""Reads the cost model's fitted constants: a file for each instruction set.

`python -m dnnl_graph_ops.bench.fit` writes a file, which says where and when it was fitted. For each compute dtype,
family of algorithms and direction it has the seconds on one thread of a product, a value, a run of channels, a weight,
and a weight packed at every call: the first fields of `cost.Counts`. Choices of algorithms depend on proportions alone,
so the seconds may be those of another machine; `pace` makes those of several dtypes comparable. Constants of `INTEGERS`
are numbers of products in f32 in place of seconds, by kind of work and instruction set (`cost.integers`).
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...runtime import cache_files, cpu
from ...runtime.cpuinfo import cpu_family, cpu_model

Prices = tuple[float, ...]
FIELDS = 5
INTEGERS = "s8"
# the dtypes whose constants stand for a dtype, the best first
INSTEAD = {"f16": ("f16", "bf16", "f32"), "bf16": ("bf16", "f32"), INTEGERS: (INTEGERS,)}

Key = tuple[str, str]  # family, direction; of integers: kind of work, instruction set or "library"
Constants = Mapping[Key, Prices]
Fits = Mapping[str, Constants]  # the constants of a file, by dtype


def package_file(key: str) -> Path:
    """Returns the path of the package's constants for a key, the field `fit` of `cpu.SETS`."""
    return Path(__file__).with_name(f"{key}.json")


def user_file(key: str) -> Path:
    """Returns the path at which `bench.fit --write` writes constants for this machine; they precede the package's."""
    return cache_files.folder("fits") / f"{key}.json"


@cache
def keys(isa: str) -> tuple[str, ...]:
    """Returns the keys of the files for an instruction set: its own first, then those of sets that it contains."""
    return tuple(dict.fromkeys((*(row.fit for row in cpu.contained(isa)), "avx2")))


class Fitted(NamedTuple):
    """The content of a file: the instruction set of its machine, and constants by dtype.

    `pace`: by dtype and direction, how many times the measured seconds of layers their estimates are (medians).
    `rates`: by unit (`runtime.rates`), GMAC/s that the constants imply; empty: this machine's own constants. `machine`:
    the name of the machine's record in `runtime.rates`, if there is one.
    """

    isa: str
    constants: Fits
    pace: Mapping[str, Mapping[str, float]] = {}
    rates: Mapping[str, float] = {}
    machine: str = ""


@cache
def source(isa: str, onednn: str, dtype: str) -> tuple[Fitted, str]:
    """Returns the file that has the constants of `find`, and the dtype that they were fitted to."""
    return next(_nearest(isa, onednn, dtype))


def find(isa: str, onednn: str, dtype: str) -> Constants:
    """Returns the constants for an instruction set, oneDNN release and dtype: the user's, or the package's nearest."""
    file, name = source(isa, onednn, dtype)
    return file.constants[name]


@cache
def of_integers(isa: str, onednn: str) -> Constants:
    """Returns the constants of `INTEGERS`, each from the first of the files of `find` that has it."""
    files = reversed(list(_nearest(isa, onednn, INTEGERS)))
    return {key: prices for file, name in files for key, prices in file.constants[name].items()}


def forget() -> None:
    """Forgets the user's constants."""
    source.cache_clear()
    of_integers.cache_clear()


def origin(isa: str, onednn: str, dtype: str) -> tuple[str, str]:
    """Returns the instruction set and dtype that the constants of `find` were fitted to: those asked for, or others."""
    file, name = source(isa, onednn, dtype)
    return file.isa, name


def pace(isa: str, onednn: str, dtype: str, direction: str) -> float:
    """Returns how many times the measured seconds estimates by `find` are; 1 where that is unknown.

    Estimates of two dtypes or directions are compared after each is divided by its own.
    """
    file, name = source(isa, onednn, dtype)
    return file.pace.get(name, {}).get(direction, 1.0)


def recorded(isa: str, onednn: str, dtype: str) -> tuple[str, str] | None:
    """Returns the key and dtype of the package's constants that `find` returns; None if `find` returns the user's.

    Only the package's constants have rows of recorded layers that correct them.
    """
    found = find(isa, onednn, dtype)
    named = ((key, name) for key in keys(isa) for name, constants in package(key).constants.items())
    return next((one for one in named if package(one[0]).constants[one[1]] is found), None)


def _nearest(isa: str, onednn: str, dtype: str) -> Iterator[tuple[Fitted, str]]:
    mine = _users(isa, onednn)
    for name in INSTEAD.get(dtype, ("f32",)):
        if mine is not None and name in mine:
            yield Fitted(isa, mine), name
        # a file is read where those before it lack the dtype
        for file in map(package, keys(isa)):
            if name in file.constants:
                yield file, name


@cache
def package(key: str) -> Fitted:
    """Returns the package's constants for a key; empty if it was fitted on no such machine."""
    path = package_file(key)
    if not path.exists():
        return Fitted("", {})
    content = json.loads(path.read_bytes())
    # files of the package are whole
    constants = parse(content, lambda values: tuple(map(float, values)))
    return Fitted(content["isa"], constants, content.get("pace", {}), content["rates"], content["machine"])


def _users(isa: str, onednn: str) -> Fits | None:
    """Returns the user's constants if they are for this CPU, instruction set and release, else None.

    A damaged file, or one that `_complete` refuses, is ignored with a RuntimeWarning.
    """
    path = user_file(keys(isa)[0])
    try:
        content = cache_files.read(path)
        wanted = {"cpu": cpu_model(), "cpu_family": cpu_family(), "isa": isa, "onednn": onednn}
        return _complete(content) if {name: content[name] for name in wanted} == wanted else None
    except OSError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        words = "are damaged or of another version and are ignored; `bench.fit --write` fits new ones"
        warnings.warn(f"the fitted constants in {path} {words}", RuntimeWarning, stacklevel=2)
        return None


def _complete(content: Any) -> Fits:
    """Returns the constants in the content of a file. ValueError: other families or directions than today's."""
    constants, known = parse(content), package("avx2").constants
    integers = constants.get(INTEGERS, {}).keys() <= known[INTEGERS].keys()
    if not integers or any(constants[name].keys() != known["f32"].keys() for name in constants if name != INTEGERS):
        raise ValueError("not every family of algorithms has its constants")
    return constants


def parse(content: Any, prices: Callable[[Any], Prices] | None = None) -> Fits:
    """Returns the constants in the content of a file; `prices`: reads those of a family, by default `seconds`.

    Content of another format raises ValueError, TypeError, KeyError or AttributeError.
    """
    read = prices or seconds
    return {
        dtype: {
            (family, direction): read(value)
            for direction, families in directions.items()
            for family, value in families.items()
        }
        for dtype, directions in content["constants"].items()
    }


def seconds(values: Any) -> Prices:
    """Returns the prices in the content of a file. ValueError: they are no finite numbers from 0 on, or too few."""
    if len(values) != FIELDS or not {int, float}.issuperset(map(type, values)):
        raise ValueError(values)
    # a sum with a NaN or an Inf is neither
    if not math.isfinite(sum(values)) or min(values) < 0:
        raise ValueError(values)
    return tuple(map(float, values))
