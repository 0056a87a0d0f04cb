"""A model called with one size after another: what a service sees whose inputs have another length every time."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..errors import Error
from . import data, models, pool, statistics
from .cases import Case, Entrant
from .lineup import Lineup
from .measure import blank_row, fail_without_own, ratio_of
from .options import Options
from .peers.registry import OWN
from .rows import EXCUSED, Calls, Entry, Row

# whose numbers the others' are checked against, where it runs
_TRUTH: Final = "onnxruntime"
_PATIENCE: Final = 300.0
_MOST_WAITING: Final = 0.15


def measure(
    case: Case,
    entrants: list[Entrant],
    lineup: Lineup,
    options: Options,
    threads: int,
    stop: Callable[[], bool] = lambda: False,
) -> Row:
    """The row of a case: per size everybody's first call and later ones in shuffled turns, and results compared."""
    row, model = blank_row(case), models.Model.of(case.model)
    drawn = models.drawn(model, options.seed)
    row.family = "model"
    row.model = {"file": model.path, "zoo": model.zoo, "inputs": drawn.named, "sizes": drawn.shapes}
    alone = _alone(case, entrants, options, threads, max(drawn.shapes, key=_elements), drawn.dtypes)
    row.entries = lineup.load(case, entrants)
    visits: dict[str, list[dict[str, Any]]] = {entry.label: [] for entry in row.entries}
    lenient = {entrant.label: max(models.TOLERANCE, entrant.peer.tolerance) for entrant in entrants}
    turns = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        for place, shapes in enumerate(drawn.shapes):
            if stop():
                break
            order = [entry for entry in row.entries if entry.status == "ok"]
            turns.shuffle(order)
            paths = {entry.label: str(Path(folder) / f"{number}.npy") for number, entry in enumerate(order)}
            ready = lineup.ready(order)
            for entry in order:
                ask = partial(ready[entry.label].ask, "visit", timeout=_PATIENCE, shapes=shapes, dtypes=drawn.dtypes)
                ask = partial(ask, process=options.clock == "process")
                answer = _asked(entry, shapes, partial(ask, seed=place, seconds=options.burst, path=paths[entry.label]))
                if answer is not None:
                    visits[entry.label].append(answer)
                    ready[entry.label].settle()
            _check(order, paths, shapes, lenient)
    ready = lineup.ready(row.entries)
    for entry in row.entries:
        if entry.status == "ok" and visits[entry.label]:
            _fill(entry, visits[entry.label], ready[entry.label].ask("resident"), alone.get(entry.label, 0))
    _compare(row)
    lineup.close()
    return row


def _elements(shapes: Sequence[Sequence[int]]) -> int:
    return sum(map(math.prod, shapes))


def _alone(
    case: Case, entrants: list[Entrant], options: Options, threads: int, largest: list[list[int]], dtypes: list[str]
) -> dict[str, int]:
    """Per label the resident bytes of a process that knows the largest size only."""
    found = {}
    with Lineup(options, threads, pool.cpu_list(threads)) as lineup:
        for label, worker in lineup.ready(lineup.load(case, entrants)).items():
            try:
                worker.ask("visit", timeout=_PATIENCE, shapes=largest, dtypes=dtypes, seed=0, seconds=0.0)
                found[label] = int(worker.ask("resident")["bytes"])
            except Error:  # its row will say why
                continue
    return found


def _asked(entry: Entry, shapes: list[list[int]], ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    try:
        answer = ask()
    except Error as error:
        entry.status, entry.reason = "failed", f"at {shapes}: {error}"
        return None
    if answer["changed"] > models.TOLERANCE:
        entry.status, entry.reason = "wrong", f"at {shapes} a later result is off by {answer['changed']:.2g}"
    return answer


def _check(order: list[Entry], paths: dict[str, str], shapes: list[list[int]], lenient: dict[str, float]) -> None:
    """Compares the first results of one size."""
    running = [entry for entry in order if entry.status == "ok"]
    truth = next((entry for entry in running if entry.peer == _TRUTH), None)
    # without it anybody but this package
    truth = truth or next((entry for entry in running if not entry.peer.startswith(OWN)), None)
    if truth is None:
        return
    expected = np.load(paths[truth.label])
    for entry in running:
        if entry is truth:
            continue
        error = data.relative_error(np.load(paths[entry.label]), expected)
        entry.error = max(entry.error or 0.0, error)
        limit = lenient[entry.label]
        if not error <= limit:
            said = f"off by {error:.2g} of {truth.peer}'s largest value, more than {limit:g}"
            entry.status, entry.reason = "wrong", f"at {shapes} {said}"


def _fill(entry: Entry, visits: list[dict[str, Any]], resident: dict[str, Any], alone: int) -> None:
    firsts = [float(visit["first"]) for visit in visits]
    laters = [float(np.median(visit["times"])) for visit in visits]
    excess = [first - EXCUSED * later for first, later in zip(firsts, laters, strict=True)]
    middle, high = map(float, np.percentile(excess, (50, 95)))
    entry.rounds, entry.first_s = firsts, firsts[0]
    entry.median, entry.minimum, entry.spread = float(np.median(firsts)), min(firsts), statistics.spread(firsts)
    entry.calls = Calls(laters, float(np.median(laters)), middle, high, sum(firsts), int(resident["bytes"]), alone)
    entry.peak_bytes = int(resident["peak_bytes"])
    entry.memory_bytes = max(0, entry.peak_bytes - (entry.before_bytes or 0))
    disturbed = sum(visit["waited"] > _MOST_WAITING * visit["wall"] for visit in visits)
    if disturbed > len(visits) / 2:
        entry.flags.append(f"waited for a CPU at {disturbed} of {len(visits)} sizes")


def _compare(row: Row) -> None:
    fail_without_own(row)
    own = row.own
    if own is None:
        return
    for peer in dict.fromkeys(entry.peer for entry in row.entries if entry.peer != OWN):
        best = row.best(peer)
        if best is None or len(best.rounds) != len(own.rounds):
            continue
        values = [theirs / ours for theirs, ours in zip(best.rounds, own.rounds, strict=True)]
        row.ratios.append(ratio_of(peer, best.label, own.label, values))
