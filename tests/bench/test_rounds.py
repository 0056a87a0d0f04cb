"""Rounds on made-up competitors: nothing here looks at a clock's value."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from dnnl_graph_ops.bench import contention, measure, rounds, timing
from dnnl_graph_ops.bench.cases import Case
from dnnl_graph_ops.bench.rows import Entry
from dnnl_graph_ops.errors import Error

from . import synthetic


class Racer:
    """Answers bursts with given medians; notes in a shared list when it ran."""

    def __init__(self, label: str, log: list[str], seconds: Any, disturbed: Any = lambda turn: False) -> None:
        self.label, self.log, self.seconds, self.disturbed = label, log, seconds, disturbed
        self.turn = -1  # the warm-up round

    def ask(self, do: str, timeout: float = 0.0, **arguments: Any) -> dict[str, Any]:
        assert do == "burst"
        assert arguments["seconds"] <= 0.06
        self.log.append(self.label)
        turn, self.turn = self.turn, self.turn + 1
        value = self.seconds(max(turn, 0))
        if value is None:
            raise Error("gone")
        waited = 1.0 if turn >= 0 and self.disturbed(turn) else 0.0
        peak = 100.0 / value if arguments["peak"] else None
        return {"times": [value, 1.1 * value, 0.9 * value], "native": [], "wall": 0.05, "waited": waited, "peak": peak}

    def settle(self) -> None:
        pass


RULES = rounds.Rules(burst=0.06, precision=0.05, min_rounds=6, max_rounds=20, seconds=60.0, threads=2)


@pytest.fixture(autouse=True)
def calm(monkeypatch):
    """The machine that runs the tests has no say in them."""
    monkeypatch.setattr(contention, "system_times", lambda: contention.SystemTimes(1, 0, 0))


def noisy(seed: int, value: float, noise: float):
    rng = random.Random(seed)
    return lambda turn: value * (1 + noise * rng.random())


def run(log, seconds, rules=RULES, **disturbed):
    racers = {k: Racer(k, log, v, disturbed.get(k, lambda turn: False)) for k, v in seconds.items()}
    peers = {k: k.split("-")[0] for k in racers}
    return rounds.race(racers, peers, rules), peers


def test_a_quiet_race_ends_as_soon_as_it_is_precise_enough():
    race, peers = run([], {"dgo": lambda t: 1.0, "torch": lambda t: 2.0})
    assert len(race.rounds) == 6
    assert race.precise
    assert race.dropped == 0
    (label, own, values) = rounds.ratios(race, peers)["torch"]
    assert (label, own) == ("torch", "dgo")
    assert values == pytest.approx([2.0] * 6)


def test_one_of_us_measures_the_peak_of_each_round():
    seconds = {"dgo-NXC": lambda t: 1.0 + t, "dgo-NCX": lambda t: 1.0 + t, "torch": lambda t: 2.0 + 2 * t}
    race, _ = run([], seconds, replace(RULES, peak="f32"))
    assert race.peaks() == pytest.approx([100.0 / (1 + t) for t in range(len(race.rounds))])
    for bursts in race.rounds:
        assert [label.split("-")[0] for label, burst in bursts.items() if burst.peak] == ["dgo"]
    assert not any(run([], seconds)[0].peaks())


def test_noise_adds_rounds_up_to_the_cap(seed):
    race, _ = run([], {"dgo": noisy(seed, 1.0, 2.0), "torch": noisy(seed + 1, 2.0, 2.0)})
    assert len(race.rounds) == 20
    assert not race.precise


def test_drift_that_all_share_does_not_matter():
    def drift(value):
        return lambda turn: value * (1 + turn % 5)

    race, peers = run([], {"dgo": drift(1.0), "torch": drift(3.0)})
    assert len(race.rounds) == 6
    assert rounds.ratios(race, peers)["torch"][2] == pytest.approx([3.0] * 6)


def test_every_round_has_everybody_once_in_changing_order():
    log: list[str] = []
    run(log, {k: lambda t: 1.0 for k in ("dgo", "a", "b", "c", "d")})
    turns = [tuple(log[i : i + 5]) for i in range(5, len(log), 5)]
    assert all(sorted(turn) == ["a", "b", "c", "d", "dgo"] for turn in turns)
    assert len(set(turns)) > 1


def test_disturbed_rounds_are_dropped_and_repeated():
    race, _ = run([], {"dgo": lambda t: 1.0, "torch": lambda t: 2.0}, torch=lambda turn: turn in (1, 3))
    assert race.dropped == 2
    assert len(race.rounds) == 6
    assert not any(b.disturbed for r in race.rounds for b in r.values())


def test_disturbed_rounds_are_kept_where_waiting_does_not_count():
    seconds = {"dgo": lambda t: 1.0, "torch": lambda t: 2.0}
    race, _ = run([], seconds, replace(RULES, process=True), torch=lambda turn: True)
    assert race.precise
    assert race.dropped == len(race.rounds) == 6


def test_where_every_round_is_disturbed_they_are_kept():
    race, _ = run([], {"dgo": lambda t: 1.0, "torch": lambda t: 2.0}, dgo=lambda turn: True)
    assert race.dropped == 12
    assert len(race.rounds) == 12


@pytest.mark.parametrize(
    ("disturbed", "noise", "flags"),
    [
        (lambda turn: False, 0.0, []),
        (lambda turn: turn < 2, 0.0, []),
        (lambda turn: True, 0.0, ["contended", "imprecise"]),
        (lambda turn: False, 3.0, ["imprecise"]),
    ],
)
def test_rows_say_that_others_used_the_machine_or_that_intervals_stayed_wide(disturbed, noise, flags, seed):
    race, peers = run([], {"dgo": noisy(seed, 1.0, noise), "torch": lambda t: 2.0}, dgo=disturbed)
    row = measure.blank_row(Case(synthetic.problem(), "fwd", "f32", "constant"))
    row.entries = [Entry(label, peer, "NCX", "ok") for label, peer in peers.items()]
    measure._fill(row, race, peers)
    assert row.flags == flags
    assert row.ratios[0].low <= row.ratios[0].median <= row.ratios[0].high
    assert (row.status, row.rounds_dropped) == ("ok", race.dropped)


@pytest.mark.parametrize(
    ("each", "seconds", "count"), [(2**-13, 0.06, 82), (2**-10, 0.06, 25), (2**-7, 0.06, 8), (2**-7, 0.002, 1)]
)
def test_a_burst_ends_where_its_median_is_known(each, seconds, count):
    now = [0.0]

    def execute() -> None:
        now[0] += each

    assert timing.burst(execute, seconds, now=lambda: now[0]) == pytest.approx([each] * count)


def test_stolen_time_drops_the_round(monkeypatch):
    steal = iter(range(0, 10**6, 10))
    monkeypatch.setattr(contention, "system_times", lambda: contention.SystemTimes(next(steal), 0, next(steal)))
    race, _ = run([], {"dgo": lambda t: 1.0})
    assert race.dropped == 12


def test_one_that_is_lost_does_not_stop_the_others():
    race, peers = run([], {"dgo": lambda t: 1.0, "torch": lambda t: None if t > 2 else 2.0, "ort": lambda t: 4.0})
    assert race.lost == {"torch": "gone"}
    assert len(race.times("ort")) == len(race.rounds) >= 6
    assert len(rounds.ratios(race, peers)["torch"][2]) == 3


def test_a_hopeless_one_is_not_waited_for():
    race, peers = run([], {"dgo": lambda t: 1e-3, "ort": lambda t: 3.0, "torch": lambda t: 2e-3})
    assert len(race.times("ort")) == 3
    assert len(race.times("torch")) == 6
    assert rounds.ratios(race, peers)["ort"][2] == pytest.approx([3000.0] * 3)


def test_the_best_layout_of_each_side_is_compared():
    race, peers = run(
        [],
        {
            "dgo-NXC": lambda t: 2.0,
            "dgo-NCX": lambda t: 1.0,
            "torch-NXC": lambda t: 3.0,
            "torch-NCX": lambda t: 5.0,
        },
    )
    assert rounds.ratios(race, peers)["torch"][:2] == ("torch-NXC", "dgo-NCX")


def test_alone_we_are_measured_too():
    race, peers = run([], {"dgo": lambda t: 1.0})
    assert len(race.rounds) == 6
    assert rounds.ratios(race, peers) == {}


@pytest.mark.parametrize(("every", "count"), [(3, 20), (100, 12)])
def test_a_machine_in_use_all_the_time_is_not_waited_for(every, count, seed):
    log = []
    run(log, {"dgo": noisy(seed, 1.0, 9.0), "torch": lambda t: 2.0}, dgo=lambda turn: turn % every != 1)
    assert log.count("dgo") == 1 + count


def test_nobody_is_no_error():
    assert run([], {})[0].rounds == []
