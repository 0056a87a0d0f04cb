"""The figures of one machine and day: every suite in bounded time, most informative rows first, as one small file.

`run` measures and writes STEM.json and its page STEM.md. The full results lie in the folder STEM next to them; a later
call with the same machine, threads and day goes on from them.
"""

from __future__ import annotations

import datetime
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..passes.mixed_precision import AUTO
from ..progress import Progress
from ..words import counted
from . import machine, models, pool, streams, suite, zoo
from .cases import Wanted
from .descriptor import parse
from .document import Document, json_lines, read_json, write_text
from .options import Options
from .peers.registry import LENIENT, LITERAL, OWN
from .problem import DIRECTIONS, OPS
from .quantized import DTYPE
from .report import machine_page
from .rows import Entry, Row
from .runner import run_wanted
from .statistics import interval_within
from .streams import Stream

_SEED: Final = 7
# layers so small that a call is all that they take
_CALLS: Final = ("--conv mb1ic1ih1oc1oh1kh1nCall/1x1", "--conv mb1ic16ih8oc16oh8kh3ph1nCall/3x3",
                 "--deconv mb1ic16ih8oc16oh16kh2sh2nCall/2x2")  # fmt: skip
_CALL: Final = "call"
# models of the zoo that come first, and those that are called with many sizes
_FIRST: Final = ("unet", "hifigan_v2", "encodec_decoder", "resnet18", "edsr", "mobilenet", "dcgan", "vae_decoder")
_LENGTHS: Final = {
    "hifigan_v2": "20:120x12", "convtranspose1d": "20:1019x40", "unet": "64:192x8", "encodec_decoder": "20:120x12",
}  # fmt: skip
_SUITES: Final = dict(zip(OPS, ("transposed", "ordinary"), strict=True))
_MEGA: Final = 1e6
# share of the time for models that several streams call, and the seconds of each row of these
_STREAMS_SHARE: Final = 0.06
_STREAM_SECONDS: Final = 2.0
_FILES: Final = ("onnxruntime", "openvino", LENIENT, "torch")
_STREAM_PEERS: Final = (OWN, "onnxruntime")
# this package in the precision that it chooses
_OWN_AUTO: Final = f"{OWN} {AUTO}"
# what the published file keeps of `machine.record`
_MACHINE: Final = (
    "cpu", "cpu_family", "isa", "native_types", "cores", "threads", "caches", "memory_gib", "governor", "virtual",
    "kernel", "python", "numpy", "load",
)  # fmt: skip


def thread_counts() -> list[int]:
    """Returns the numbers of threads that are measured if none is asked for: one, and one for each core."""
    return sorted({1, pool.physical_cores()})


@dataclass(frozen=True)
class Part:
    """Rows that one run measures.

    Attributes:
        share: of the time.
        seconds: a row takes; a part whose share is less is left out.
        wanted: the first so many rows.
        options: of its own.
        records: what is published of a measured row.
    """

    share: float
    seconds: float
    wanted: Callable[[int], list[Wanted]]
    options: dict[str, Any]
    records: Callable[[Row], Iterator[dict[str, Any]]]


def run(
    minutes: float,
    folder: str | Path = ".",
    *,
    threads: int = 0,
    peers: Sequence[str] = (),
    progress: Progress | None = None,
) -> Path:
    """Measures for so many minutes in all, earlier calls that this one goes on from included. Returns the file.

    Args:
        threads: of each call; 0: one for each core. With several, whole models are also called by as many streams of
            one thread each.
        peers: of layers, further ones than PyTorch, ONNX Runtime, OpenVINO and oneDNN's kernels.

    Raises:
        InvalidArgumentError: unknown peers, or the folder cannot be written.
    """
    threads = threads or pool.physical_cores()
    here = machine.record(threads, pool.cpu_list(threads))
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    words = f"{here['cpu']} {here['cpu_family']} {here['isa']} {threads} {today}"
    target = Path(folder) / f"{re.sub('[^a-z0-9]+', '_', words.lower())}.json"
    full = target.with_suffix("")
    full.mkdir(parents=True, exist_ok=True)
    parts = {name: part for name, part in _PARTS.items() if 60 * minutes * part.share >= part.seconds}
    whole = sum(part.share for part in parts.values())
    documents = {name: Document.load(at) for name in _PARTS if (at := full / f"{name}.json").exists()}
    due = {name: 60 * minutes * part.share / whole for name, part in parts.items()}
    spent = {name: document.seconds if document.rows else 0.0 for name, document in documents.items()}
    todo = {name: seconds for name, seconds in due.items() if spent.get(name, 0.0) < seconds}
    shared = _read_streams(full)
    if not todo:
        write(target, documents, here, today, shared)
    for name, seconds in todo.items():
        part = parts[name]
        options = {
            **_OPTIONS,
            **part.options,
            "threads": threads,
            "clock": _clock(threads),
            "budget": max(1.0, seconds - spent.get(name, 0.0)),
        }
        if name == "layers":
            options["peers"] = (*options["peers"], *peers)
        wanted, path = part.wanted(max(1, int(seconds / part.seconds))), full / f"{name}.json"
        documents[name] = run_wanted(wanted, Options(**options), progress=progress, path=path, resume=True)
        write(target, documents, here, today, shared)
        if not documents[name].complete:
            return target
    if threads > 1 and (more := _measure_streams(60 * minutes * _STREAMS_SHARE, threads, shared, full)):
        write(target, documents, here, today, more)
    return target


def write(
    target: Path, documents: dict[str, Document], here: dict[str, Any], today: str, shared: Sequence[Stream] = ()
) -> None:
    """Writes the file and its page; `shared`: the rows of models that several streams call."""
    rows = [(name, row) for name, d in documents.items() for row in d if row.status != "skipped"]
    versions = {name: v for d in documents.values() for each in d.versions.values() for name, v in each.items()}
    record = {
        "schema": machine_page.SCHEMA,
        "schema_version": machine_page.SCHEMA_VERSION,
        "date": today,
        "commit": machine.commit(),
        "machine": {name: here[name] for name in _MACHINE},
        "versions": versions,
        "method": {**_OPTIONS, "clock": _clock(here["threads"])},
        "seconds": round(sum(document.seconds for document in documents.values()) + len(shared) * _STREAM_SECONDS),
        "measured": len(rows),
        "contended": sum("contended" in row.flags for _, row in rows),
        "rows": [
            *(each for name, row in rows for each in _PARTS[name].records(row)),
            *(each for key in _groups(shared) for each in _of_streams(*key, shared)),
        ],
    }
    write_text(target, json_lines(record))
    write_text(target.with_suffix(".md"), machine_page.page(record))


def _clock(threads: int) -> str:
    return "process" if threads == 1 else "wall"


def _read_streams(full: Path) -> list[Stream]:
    path = full / "streams.json"
    return [Stream(**row) for row in read_json(path)] if path.exists() else []


def _measure_streams(seconds: float, threads: int, known: Sequence[Stream], full: Path) -> list[Stream]:
    """Measures models of the zoo that `known` lacks, one call after another and by streams, within so many seconds.

    Returns the rows of all, with those of `known`, or none if there was no time for a model.
    """
    counts = (1, threads)
    names = [name for name in _FIRST if name not in {row.model for row in known}]
    rows, end = list(known), time.perf_counter() + seconds
    least = _STREAM_SECONDS * len(counts) * len(_STREAM_PEERS)
    while names and time.perf_counter() + least < end:
        (item,) = models.wanted([names.pop(0)])
        model = models.Model.of(item.model)
        for each in streams.run([model], counts, threads=threads, seconds=_STREAM_SECONDS, seed=_SEED):
            rows += each
        write_text(full / "streams.json", json.dumps(streams.records(rows), indent=1))
    return rows if len(rows) > len(known) else []


def _groups(rows: Sequence[Stream]) -> list[tuple[str, int]]:
    """Returns the models and numbers of streams, in order."""
    return list(dict.fromkeys((row.model, row.streams) for row in rows))


def _of_streams(model: str, count: int, rows: Sequence[Stream]) -> Iterator[dict[str, Any]]:
    """Calls in a second, and the 99th percentile of a call, of one model and number of streams."""
    by_peer = {row.peer: row for row in rows if (row.model, row.streams) == (model, count)}
    ours = by_peer.pop(OWN)
    what, how = counted(count, "stream"), f"{machine.threads_text(ours.threads)} a call"
    head = {"name": model, "direction": "", "dtype": "f32", "by": how, "marks": []}
    yield {
        **head,
        "suite": f"ONNX, calls in a second, {what}",
        "unit": "/s",
        "ours": _round(ours.throughput),
        "others": {peer: _round(ours.throughput / row.throughput) for peer, row in by_peer.items()},
    }
    yield {
        **head,
        "suite": f"ONNX, 99th percentile of a call, {what}",
        "unit": "ms",
        "ours": _round(ours.p99 / 1e-3),
        "others": {peer: _round(row.p99 / ours.p99) for peer, row in by_peer.items()},
    }


def _layers(count: int) -> list[Wanted]:
    """A layer of each op, direction, dtype and list in turn, drawn by a seed; f32 of real layers twice as often."""
    draw = random.Random(_SEED)

    def drawn(problems: Sequence[Any], direction: str, dtype: str) -> Iterator[Wanted]:
        return iter([Wanted(each, (direction,), (dtype,)) for each in draw.sample(problems, len(problems))])

    real = {op: suite.real_layers(op) for op in OPS}
    plain = [drawn(real[op], direction, "f32") for direction in DIRECTIONS for op in OPS]
    narrow = [drawn(real[op], direction, "bf16") for direction in DIRECTIONS for op in OPS]
    narrow += [drawn(real[op], "fwd", dtype) for dtype in (DTYPE, "f16") for op in OPS]
    public = [drawn([each.problem for each in suite.public(name)], "fwd", "f32") for name in suite.PUBLIC]
    calls = drawn([replace(parse(each), family=_CALL) for each in _CALLS], "fwd", "f32")
    turns = [*plain, calls, *public, *plain, *narrow]
    found: list[Wanted] = []
    while len(found) < count and (turn := [each for one in turns if (each := next(one, None))]):
        found += turn
    return found[:count]


def _models(count: int, **how: Any) -> list[Wanted]:
    return models.wanted([*dict.fromkeys((*_FIRST, *zoo.ENTRIES))][:count], **how)


def _lengths(count: int) -> list[Wanted]:
    return [each for name, sizes in [*_LENGTHS.items()][:count] for each in models.wanted([name], sizes)]


def _record(
    row: Row, suite_name: str, unit: str, scale: float, value: Callable[[Entry], float | None]
) -> dict[str, Any]:
    """A quantity of this package's best entry, and others' over it, or why there is none."""
    own = row.own
    others: dict[str, Any] = {}
    ours = value(own) if own else None
    for entry in row.entries:
        if entry.peer == OWN or isinstance(others.get(entry.peer), float):
            continue
        best, ratio = row.best(entry.peer), row.ratio(entry.peer)
        theirs = value(best) if best else None
        if best is None or ratio is None:
            others[entry.peer] = entry.status
        elif theirs and ours:
            others[entry.peer] = _round(theirs / ours)
    return {
        "suite": suite_name,
        "name": row.name,
        "direction": "" if row.model else row.direction,
        "dtype": row.dtype,
        "unit": unit,
        "ours": _round(ours / scale) if ours else None,
        "by": own.label.partition(" ")[2] if own else row.reason[:120],
        "others": others,
        "marks": row.flags,
    }


def _timed(row: Row, suite_name: str, unit: str, scale: float) -> dict[str, Any]:
    """Of a call: the ratios are those within the rounds, with their intervals."""
    record = _record(row, suite_name, unit, scale, lambda entry: entry.median)
    record["others"] |= {r.peer: [_round(r.median), _round(r.low), _round(r.high)] for r in row.ratios}
    return record


def _of_layer(row: Row) -> Iterator[dict[str, Any]]:
    name = row.family if row.family in (*suite.PUBLIC, _CALL) else _SUITES[row.op]
    record = _timed(row, name, "ms", 1e-3)
    if row.own and row.own.native:
        record["native"] = _round(row.own.native / 1e-3)
    yield {**record, "gmacs": _round(row.gmacs), "problem": row.descriptor}


def _of_file(row: Row) -> Iterator[dict[str, Any]]:
    yield _timed(row, "ONNX, a call", "ms", 1e-3)
    if fewer := row.best(_OWN_AUTO):
        yield _in_own_precision(row, fewer)
    readers = [entry for entry in row.entries if entry.peer != "torch"]
    row = replace(row, entries=readers)
    yield _record(row, "ONNX, load and compile", "s", 1.0, lambda entry: entry.compile_s)
    yield _record(row, "ONNX, load, compile and first call", "s", 1.0, _first)
    yield _record(row, "ONNX, peak memory", "MB", _MEGA, lambda entry: entry.memory_bytes)


def _in_own_precision(row: Row, ours: Entry) -> dict[str, Any]:
    """A call with precision="auto", compared with peers in the precision that each takes by itself."""
    others: dict[str, Any] = {}
    for peer in _FILES:
        theirs = row.best(peer)
        if theirs is not None and theirs.rounds and len(theirs.rounds) == len(ours.rounds):
            within = interval_within([b / a for a, b in zip(ours.rounds, theirs.rounds, strict=True)])
            others[peer] = [_round(within.median), _round(within.low), _round(within.high)]
    return {
        "suite": "ONNX, a call",
        "name": row.name,
        "direction": "",
        "dtype": AUTO,
        "unit": "ms",
        "ours": _round((ours.median or 0.0) / 1e-3),
        "by": ours.label.partition(" ")[2],
        "others": others,
        "marks": row.flags,
    }


def _first(entry: Entry) -> float | None:
    return None if entry.compile_s is None or entry.first_s is None else entry.compile_s + entry.first_s


def _of_module(row: Row) -> Iterator[dict[str, Any]]:
    yield _timed(row, f"PyTorch, {'a training step' if row.model.get('train') else 'a call'}", "ms", 1e-3)


def _of_lengths(row: Row) -> Iterator[dict[str, Any]]:
    for what, unit, scale, name in (
        ("each called once", "s", 1.0, "total"),
        ("a later call", "ms", 1e-3, "later"),
        ("memory after all", "MB", _MEGA, "after_bytes"),
    ):
        value = partial(_of_calls, name=name)
        yield _record(row, f"sizes, {what}", unit, scale, value)


def _of_calls(entry: Entry, name: str) -> float | None:
    return getattr(entry.calls, name) if entry.calls else None


def _round(value: float) -> float:
    """Three digits; four say no more of a time on a machine."""
    return float(f"{value:.3g}")


_OPTIONS: Final[dict[str, Any]] = {
    "interval": 0.06,
    "min_rounds": 6,
    "max_rounds": 15,
    "burst": 0.03,
    "case_seconds": 4.0,
}
_TORCH: Final = {"optimized": True, "peers": ("torch", "torch-compile", f"{OWN}-compile", f"{OWN}-export")}
_PARTS: Final = {
    "layers": Part(
        0.5, 4.5, _layers, {"peers": ("torch", "onnxruntime", "openvino", LITERAL), "max_gmacs": 2.2}, _of_layer
    ),
    "models": Part(0.2, 12.0, _models, {"peers": _FILES, "precisions": (AUTO,)}, _of_file),
    "pytorch": Part(0.15, 40.0, _models, _TORCH, _of_module),
    "lengths": Part(
        0.08, 30.0, _lengths, {"peers": ("onnxruntime", "openvino", "torch"), "sizes": "1:2x1"}, _of_lengths
    ),
    "training": Part(
        0.07, 15.0, lambda count: _models(count, train=True), {"train": True, "peers": ("torch",)}, _of_module
    ),
}
