"""Results over time: a line a run in a file, and named baselines to compare with."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError
from .document import Document, check_writable
from .machine import describe
from .problem import OPS, way
from .report import summary


def append(document: Document, path: str | Path) -> None:
    """Adds one line: when, where, versions, geometric means, and our time of every row."""
    check_writable(path)
    record = {
        "created": document.created,
        "machine": describe(document.machines[0]) if document.machines else "",
        "versions": document.versions,
        "means": [
            {"op": m.op, "direction": m.direction, "dtype": m.dtype, "peer": m.peer, "mean": m.mean, "rows": m.count}
            for m in summary.lines(document)
            if m.what == "best layouts"
        ],
        "times": {row.key: row.own.median for row in document if row.own is not None},
    }
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def read(path: str | Path) -> list[dict[str, Any]]:
    """Raises InvalidArgumentError for a file that is not a history."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines if line.strip()]
        if not all(isinstance(r, dict) and "means" in r for r in records):
            raise ValueError("not made by --history")
        return records
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"history {path}: cannot be read ({error})") from None


def text(records: list[dict[str, Any]]) -> str:
    """Mean ratios by date, one line a run."""
    lines = []
    for record in records:
        own = record["versions"].get("dgo", {}).get("dnnl_graph_ops", "?")
        means = "  ".join(
            f"{way(m.get('op', OPS[0]), m['direction'])} {m['dtype']} {m['peer']} {m['mean']:.2f}"
            for m in record["means"]
        )
        lines.append(f"{record['created']}  {own}  {means or 'no peers'}  ({len(record['times'])} rows)")
    return "\n".join(lines) + "\n" if lines else "no runs yet\n"


def baseline_path(name: str) -> Path:
    """Where `--save-baseline NAME` keeps a result: the XDG state directory of the user."""
    if not re.fullmatch(r"[\w.-]+", name):
        raise InvalidArgumentError(f"baseline {name!r}: letters, digits, '.', '-' and '_' only")
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(root) / "dnnl_graph_ops" / "bench" / f"{name}.json"


def save_baseline(document: Document, name: str) -> Path:
    path = baseline_path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(f"baseline {name!r}: cannot be written ({error})") from None
    document.save(path)
    return path


def load(name_or_path: str) -> Document:
    """A result by path, or a baseline by name."""
    if Path(name_or_path).is_file():
        return Document.load(name_or_path)
    if re.fullmatch(r"[\w.-]+", name_or_path) and baseline_path(name_or_path).is_file():
        return Document.load(baseline_path(name_or_path))
    raise InvalidArgumentError(f"{name_or_path}: neither a result file nor a saved baseline")
