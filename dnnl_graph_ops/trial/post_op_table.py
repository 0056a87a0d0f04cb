"""Measures the post-ops of a library in child processes, and writes their largest errors as a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from ..program.post_op_errors import name_of
from ..runtime import libraries
from .post_ops import CASES, DTYPES

# errors are written as finite numbers
_MOST = 1e40
_PAIRS = len(CASES) * len(DTYPES)

Line = dict[str, Any]


def measure(path: str | None, limit: str, log: Path) -> tuple[str, str]:
    """Appends the measurements of a limit to a log that lacks them; returns the library's runtime and release."""
    library = next(_child(path, limit, _PAIRS))
    if library["isa"] not in {line["isa"] for line in read(log)}:
        lines = list(_measured(path, limit))
        with log.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line | {"isa": library["isa"]}) + "\n" for line in lines)
    return library["runtime"], library["onednn"]


def _measured(path: str | None, limit: str) -> Iterator[Line]:
    """Yields the measurements of a limit; after a crash another process continues with the next case."""
    start = 0
    while start < _PAIRS:
        for line in _child(path, limit, start):
            if "head" in line:
                yield line
            start = line.get("next", start)
        start += 1


def _child(path: str | None, limit: str, start: int) -> Iterator[Line]:
    """Yields the lines of a child process, up to its end or a crash.

    Raises:
        SystemExit: the process ended for another reason.
    """
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": limit}
    if path is not None:
        environment[libraries.ENVIRONMENT] = path
    command = [sys.executable, "-m", f"{__package__}.post_ops", str(start)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield from map(json.loads, child.stdout)
    if child.returncode > 0:
        raise SystemExit(f"a process that measures post-ops ended with status {child.returncode}")


def read(log: Path) -> list[Line]:
    """Returns the measurements in a log."""
    lines: list[Line] = list(map(json.loads, log.read_text("utf-8").splitlines())) if log.exists() else []
    return [line for line in lines if "head" in line]


def text(lines: Iterable[Line]) -> str:
    """Returns the text of a table for `program.post_op_errors`: the worst of all cases, by instruction set."""
    worst: dict[tuple[str, str, str, str], Line] = {}
    for line in lines:
        if "ulps" in line:
            attrs = {"mode": line["mode"]} if "mode" in line else {}
            key = line["isa"], line["head"], line["dtype"], name_of(line["kind"], attrs)
            worst[key] = _worse(worst.get(key, line), line)
    rows: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for (isa, head, dtype, post_op), line in worst.items():
        nan = ["made"] if line["made"] else ["lost"] if line["lost"] else []
        rows.setdefault(isa, {}).setdefault(f"{head} {dtype}", {})[post_op] = [_rounded(line["ulps"]), *nan]
    sets = []
    for isa, by_head in rows.items():
        described = ",\n  ".join(f"{json.dumps(head)}: {json.dumps(ops)}" for head, ops in by_head.items())
        sets.append(f"{json.dumps(isa)}: {{\n  {described}}}")
    return "{" + ",\n".join(sets) + "}\n"


def _worse(first: Mapping[str, Any], second: Mapping[str, Any]) -> Line:
    return {"ulps": max(first["ulps"], second["ulps"])} | {n: first[n] or second[n] for n in ("lost", "made")}


def _rounded(ulps: float) -> float:
    """Rounds an error up to two digits."""
    if not 0 < ulps < _MOST:
        return min(ulps, _MOST)
    digits = floor(log10(ulps)) - 1
    rounded = float(f"{ceil(ulps / 10.0**digits)}e{digits}")
    return rounded
