"""The page of a published file: means of its suites and all rows, the lowest speedup first; README's tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...errors import InvalidArgumentError
from ...passes.mixed_precision import AUTO
from ..document import read_json
from ..machine import describe, threads_text
from ..peers.registry import LENIENT, is_rival
from ..statistics import geometric_mean
from . import table
from .summary import DIRECTION_NAMES

SCHEMA: Final = "dnnl_graph_ops.bench.machine"
SCHEMA_VERSION: Final = 1
_CLOCKS: Final = {"process": "process times", "wall": "wall times"}
_KEYS: Final = ("suite", "direction", "dtype")
# by family and model, as CPUID has them
_CORES: Final = {
    "6/106": "Ice Lake",
    "6/143": "Sapphire Rapids",
    "6/173": "Granite Rapids",
    "6/207": "Emerald Rapids",
    "26/2": "Zen 5",
}
# rows of the short table: its words, and the suite; all in f32
_WAITS: Final = (
    ("a call of a PyTorch model", "PyTorch, a call"),
    ("a training step of a PyTorch model", "PyTorch, a training step"),
    ("a call of an ONNX model", "ONNX, a call"),
    ("dynamic shapes: a call with a size that was called before", "sizes, a later call"),
    ("dynamic shapes: each size is called once", "sizes, each called once"),
    ("load and compile an ONNX model, and call it once", "ONNX, load, compile and first call"),
    ("load and compile an ONNX model", "ONNX, load and compile"),
)

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
    dtypes = {row["dtype"] for row in rows}
    mark = f"{record['contended']} of them disturbed by other processes in most of their rounds (*)"
    rounds = f"{method['min_rounds']} to {method['max_rounds']} rounds"
    parts = [
        f"# {machine['cpu']} ({machine['isa']}), {threads_text(machine['threads'])}, {record['date']}",
        "",
        _standing_sentence(rows),
        "",
        f"- {describe(machine)}, family {machine['cpu_family']}; {machine['kernel']}; Python {machine['python']}, "
        f"NumPy {machine['numpy']}; governor {machine['governor']}; load at the start {machine['load']:.1f}",
        f"- {', '.join(f'{name} {version}' for name, version in record['versions'].items())}{_commit(record)}",
        f"- {record['measured']} measurements in {record['seconds']} s, {mark}",
        f"- Each framework runs in a process of its own, in turns of at most {1e3 * method['burst']:.0f} ms in random "
        f"order, {rounds}. Results are compared first. Times are {_CLOCKS[method['clock']]}, without imports. "
        "`time` is a call from Python, `native` the same call without Python.",
        "- Columns of peers are speedups: the peer's time, or memory, divided by this package's. `lowest` is the "
        "speedup against the fastest peer in the same precision, with its 95 % interval.",
        *(["- In rows of dtype `auto` each framework chooses its precision."] if AUTO in dtypes else []),
        "",
        *_means_section(rows),
        "## All rows, lowest speedup first",
        "",
        *table.piped(*_rows(rows, peers)),
    ]
    return "\n".join(parts) + "\n"


def _commit(record: Record) -> str:
    return f"; commit {record['commit']}" if record.get("commit") else ""


def overview(records: Sequence[Record]) -> list[str]:
    """README's table: the mean speedup and the lowest one of each suite, in a column for each file.

    Rows are sorted by their lowest mean; suites with a single row that a peer ran too are left out.
    """
    means = [_means(record["rows"]) for record in records]
    keys = sorted(set().union(*means), key=lambda key: (min(geometric_mean(m[key]) for m in means if key in m), key))
    body = [[*_suite_cells(key), *(_mean_and_lowest(m.get(key)) for m in means)] for key in keys]
    heads = [head_of(record) for record in records]
    compared = [_compared(record["rows"]) for record in records]
    slower = [f"{sum(speedup < 1 for speedup, _, _ in rows)} of {len(rows)}" for rows in compared]
    return table.piped(
        ["suite", "direction", "dtype", *heads], [*body, ["rows slower than the fastest peer", "", "", *slower]]
    )


def short_table(records: Sequence[Record]) -> list[str]:
    """README's first table: the mean speedup of each thing that a user waits for, and the lowest in parentheses.

    There is a column for each file; machines of one name have their ISA as well.
    """
    means = [_means(record["rows"]) for record in records]
    body = [[words, *(_mean_and_lowest(m.get((suite, "", "f32"))) for m in means)] for words, suite in _WAITS]
    machines = [record["machine"] for record in records]
    names = [f"{_cpu(machine)}{_threads(machine)}" for machine in machines]
    heads = [
        f"{name}, {machine['isa']}" if names.count(name) > 1 else name
        for name, machine in zip(names, machines, strict=True)
    ]
    return table.piped(["", *heads], body)


def head_of(record: Record) -> str:
    """Returns a machine in a line: CPU, ISA, threads if there are several, date and commit."""
    machine, commit = record["machine"], record.get("commit")
    named = f"{_cpu(machine)} ({machine['isa']}){_threads(machine)}"
    return f"{named}, {record['date']}{f', {commit}' if commit else ''}"


def _cpu(machine: Record) -> str:
    """Returns the CPU's name and its core's, or the numbers of its family where the core has no name here."""
    name, family = re.sub(r"\((?:R|TM)\)", "", machine["cpu"]), machine["cpu_family"]
    core = _CORES.get(family.rpartition("/")[0])
    return f"{name.removesuffix(' Processor')}, {core}" if core else f"{name} {family}"


def _threads(machine: Record) -> str:
    return f", {threads_text(machine['threads'])}" if machine["threads"] > 1 else ""


def _mean_and_lowest(speedups: Sequence[float] | None) -> str:
    return f"{geometric_mean(speedups):.2f} ({min(speedups):.2f})" if speedups else ""


def _compared(rows: Sequence[Record]) -> list[tuple[float, str, Record]]:
    """Returns the lowest speedup of each row that a peer ran too, the peer's name, and the row."""
    return [(*best, row) for row in rows if row["ours"] is not None and (best := fastest(row))]


def _standing_sentence(rows: Sequence[Record]) -> str:
    compared = _compared(rows)
    slower = [each for each in compared if each[0] < 1]
    failed = sum(row["ours"] is None for row in rows)
    said = f"{len(slower)} of {len(compared)} rows are slower, or larger, than the fastest peer in the same precision"
    if slower:
        least, peer, row = min(slower, key=lambda each: each[0])
        said += f"; the lowest speedup is {least:.2f} ({row['name']}: {row['suite']}, against {peer})"
    return f"{said}. {f'{failed} rows' if failed > 1 else 'One row' if failed else 'No row'} failed."


def ratio(row: Record, peer: str) -> float | None:
    """The speedup against a peer: its time, or memory, divided by this package's."""
    value = row["others"].get(peer)
    return value[0] if isinstance(value, list) else value if isinstance(value, float) else None


def fastest(row: Record) -> tuple[float, str] | None:
    """The lowest speedup against the peers in the same precision, and the peer's name."""
    known = [
        (value, name) for name in row["others"] if _competes(row, name) and (value := ratio(row, name)) is not None
    ]
    return min(known, default=None)


def _competes(row: Record, peer: str) -> bool:
    """Whether a peer computes in the row's precision; where both choose it, it is not the same for all."""
    return is_rival(peer) or (row["dtype"] == AUTO and peer == LENIENT)


def _standing(row: Record) -> tuple[float, str]:
    """Returns the sort key of a row: failures first, then losers; rows without a peer last."""
    best = fastest(row)
    return (best[0] if best else math.inf) if row["ours"] is not None else -math.inf, row["name"]


def _means(rows: Sequence[Record]) -> dict[tuple[str, ...], list[float]]:
    """The speedups of each suite, direction and dtype with at least two rows that a peer ran too."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for speedup, _, row in _compared(rows):
        groups.setdefault(tuple(row[key] for key in _KEYS), []).append(speedup)
    return {key: speedups for key, speedups in groups.items() if len(speedups) > 1}


def _suite_cells(key: tuple[str, ...]) -> list[str]:
    suite, direction, dtype = key
    return [suite, DIRECTION_NAMES.get(direction, ""), dtype]


def _means_section(rows: Sequence[Record]) -> Iterator[str]:
    body = [
        [*_suite_cells(key), str(len(speedups)), f"{geometric_mean(speedups):.2f}", f"{min(speedups):.2f}",
         f"{sum(value >= 1 for value in speedups)}"]
        for key, speedups in sorted(_means(rows).items(), key=lambda item: geometric_mean(item[1]))
    ]  # fmt: skip
    if body:
        heads = ["suite", "direction", "dtype", "rows", "mean speedup", "lowest", "faster in"]
        yield from ("## Means, lowest first", "", *table.piped(heads, body), "")


def _rows(rows: Sequence[Record], peers: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    body = [[*_head(row), *_fastest_cells(row), *(_cell(row, peer) for peer in peers)] for row in rows]
    return ["layer", "suite", "dir", "dtype", "time", "native", "layout", "lowest", "against", *peers], body


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
