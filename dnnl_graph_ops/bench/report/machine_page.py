"""A page of a published file: the means of its suites, and every row in one table, losers first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...errors import InvalidArgumentError
from ..document import read_json
from ..machine import describe, threads_text
from ..peers.registry import is_rival
from ..statistics import geometric_mean
from . import table
from .summary import DIRECTION_NAMES

SCHEMA: Final = "dnnl_graph_ops.bench.machine"
SCHEMA_VERSION: Final = 1
_CLOCKS: Final = {"process": "of the processor", "wall": "of the clock"}
_KEYS: Final = ("suite", "direction", "dtype")

Record = Mapping[str, Any]


def load(path: str | Path) -> dict[str, Any]:
    """A file that `publish` wrote.

    Raises:
        InvalidArgumentError: it is none, or of another version.
    """
    record = read_json(path)
    if not isinstance(record, dict) or (record.get("schema"), record.get("schema_version")) != (SCHEMA, SCHEMA_VERSION):
        raise InvalidArgumentError(f"{path}: not written by this version of bench publish; measure again")
    return record


def page(record: Record) -> str:
    """Markdown."""
    rows = sorted(record["rows"], key=_standing)
    machine, method = record["machine"], record["method"]
    peers = list(dict.fromkeys(name for row in rows for name in row["others"]))
    mark = f"{record['contended']} of them disturbed by others in most of their rounds (*)"
    rounds = f"{method['min_rounds']} to {method['max_rounds']} rounds"
    parts = [
        f"# {machine['cpu']} ({machine['isa']}), {threads_text(machine['threads'])}, {record['date']}",
        "",
        *_behind(rows),
        "",
        f"- {describe(machine)}, family {machine['cpu_family']}; {machine['kernel']}; Python {machine['python']}, "
        f"NumPy {machine['numpy']}; governor {machine['governor']}; load at the start {machine['load']:.1f}",
        f"- {', '.join(f'{name} {version}' for name, version in record['versions'].items())}",
        f"- {record['measured']} measurements in {record['seconds']} s, {mark}",
        f"- A process each, bursts of at most {1e3 * method['burst']:.0f} ms in shuffled turns, {rounds}, results "
        f"compared first, times {_CLOCKS[method['clock']]}, imports not counted. Ours is a call from Python, native "
        "the same without Python.",
        "- Columns of others are their time, or memory, over ours: above 1 this package is better. Fastest is the one "
        "to beat of those in the same precision, with its 95 % interval.",
        "",
        *_means(rows),
        "## Every row, losers first",
        "",
        *table.piped(*_rows(rows, peers)),
    ]
    return "\n".join(parts) + "\n"


def _behind(rows: Sequence[Record]) -> Iterator[str]:
    """In how many rows somebody else is better, and by how much at most."""
    compared = [(best, row) for row in rows if row["ours"] is not None and (best := fastest(row))]
    behind = [pair for pair in compared if pair[0][0] < 1]
    failed = sum(row["ours"] is None for row in rows)
    said = f"Behind the fastest of the others in the same precision in {len(behind)} of {len(compared)} rows"
    if behind:
        (least, name), row = min(behind, key=lambda pair: pair[0])
        said += f", at most in {row['name']} ({row['suite']}): {least:.2f} against {name}"
    yield f"{said}; {failed or 'none'} failed here."


def ratio(row: Record, peer: str) -> float | None:
    """Others' over ours."""
    value = row["others"].get(peer)
    return value[0] if isinstance(value, list) else value if isinstance(value, float) else None


def fastest(row: Record) -> tuple[float, str] | None:
    """The least ratio of those who compute in the same precision, and whose it is."""
    known = [(value, name) for name in row["others"] if is_rival(name) and (value := ratio(row, name)) is not None]
    return min(known, default=None)


def _standing(row: Record) -> tuple[float, str]:
    """Returns the sort key of a row: failures first, then losers; rows without a peer last."""
    best = fastest(row)
    return (best[0] if best else math.inf) if row["ours"] is not None else -math.inf, row["name"]


def _means(rows: Sequence[Record]) -> Iterator[str]:
    """A section on suites of at least two rows that somebody else did too."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        if row["ours"] is not None and (best := fastest(row)):
            groups.setdefault(tuple(row[key] for key in _KEYS), []).append(best[0])
    body = [
        [suite, DIRECTION_NAMES.get(direction, ""), dtype, str(len(found)), f"{geometric_mean(found):.2f}",
         f"{min(found):.2f}", f"{sum(value >= 1 for value in found)}"]
        for (suite, direction, dtype), found in sorted(groups.items(), key=lambda item: geometric_mean(item[1]))
        if len(found) > 1
    ]  # fmt: skip
    if body:
        heads = ["suite", "direction", "dtype", "rows", "fastest / ours, geometric mean", "lowest", "ahead in"]
        yield from ("## Means, lowest first", "", *table.piped(heads, body), "")


def _rows(rows: Sequence[Record], peers: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    body = [[*_head(row), *_fastest_cells(row), *(_cell(row, peer) for peer in peers)] for row in rows]
    return ["layer", "suite", "dir", "dtype", "ours", "native", "layout", "fastest", "against", *peers], body


def _head(row: Record) -> Iterator[str]:
    yield f"{row['name']}{' *' if 'contended' in row['marks'] else ''}"
    yield row["suite"]
    yield row["direction"]
    yield row["dtype"]
    yield "failed" if row["ours"] is None else _quantity(row["ours"], row["unit"])
    yield _quantity(row["native"], row["unit"]) if "native" in row else ""
    yield row["by"]


def _quantity(value: float, unit: str) -> str:
    return f"{1e3 * value:.3g} us" if unit == "ms" and value < 0.1 else f"{value:g} {unit}"


def _fastest_cells(row: Record) -> tuple[str, str]:
    best = fastest(row)
    if best is None or row["ours"] is None:
        return "", ""
    given = row["others"][best[1]]
    within = f" [{given[1]:.2f} {given[2]:.2f}]" if isinstance(given, list) else ""
    return f"{best[0]:.2f}{within}", best[1]


def _cell(row: Record, peer: str) -> str:
    value = ratio(row, peer)
    return f"{value:.2f}" if value is not None else str(row["others"].get(peer, ""))
