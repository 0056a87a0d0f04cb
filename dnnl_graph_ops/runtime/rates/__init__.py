"""Knows how fast one thread multiplies in each unit, so that constants fitted on one CPU serve another.

A unit is what does the multiplications of an algorithm: builtin kernels in f32 or bf16 ("builtin f32", "builtin bf16"),
or the library's convolutions or its MatMul in a dtype ("convolution bf16", "MatMul f16"). Two CPUs of one instruction
set may differ by a factor of four in one unit and be equal in another. A record holds the GMAC/s (billions of
multiply-adds a second) of a CPU by unit. The package has the records of the machines that its constants were fitted on,
and of others with recorded times. Other CPUs are measured once (`measure_by`), before the first choice of an algorithm,
and kept in the user's cache, where the first record written counts for all processes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..._core import kernels
from ...errors import Error, InvalidArgumentError, Timeout
from .. import cache_files, cpu
from ..cpuinfo import cpu_family, cpu_model
from ..engines import Engine

_FOLDER = Path(__file__).parent
VARIABLE = "DNNL_GRAPH_OPS_RATES"
OFF = "off"
# where a record is from, if not from a file: `Rates.source`
PACKAGE, MEASURED = "the package", "measured by this process"


def builtin(dtype: str) -> str:
    """Returns the unit of builtin kernels that multiply in a dtype."""
    return f"builtin {dtype}"


BUILTIN_F32 = builtin("f32")


class Machine(NamedTuple):
    """What rates are of: a CPU, and the library's instruction set and release."""

    cpu: str
    cpu_family: str
    isa: str
    onednn: str


# eq=False: records are compared by identity, so that they are cheap keys
@dataclass(frozen=True, eq=False)
class Rates:
    """The record of a machine. `rates`: GMAC/s of one thread, by unit. `source`: where the record is from."""

    machine: Machine
    date: str
    rates: Mapping[str, float]
    source: str


# measures the units of an engine: the rates, and whether the turns of measuring agree
Measure = Callable[[Engine], tuple[Mapping[str, float], bool]]

_measure: Measure | None = None
_records: dict[Engine, Rates | None] = {}
_lock = threading.RLock()
_measuring = False


def measure_by(measure: Measure) -> None:
    """Sets the function that measures the units of an engine's CPU."""
    global _measure
    _measure = measure


def forget() -> None:
    """Drops the records of this process, which are read or measured again when they are needed."""
    _records.clear()


def _release_lock() -> None:
    """Replaces the lock, which another thread of the parent may hold for ever, in a forked child."""
    global _lock, _measuring
    _lock, _measuring = threading.RLock(), False


os.register_at_fork(after_in_child=_release_lock)


def of(engine: Engine) -> Rates | None:
    """Returns the rates of this CPU with the library of an engine.

    They are those of the file that the variable DNNL_GRAPH_OPS_RATES names, of the package's record of this CPU, of the
    user's cache, or are measured now. None with "off", for devices, and where they cannot be measured.

    Raises:
        InvalidArgumentError: the variable names a file without rates.
    """
    if engine in _records:
        return _records[engine]
    global _measuring
    with _lock:
        if engine not in _records:
            if _measuring:
                return None  # what measures asks too
            _measuring = True
            try:
                _records[engine] = _record(engine)
            finally:
                _measuring = False
        return _records[engine]


def _record(engine: Engine) -> Rates | None:
    path = os.environ.get(VARIABLE, "")
    if path.lower() == OFF or not engine.on_host:
        return None
    if path:
        return _of_file(Path(path))
    here = Machine(cpu_model(), cpu_family(), cpu.isa(engine), engine.runtime.version)
    names = sorted(name.removesuffix(".json") for name in os.listdir(_FOLDER) if name.endswith(".json"))
    record = next((record for record in map(package, names) if record.machine == here), None)
    return record or _kept(user_file(here), here) or _measured(engine, user_file(here), here)


def _of_file(path: Path) -> Rates:
    try:
        return parse(cache_files.read(path), str(path))
    except (OSError, *_DAMAGED) as error:
        raise InvalidArgumentError(
            f"{VARIABLE}: {path} has no rates of a CPU ({error}); name a file that `dnnl-graph-ops info` shows as the "
            f"source of rates, or set the variable to {OFF!r}"
        ) from None


def user_file(machine: Machine) -> Path:
    """Returns the path of a machine's record in the user's cache.

    The instruction sets of builtin kernels are part of its name, too.
    """
    key = (*machine, kernels.isa(), kernels.bf16_isa()[0], kernels.int8_isa()[0])
    words = re.sub(r"[^a-z0-9]+", "_", " ".join(machine[:2]).lower()).strip("_")
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    return cache_files.folder("rates") / f"{words}_{digest}.json"


_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def _kept(path: Path, here: Machine) -> Rates | None:
    """Returns the record in a file of the user's cache; None if there is none.

    A damaged file is ignored with a RuntimeWarning.
    """
    try:
        record = parse(cache_files.read(path), str(path))
        if record.machine != here:
            raise ValueError("the rates of another machine")
        return record
    except OSError:
        return None
    except _DAMAGED:
        warnings.warn(f"the rates in {path} are damaged and are ignored: delete the file", RuntimeWarning, stacklevel=2)
        return None


def _measured(engine: Engine, path: Path, here: Machine) -> Rates | None:
    """Measures the CPU, and keeps the record if its turns agree; returns the record that another process kept first."""
    if _measure is None:
        return None
    try:
        rates, sure = _measure(engine)
    except Timeout:
        raise
    except (Error, MemoryError):
        return None
    if BUILTIN_F32 not in rates:
        return None
    record = Rates(here, date.today().isoformat(), rates, MEASURED)
    if sure and not path.exists():
        content = {**here._asdict(), "date": record.date, "rates": dict(rates)}
        with suppress(OSError):
            cache_files.write_first(path, json.dumps(content, indent=1))
            return _kept(path, here) or record
    return record


@cache
def package(name: str) -> Rates:
    """Returns a record of the package; `name`: of its file."""
    return parse(json.loads((_FOLDER / f"{name}.json").read_bytes()), PACKAGE)


def parse(content: Any, source: str) -> Rates:
    """Returns the record in the content of a file.

    Content of another format raises ValueError, TypeError, KeyError or AttributeError.
    """
    rates = {str(unit): float(rate) for unit, rate in content["rates"].items()}
    if BUILTIN_F32 not in rates or not all(0 < rate < math.inf for rate in rates.values()):
        raise ValueError(f"rates are positive numbers by unit, {BUILTIN_F32!r} among them")
    machine = Machine(*(str(content[name]) for name in Machine._fields))
    return Rates(machine, str(content["date"]), rates, source)
