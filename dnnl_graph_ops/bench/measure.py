"""One case from start to row: memory, reference, preparation, check, race, summary."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import numpy as np

from ..errors import Error
from . import contention, data, models, quantized, reference, rounds, statistics, timing
from .cases import Case, Entrant
from .descriptor import format_descriptor
from .lineup import Lineup
from .options import Options
from .peers.registry import OWN
from .rows import Entry, Ratio, Row

# the reference holds float32 copies of everything, every competitor its own, some a repacked one next to it
_COPIES = 3
# an execution of a model goes through more memory than the caches hold: a short one is its own warm-up too
_LONG_MODEL = 0.05


def blank_row(case: Case) -> Row:
    problem = case.problem
    return Row(
        case.key,
        problem.name,
        problem.family,
        case.direction,
        case.dtype,
        case.weights,
        problem.as_dict(),
        format_descriptor(problem),
        problem.macs / 1e9,
        when=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def failed_row(case: Case, reason: str, status: str = "failed") -> Row:
    row = blank_row(case)
    row.status, row.reason = status, reason
    return row


def measure(
    case: Case,
    entrants: list[Entrant],
    lineup: Lineup,
    options: Options,
    threads: int,
    seconds: float,
    stop: Callable[[], bool] = lambda: False,
) -> Row:
    """The row of a case. Whatever goes wrong becomes part of it."""
    row = blank_row(case)
    if case.model:
        row.model, row.family = models.Model.of(case.model).record(), "model"
    if case.source_batch and case.source_batch != case.problem.batch:
        row.flags.append(f"batch {case.source_batch} reduced to {case.problem.batch}")
    short = _memory_shortage(case, len(entrants))
    if short:
        row.status, row.reason = "failed", short
        return row
    try:
        expected = _expected(case, options)
    except MemoryError:
        row.status, row.reason = "failed", "the reference result does not fit into memory"
        return row
    row.entries = lineup.prepare(case, entrants)
    lineup.check(case, row.entries, expected)
    if options.optimized:
        models.hold_to_torch(row.entries, options.train)
    del expected
    ready = lineup.ready(row.entries)
    peer_of = {e.label: e.peer for e in row.entries}
    rules = rounds.Rules(
        options.burst,
        options.interval,
        options.min_rounds,
        options.max_rounds,
        seconds,
        threads,
        peak_dtype(case),
        _LONG_MODEL if case.model else timing.LONG,
        options.clock == "process",
    )
    race = rounds.race(ready, peer_of, rules, options.seed, stop)
    _fill(row, race, peer_of)
    if case.model:
        # the next one's memory is counted from a new process
        lineup.close()
    else:
        lineup.release()
    return row


def _memory_shortage(case: Case, competitors: int) -> str:
    available = None if case.model else contention.available_memory()
    size = 4 * sum(case.problem.elements().values())
    need = size * (_COPIES * competitors + 2)
    if available is None or need < 0.9 * available:
        return ""
    have = f"{available / 2**30:.1f} GiB are available"
    return f"does not fit: {competitors} competitors need {need / 2**30:.1f} GiB, {have}"


def _expected(case: Case, options: Options) -> np.ndarray | None:
    if case.model:
        return models.Model.of(case.model).expected()
    operands = data.operands(case.problem, case.direction, options.seed, case.dtype, case.real)
    layer = quantized.layer(case.problem) if case.dtype == quantized.DTYPE else None
    if layer is not None:
        operands = layer.floats(operands)
    expected = reference.compute(case.problem, case.direction, operands)
    return expected if layer is None else layer.rounded(expected)


def _fill(row: Row, race: rounds.Race, peer_of: dict[str, str]) -> None:
    row.peak_rounds, row.peak_busy = race.peaks(), race.peak_busy
    for entry in row.entries:
        if entry.label in race.lost:
            entry.status, entry.reason = "failed", race.lost[entry.label]
        if entry.status == "ok":
            _fill_entry(entry, row, race)
    for peer, (label, ours, values) in rounds.ratios(race, peer_of).items():
        if values:
            row.ratios.append(ratio_of(peer, label, ours, values))
    row.rounds_dropped = race.dropped
    if race.dropped > len(race.rounds) - race.dropped and race.dropped >= len(race.rounds) / 2:
        row.flags.append("contended")
    if race.rounds and not race.precise:
        row.flags.append("imprecise")
    fail_without_own(row)


def ratio_of(peer: str, label: str, own: str, values: list[float]) -> Ratio:
    """The ratio of the rounds' ratios, with its interval."""
    interval = statistics.interval_within(values)
    return Ratio(peer, label, own, interval.median, interval.low, interval.high, values)


def fail_without_own(row: Row) -> None:
    """A row without a time of this package has failed, for its reasons."""
    if row.own is None:
        own = [e for e in row.entries if e.peer == OWN]
        row.status = "failed"
        row.reason = "; ".join(dict.fromkeys(f"{e.label}: {e.reason}" for e in own)) or "not measured"


def _fill_entry(entry: Entry, row: Row, race: rounds.Race) -> None:
    entry.rounds = race.times(entry.label)
    if not entry.rounds:
        entry.status, entry.reason = "failed", "no round was finished"
        return
    entry.median, entry.spread = float(np.median(entry.rounds)), statistics.spread(entry.rounds)
    entry.minimum = min(race.times(entry.label, "minimum"))
    if native := race.times(entry.label, "native"):
        entry.native = float(np.median(native))
    if executions := race.executions(entry.label):
        entry.p50, entry.p90, entry.p99 = map(float, np.percentile(executions, (50, 90, 99)))
    if not row.model:
        entry.gflops = 2 * row.gmacs / entry.median
    # of the same rounds
    shares = [2 * row.gmacs / t / peak for t, peak in zip(entry.rounds, row.peak_rounds, strict=False) if peak]
    if shares:
        entry.peak_share = float(np.median(shares))


def peak_dtype(case: Case) -> str:
    """The dtype of the MatMul that runs in turns with a layer."""
    return "" if case.model else case.dtype


def guarded(case: Case, function: Callable[[], Row]) -> Row:
    """A row whatever happens, except an interrupt."""
    try:
        return function()
    except (Error, MemoryError, OSError, ValueError, RuntimeError) as error:
        return failed_row(case, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
