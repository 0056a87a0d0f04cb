"""Collects the facts of a bug report: versions, libraries, devices, instruction set, threads."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from .._core import __file__ as _library
from .._core import kernels
from ..errors import Error
from . import cpu, defects, follow, rates
from .cpuinfo import cpu_family, cpu_model
from .engines import engine, engines
from .libraries import candidates, load_error
from .threads import get_num_threads

# of narrow products and of products of integers, the best first
BF16_SETS = ("amx", "avx512bf16")
INT8_SETS = ("amxint8", "avx512vnni", "avxvnni", "avx2words")
# the name under which ONNX Runtime knows the extension module
EXECUTION_PROVIDER = "DnnlGraphOpsExecutionProvider"
_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")  # the second is oneDNN's older name
_VARIABLES = ("DNNL_", "ONEDNN_", "OMP_", "GOMP_", "KMP_", "OCL_ICD")


@cache
def version() -> str:
    """The version of this package."""
    import re
    from importlib import metadata
    from pathlib import Path

    try:
        return metadata.version("dnnl-graph-ops")
    except metadata.PackageNotFoundError:
        # built in its source folder and never installed
        project = Path(__file__).parents[2] / "pyproject.toml"
        stated = re.search(r'^version = "(.+)"', project.read_text("utf-8"), re.M) if project.exists() else None
        return stated[1] if stated else "unknown"


def info() -> dict[str, Any]:
    """Versions, libraries, engines, CPU, threads and the environment variables that matter."""
    return {
        "package": version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
        "platform": platform.platform(),
        "cpu": _cpu(),
        "own_kernels": own_kernels(),
        "rates": _rates(),
        "threads": get_num_threads(),
        "runtimes": [_runtime(runtime) for runtime in candidates().values()],
        "engines": [repr(item) for item in engines()],
        "sycl_thread": follow.state(),
        "onnxruntime": _onnxruntime(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)},
    }


def _onnxruntime() -> dict[str, str]:
    """Returns the name of the execution provider and its library, and the installed version of ONNX Runtime."""
    from importlib import metadata

    try:
        installed = metadata.version("onnxruntime")
    except metadata.PackageNotFoundError:
        installed = "none"
    return {"provider": EXECUTION_PROVIDER, "library": _library, "version": installed}


def _rates() -> dict[str, Any]:
    """Returns the GMAC/s of one thread by unit, and where they are from."""
    try:
        known = rates.of(engine("cpu"))
    except Error as error:
        return {"error": str(error)}
    if known is None:
        return {"source": "none: estimates are those of the machine that the constants were fitted on"}
    return {"source": known.source, "date": known.date, "GMAC/s": dict(known.rates)}


def own_kernels() -> dict[str, Any]:
    """By dtype the instruction set that builtin kernels multiply with here, and under "not" why no better one.

    What has no narrow products, as depthwise layers, computes in bf16 as in f32.
    """
    try:
        wide, reason = kernels.isa(), kernels.isa_reason()
        narrow, lacking = kernels.bf16_isa()
        integer, missing = kernels.int8_isa()
    except Error as error:
        return {"error": str(error)}
    wider = {"avx512": reason} if reason else {}
    better = _better(BF16_SETS, narrow, lacking)
    sets = {
        "f32": (wide, wider),
        "bf16": (narrow or wide, better if narrow else {**better, **wider}),
        "f16": (wide, {"avx512fp16": "builtin kernels convert f16 to f32", **wider}),
        "s8": (integer or "none", _better(INT8_SETS, integer, missing)),
    }
    return {dtype: {"set": name, "not": lost} if lost else {"set": name} for dtype, (name, lost) in sets.items()}


def _better(sets: Sequence[str], chosen: str, reason: str) -> dict[str, str]:
    """Why each set before the chosen one is not used."""
    return dict.fromkeys(sets[: sets.index(chosen)] if chosen in sets else sets, reason)


def _runtime(runtime: Any) -> dict[str, Any]:
    known, problem = {"name": runtime.name, "path": runtime.path}, load_error(runtime)
    if problem is not None:
        return {**known, "error": problem}
    return {
        **known,
        "version": runtime.version,
        "cpu_runtime": runtime.cpu_runtime,
        "gpu_runtime": runtime.gpu_runtime,
        "lacks": ", ".join(defects.lacking(runtime.version_info)),
        "works_around": [str(defect) for defect in defects.known(runtime.version_info)],
    }


def _cpu() -> dict[str, Any]:
    found: dict[str, Any] = {"model": cpu_model(), "family": cpu_family(), "cores": os.cpu_count()}
    try:
        default = engine("cpu")
    except Error as error:
        return {**found, "error": str(error)}
    native = {dtype: cpu.computes_natively(dtype, default) for dtype in ("bf16", "f16")}
    ignored = [f"{name}={os.environ[name]}" for name in _LIMITS if not cpu.is_known(os.environ.get(name, ""))]
    return {**found, "isa": cpu.isa(default), "native": native, **({"oneDNN ignores": ignored} if ignored else {})}
