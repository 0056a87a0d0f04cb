"""Rounds: every competitor runs a short burst, in random order, until the intervals of ratios are narrow."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from . import contention, statistics, timing
from .peers.registry import OWN

# A burst is disturbed when its threads waited for a CPU for more than this share, a round when the hypervisor took
# more than that. One time slice (4 ms) of one thread falls on one execution and does not move the median.
_MOST_WAITING: Final = 0.15
_SLICE: Final = 0.005
_MOST_STEAL: Final = 0.06
_ROUND: Final = 0.9
# a competitor is not waited for when an execution takes both this long and so many times ours
_HOPELESS_SECONDS: Final = 0.15
_HOPELESS_FACTOR: Final = 6.0
_ROUNDS_OF_THE_HOPELESS: Final = 3


class Racer(Protocol):
    """The interface of a competitor in a round: `pool.WorkerProcess`, or a stand-in in tests."""

    def ask(self, do: str, timeout: float = ..., **arguments: Any) -> dict[str, Any]: ...
    def settle(self) -> None: ...


@dataclass
class Burst:
    median: float
    minimum: float
    native: float | None
    disturbed: bool
    peak: float | None = None  # what a MatMul reached in the round, 1e9 operations a second
    peak_busy: bool = False  # others used the machine meanwhile
    times: tuple[float, ...] = ()  # of single executions


@dataclass
class Race:
    """Every kept round: label -> burst. `dropped` counts the disturbed ones, repeated where waiting counts."""

    rounds: list[dict[str, Burst]] = field(default_factory=list)
    dropped: int = 0
    lost: dict[str, str] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)
    precise: bool = False

    def times(self, label: str, what: str = "median") -> list[float]:
        return [getattr(r[label], what) for r in self.rounds if label in r and getattr(r[label], what) is not None]

    def executions(self, label: str) -> list[float]:
        """Seconds of every single one."""
        return [seconds for r in self.rounds if label in r for seconds in r[label].times]

    def peaks(self) -> list[float]:
        """Of every kept round; 0 where none was measured."""
        return [max((b.peak or 0.0 for b in r.values()), default=0.0) for r in self.rounds]

    @property
    def peak_busy(self) -> bool:
        """Whether other processes used the machine while the peaks of most kept rounds were measured."""
        busy = [b.peak_busy for r in self.rounds for b in r.values() if b.peak]
        return sum(busy) > len(busy) / 2


@dataclass(frozen=True)
class Rules:
    """When to stop, and how to run a burst. Bursts of all competitors together fit within a second."""

    burst: float
    precision: float
    min_rounds: int
    max_rounds: int
    seconds: float
    threads: int = 1
    peak: str = ""  # data type of the MatMul that each round runs once
    long: float = timing.LONG  # an execution of so many seconds is its own warm-up
    process: bool = False  # the process's seconds: rounds in which it waited for others are kept


def race(
    racers: Mapping[str, Racer],
    peer_of: Mapping[str, str],
    rules: Rules,
    seed: int = 0,
    stop: Callable[[], bool] = lambda: False,
) -> Race:
    """Runs rounds until every ratio's interval is narrow, or a bound is reached.

    Args:
        racers: label -> competitor with its problem ready.
        peer_of: label -> name of the peer, `OWN` for this package.
        stop: asked between rounds; True ends the race with what there is.
    """
    rng = random.Random(seed)
    result = Race()
    active = dict(racers)
    length = min(rules.burst, _ROUND / max(1, len(active)))
    begin = time.monotonic()
    every: list[dict[str, Burst]] = []
    _round(active, list(active), min(length, 0.01), rules, result, peer_of)
    while active:
        order = list(active)
        rng.shuffle(order)
        before = contention.system_times()
        bursts = _round(active, order, length, rules, result, peer_of)
        stolen = contention.steal_share(before, contention.system_times()) > _MOST_STEAL
        every.append(bursts)
        disturbed = stolen or any(b.disturbed for b in bursts.values())
        result.dropped += disturbed
        if not disturbed or rules.process:
            result.rounds.append(bursts)
        _retire(active, result, every, peer_of)
        count = len(result.rounds)
        spent = time.monotonic() - begin
        if count >= rules.min_rounds:
            result.precise = widest(result, peer_of) <= rules.precision
            if result.precise:
                break
        # on a machine whose others do not stop more rounds say no more
        hopeless = len(every) >= 2 * rules.min_rounds and count < len(every) / 4
        enough = hopeless or len(every) >= rules.max_rounds
        if stop() or ((enough or spent > rules.seconds) and len(every) >= min(3, rules.max_rounds)):
            break
    if len(result.rounds) < min(rules.min_rounds, rules.max_rounds):
        # better disturbed rounds than none: the row is marked
        result.rounds = every
    return result


def _retire(active: dict[str, Any], result: Race, every: list[dict[str, Burst]], peer_of: Mapping[str, str]) -> None:
    """Spares the others a competitor that is far slower, once it has enough rounds to say so.

    Its rounds are the first ones, so that they still pair with everybody else's.
    """
    enough = _ROUNDS_OF_THE_HOPELESS
    own = [b.median for label, b in every[-1].items() if peer_of[label] == OWN]
    if not own or (len(result.rounds) < enough and len(every) < 2 * enough):
        return
    for label, burst in every[-1].items():
        if label in active and burst.median > max(_HOPELESS_SECONDS, _HOPELESS_FACTOR * min(own)):
            result.retired.add(label)
            del active[label]


def _round(
    active: dict[str, Any], order: list[str], length: float, rules: Rules, result: Race, peer_of: Mapping[str, str]
) -> dict[str, Burst]:
    bursts: dict[str, Burst] = {}
    for label in order:
        wanted = peer_of[label] == OWN and not any(b.peak for b in bursts.values())
        try:
            answer = active[label].ask(
                "burst",
                timeout=60.0 + 100 * length,
                seconds=length,
                threads=rules.threads,
                native=True,
                long=rules.long,
                process=rules.process,
                peak=rules.peak if wanted else "",
            )
        except Exception as error:
            result.lost[label] = str(error)
            del active[label]
            continue
        active[label].settle()
        bursts[label] = _burst(answer, rules.threads)
    return bursts


def _burst(answer: dict[str, Any], threads: int) -> Burst:
    times, native = answer["times"], answer["native"]
    return Burst(
        float(np.median(times)),
        min(times),
        float(np.median(native)) if native else None,
        answer["waited"] > max(_MOST_WAITING * answer["wall"] * threads, _SLICE),
        answer.get("peak"),
        answer.get("peak_busy", False),
        tuple(times),
    )


def best_labels(result: Race, peer_of: Mapping[str, str]) -> dict[str, str]:
    """Per peer the label with the lowest median over the rounds."""
    best: dict[str, tuple[float, str]] = {}
    for label, peer in peer_of.items():
        times = result.times(label)
        if times:
            best[peer] = min(best.get(peer, (float("inf"), "")), (float(np.median(times)), label))
    return {peer: label for peer, (_, label) in best.items()}


def ratios(result: Race, peer_of: Mapping[str, str]) -> dict[str, tuple[str, str, list[float]]]:
    """Per peer: its best label, this package's, and the speedup within each round."""
    best = best_labels(result, peer_of)
    own = best.get(OWN)
    if own is None:
        return {}
    return {
        peer: (label, own, [r[label].median / r[own].median for r in result.rounds if label in r and own in r])
        for peer, label in best.items()
        if peer != OWN
    }


def widest(result: Race, peer_of: Mapping[str, str]) -> float:
    """Relative width of the least certain ratio; without peers, of this package's time."""
    gone = result.retired | set(result.lost)
    samples = [values for label, _, values in ratios(result, peer_of).values() if label not in gone]
    if not samples:
        samples = [result.times(label) for label in best_labels(result, peer_of).values()]
    return max((statistics.median_interval(s).width for s in samples), default=float("inf"))
