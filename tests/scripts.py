"""The scripts of benchmarks/ as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def script(name: str) -> Any:
    """Returns benchmarks/`name`.py, imported under a name that no module has."""
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses and named tuples look their module up
    sys.modules[spec.name] = module
    # scripts import their neighbours
    sys.path.insert(0, str(FOLDER))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module
