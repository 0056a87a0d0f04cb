"""What a bug report needs: versions, libraries, devices, instruction set, threads."""

from __future__ import annotations

import os
import platform
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import Error
from . import cpu, follow
from .engines import engine, engines
from .libraries import candidates, load_error
from .threads import get_num_threads

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
        "threads": get_num_threads(),
        "runtimes": [_runtime(runtime) for runtime in candidates()],
        "engines": [repr(item) for item in engines()],
        "sycl_thread": follow.state(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)},
    }


def _runtime(runtime: Any) -> dict[str, Any]:
    problem = load_error(runtime)
    if problem is not None:
        return {"name": runtime.name, "path": runtime.path, "error": problem}
    return {
        "name": runtime.name,
        "path": runtime.path,
        "version": runtime.version,
        "cpu_runtime": runtime.cpu_runtime,
        "gpu_runtime": runtime.gpu_runtime,
    }


@cache
def cpu_model() -> str:
    """The CPU's name as the kernel gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")
    except OSError:
        return "unknown"


def _cpu() -> dict[str, Any]:
    found: dict[str, Any] = {"model": cpu_model(), "cores": os.cpu_count()}
    try:
        default = engine("cpu")
    except Error as error:
        return {**found, "error": str(error)}
    native = {dtype: cpu.computes_natively(dtype, default) for dtype in ("bf16", "f16")}
    return {**found, "isa": cpu.isa(default), "native": native}
