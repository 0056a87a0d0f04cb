"""A whole run: problems to rows, with progress, rows kept in a file, a time budget, an orderly end when interrupted."""

from __future__ import annotations

import datetime
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import InvalidArgumentError
from ..progress import Progress, silent
from ..words import counted
from . import machine, measure, pool, sequence
from .cases import Case, Wanted, entrants, expand
from .document import Document
from .lineup import Lineup
from .options import Options
from .peers import registry
from .rows import Row

# what a case costs apart from its rounds, for sharing out a budget
_OVERHEAD = 2.0
_LEAST_SECONDS = 0.8


def run_wanted(
    wanted: Sequence[Wanted],
    options: Options,
    *,
    progress: Progress | None = None,
    path: str | Path | None = None,
    resume: bool = False,
    shard: tuple[int, int] | None = None,
) -> Document:
    """Measures every case and returns the document. Ctrl-C and SIGTERM end it early, with the rows so far.

    Args:
        progress: told at first how long the rows take at most and what is missing, then each finished row.
        path: file that the document is written to whenever a row is finished.
        resume: take rows that are in that file instead of measuring them.
        shard: (i, n): only every n-th case, beginning with the i-th, counted from 1.

    Raises:
        InvalidArgumentError: unknown peers, a shard out of range, a file of another run.
    """
    tell = progress or silent
    peers, notes = registry.select(options.peers)
    cases, over = expand(wanted, options)
    if options.sizes and not all(case.model for case in cases):
        raise InvalidArgumentError("sizes are for whole models: give models, not layers")
    if shard is not None:
        index, count = shard
        if not 1 <= index <= count:
            raise InvalidArgumentError(f"shard {index}/{count}: the first number is between 1 and the second")
        cases, over = cases[index - 1 :: count], over[index - 1 :: count]
    if options.optimized and not all(case.model for case in cases):
        raise InvalidArgumentError("optimized and train are for models of the zoo: give these, not layers")
    if any(case.model for case in cases):
        said = "trains no model" if options.train else "takes no whole model from Python"
        notes += [f"{peer.name}: {said}" for peer in peers if not peer.takes_models(options.train)]
    kinds = dict.fromkeys(case.dtype for case in cases if not case.model)
    notes += [f"{peer.name}: no layers in {kind}" for kind in kinds for peer in peers if kind not in peer.dtypes]
    threads = options.threads or pool.physical_cores()
    cpus = pool.cpu_list(threads)
    if threads > len(cpus):
        notes.append(f"{threads} threads share {len(cpus)} CPUs")
    document = Document(
        options=options.as_dict(),
        machines=[machine.record(threads, cpus)],
        notes=notes,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        command=" ".join(sys.argv),
    )
    if resume and path is not None and Path(path).exists():
        _resume(document, path)
    begin = time.monotonic()
    with _interruptible() as interrupted, Lineup(options, threads, cpus) as lineup:
        _run(document, cases, peers, lineup, options, threads, tell, path, interrupted)
        document.versions |= lineup.versions
        document.complete = not interrupted.is_set()
    document.rows += [
        measure.failed_row(c, f"over max_gmacs {options.max_gmacs} even with batch 1", "skipped") for c in over
    ]
    document.seconds += time.monotonic() - begin
    if path is not None:
        document.save(path)
    return document


def _resume(document: Document, path: str | Path) -> None:
    """Takes over the rows of a run that was interrupted, and what stands next to them."""
    before = Document.load(path)
    old, new = ({**one.options, "cpu": [m.get("cpu") for m in one.machines]} for one in (before, document))
    # with more time it goes on
    different = sorted(name for name in (old.keys() | new.keys()) - {"budget"} if old.get(name) != new.get(name))
    if different:
        name = different[0]
        raise InvalidArgumentError(
            f"{path}: of a run with other settings ({name} was {old.get(name)!r}, now {new.get(name)!r}); resume with "
            "the same options, or name another file"
        )
    document.rows = [row for row in before.rows if row.status != "skipped"]
    document.versions, document.seconds = before.versions, before.seconds


def _run(
    document: Document,
    cases: list[Case],
    peers: list[registry.Peer],
    lineup: Lineup,
    options: Options,
    threads: int,
    tell: Progress,
    path: str | Path | None,
    interrupted: threading.Event,
) -> None:
    own = registry.peers()[registry.OPTIMIZED if options.optimized else registry.OWN]
    keys = {case.key for case in cases}
    rows = {row.key: row for row in document.rows if row.key in keys}
    todo = [case for case in cases if case.key not in rows]
    most = expected_seconds(len(todo), options)
    said = [f"{counted(len(todo), 'row')}: about {rounded(most)} at most", *document.notes]
    tell(len(cases) - len(todo), len(cases), "; ".join(said))
    begin = time.monotonic()
    for position, case in enumerate(todo):
        if interrupted.is_set():
            break
        if options.budget and time.monotonic() - begin > options.budget:
            late = f"the time budget of {options.budget:.0f} s was used up"
            rows |= {c.key: measure.failed_row(c, late, "skipped") for c in todo[position:]}
            document.notes.append(f"{late}: {len(todo) - position} of {len(cases)} rows were not measured")
            break
        seconds = _allowance(options, time.monotonic() - begin, len(todo) - position)

        def work(case: Case = case, seconds: float = seconds) -> Row:
            field = entrants(case, own, peers, options)
            if options.sizes and case.model:
                return sequence.measure(case, field, lineup, options, threads, interrupted.is_set)
            return measure.measure(case, field, lineup, options, threads, seconds, interrupted.is_set)

        row = measure.guarded(case, work)
        if interrupted.is_set():
            # cut short: not worth keeping, measured again by --resume
            break
        rows[case.key] = row
        if path is not None:
            document.rows, document.complete = list(rows.values()), False
            document.save(path)
        tell(len(cases) - len(todo) + position + 1, len(cases), row.said)
    document.rows = [rows[case.key] for case in cases if case.key in rows]


def expected_seconds(rows: int, options: Options) -> float:
    """Returns the most seconds that the rounds of so many rows take, with what a row costs apart from them."""
    seconds = rows * (options.case_seconds + _OVERHEAD)
    return min(seconds, options.budget) if options.budget else seconds


def rounded(seconds: float) -> str:
    """A time in words."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _allowance(options: Options, spent: float, remaining: int) -> float:
    """Seconds for the rounds of the next case."""
    if not options.budget:
        return options.case_seconds
    share = (options.budget - spent) / max(1, remaining) - _OVERHEAD
    return min(options.case_seconds, max(_LEAST_SECONDS, share))


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second one interrupts at once."""
    event = threading.Event()

    def handle(number: int, frame: object) -> None:
        del number, frame
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    previous = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
