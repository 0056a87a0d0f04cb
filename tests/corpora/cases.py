"""Where the corpora are, and their files as lists of cases."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "DNNL_GRAPH_OPS_CORPORA"
FOLDER = Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None

needed = pytest.mark.skipif(FOLDER is None, reason=f"{VARIABLE} is not set")


def read_json(name: str) -> Any:
    """The file's content; an empty list without the corpora, whose tests are skipped."""
    return json.loads((FOLDER / name).read_text()) if FOLDER else []


def read_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()] if FOLDER else []


def named(cases: Iterable[dict[str, Any]], key: str) -> list[Any]:
    """The cases as parameters, named by one of their fields."""
    return [pytest.param(case, id=str(case[key])) for case in cases]
