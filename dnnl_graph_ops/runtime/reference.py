"""Keeps which choices of lowering the library computes by reference kernels: by CPU, instruction set and library.

`onednn.reference` makes the keys of choices.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from . import cache_files, cpu
from .cpuinfo import cpu_family, cpu_model
from .engines import Engine

Keys = frozenset[str]

# the most keys of a file, as files of `cache_files` are bounded
_MOST = 2048

# by the path of a library and its instruction set: the keys of the file when they were first needed, and later ones
_KEYS: dict[tuple[str, str], Keys] = {}


def keys(engine: Engine) -> Keys:
    """Returns the keys of the choices that are known to run by reference kernels on an engine."""
    if engine.kind != "cpu":
        return frozenset()
    place = engine.runtime.path, cpu.isa(engine)
    if place not in _KEYS:
        _KEYS[place] = frozenset(_read(user_file(engine)))
    return _KEYS[place]


def remember(engine: Engine, seen: Collection[str]) -> None:
    """Adds keys to those of an engine; for this process alone if the user's cache cannot be written."""
    _KEYS[engine.runtime.path, cpu.isa(engine)] = keys(engine).union(seen)
    path = user_file(engine)
    # other processes may have written to the file since it was read
    listed = list(dict.fromkeys((*_read(path), *sorted(seen))))[-_MOST:]
    with suppress(OSError):
        cache_files.write(path, json.dumps({"keys": listed}))


def forget() -> None:
    """Drops the keys of this process; the files stay."""
    _KEYS.clear()


def user_file(engine: Engine) -> Path:
    """Returns the path of an engine's keys."""
    runtime = engine.runtime
    machine = hashlib.sha256(f"{cpu_model()} {cpu_family()} {cpu.isa(engine)}".encode()).hexdigest()[:16]
    return cache_files.folder("reference") / f"{runtime.cpu_runtime}-{runtime.version}-{machine}.json"


def _read(path: Path) -> list[str]:
    try:
        listed = cache_files.read(path)["keys"]
        if not all(isinstance(key, str) for key in listed):
            raise TypeError(path)
        return list(listed)
    except OSError:
        return []
    except (ValueError, TypeError, KeyError, RecursionError):
        warnings.warn(
            f"the known reference kernels in {path} are damaged and are ignored", RuntimeWarning, stacklevel=2
        )
        return []
