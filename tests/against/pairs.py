"""Both versions timed in turns, each in a process that stays: what else the machine does falls on both.

A pair is a burst of each, within some hundredths of a second, of which the least process time of a run counts; a row's
ratio is the median over its pairs.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from .verdict import Ratio, settled

# a sample is shorter than a time slice, so that most bursts have one that nothing interrupted
SAMPLE, BURST = 0.0005, 0.005
LEAST_PAIRS, MOST_PAIRS, MOST_PAIRS_AGAIN = 12, 40, 160
Versions = Sequence[Path]


class Worker:
    """A version's process; see `against.worker`."""

    def __init__(self, package: Path, models: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "against.worker", str(package), str(models)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, **request: Any) -> None:
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended with code {self._process.wait()}")
        return json.loads(line)

    def ask(self, **request: Any) -> dict[str, Any]:
        self.send(**request)
        return self.answer()

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def workers(versions: Versions, models: Path, environment: Mapping[str, str]) -> Iterator[list[Worker]]:
    started = [Worker(package, models, environment) for package in versions]
    try:
        yield started
    finally:
        for worker in started:
            worker.stop()


@dataclass(frozen=True)
class Timed:
    """Seconds of a run in the old and the new version, and their ratio; `same`: equal results."""

    row: str
    ratio: float = 1.0
    wall: float = 1.0
    old: float = 0.0
    new: float = 0.0
    same: bool = True
    refused: str = ""

    def record(self) -> dict[str, Any]:
        return asdict(self)


def timed(row: str, both: Sequence[Worker], most: int) -> Timed:
    for worker in both:
        worker.send(prepare=row)
    answers = [worker.answer() for worker in both]
    refusals = [answer.get("refused", "") for answer in answers]
    if any(refusals):
        same = refusals[0] == refusals[1]
        return Timed(
            row, same=same, refused="; ".join(f"{n}: {r}" for n, r in zip(("old", "new"), refusals, strict=True))
        )
    seconds = max(worker.ask(samples=3, each=1)["process"] for worker in both)
    each = max(1, int(SAMPLE / seconds))
    samples = max(2, int(BURST / (each * seconds)))
    bursts: list[list[dict[str, float]]] = [[], []]
    while not _enough(bursts, most):
        for version in (0, 1) if len(bursts[0]) % 2 else (1, 0):
            bursts[version].append(both[version].ask(samples=samples, each=each))
    ratio, wall = (median(_ratios(bursts, clock)) for clock in ("process", "wall"))
    old, new = (median(burst["process"] for burst in side) for side in bursts)
    return Timed(row, ratio, wall, old, new, answers[0]["digest"] == answers[1]["digest"])


def _ratios(bursts: Sequence[Sequence[Mapping[str, float]]], clock: str) -> list[float]:
    return [old[clock] / new[clock] for old, new in zip(*bursts, strict=True)]


def _enough(bursts: Sequence[Sequence[Mapping[str, float]]], most: int) -> bool:
    count = len(bursts[1])
    return count >= most or (count >= LEAST_PAIRS and settled(_ratios(bursts, "process")))


def run(
    rows: Sequence[str], versions: Versions, models: Path, environment: Mapping[str, str], again: bool
) -> list[Timed]:
    """Every row once, in fresh processes: where their memory lies is drawn anew."""
    result = []
    with workers(versions, models, environment) as both:
        for row in rows:
            result.append(timed(row, both, MOST_PAIRS_AGAIN if again else MOST_PAIRS))
            print(text(result[-1]), flush=True)
    return result


def text(row: Timed) -> str:
    if row.refused:
        return f"  {row.row}: refused: {row.refused}"
    times = f"{1e6 * row.old:10.1f} -> {1e6 * row.new:10.1f} us"
    return f"  {row.ratio:6.3f} {times}  {row.row}{'' if row.same else '  (other results)'}"


def ratios(first: Sequence[Timed], second: Sequence[Timed], groups: Mapping[str, str]) -> list[Ratio]:
    again = {row.row: row.ratio for row in second}
    return [Ratio(groups[row.row], row.row, row.ratio, again.get(row.row)) for row in first if not row.refused]
