"""Timing in turns: a kernel that is 10 % slower shows, and what else the machine does is none of its."""

import numpy as np
import pytest

from .pairs import MOST_PAIRS, MOST_PAIRS_AGAIN, Timed, ratios, timed
from .verdict import doubtful, failures


class Machine:
    """Runs slow down and recover together, by up to a factor of 2; single ones by more."""

    def __init__(self, seed: int) -> None:
        self.rng, self.pace = np.random.default_rng(seed), 1.0

    def seconds(self, usual: float) -> float:
        self.pace = float(np.clip(self.pace * self.rng.lognormal(0, 0.03), 1, 2))
        return usual * self.pace * (1 + self.rng.exponential(0.01))


class Version:
    """A worker of one version on a machine; results are `digest`."""

    def __init__(self, machine: Machine, seconds: float, digest: str = "a0", refused: str = "") -> None:
        self.machine, self.usual = machine, seconds
        self.prepared = {"refused": refused} if refused else {"digest": [digest]}

    def send(self, **request) -> None:
        assert request["prepare"]

    def answer(self) -> dict:
        return self.prepared

    def ask(self, samples: int, each: int) -> dict:
        seconds = min(self.machine.seconds(self.usual) for _ in range(samples))
        return {"process": seconds, "wall": seconds}


def rows(seed: int, slower: float) -> list:
    """Twelve rows, the first of which takes `slower` times as long in the new version, in both runs."""
    machine, runs = Machine(seed), []
    for most in (MOST_PAIRS, MOST_PAIRS_AGAIN):
        factors = [slower] + [1.0] * 11
        runs.append(
            [
                timed(f"row {i}", (Version(machine, 1e-4), Version(machine, factor * 1e-4)), most)
                for i, factor in enumerate(factors)
            ]
        )
    return ratios(*runs, {row.row: "kernels" for row in runs[0]})


def test_a_kernel_that_is_slower(seed):
    print("seed", seed)
    measured = rows(seed, 1.1)
    assert "row 0" in doubtful(measured)
    assert any(line.startswith("row 0: ") for line in failures(measured))


@pytest.mark.parametrize("more", range(10))
def test_equal_versions(seed, more):
    print("seed", seed + more)
    assert failures(rows(seed + more, 1.0)) == []


def test_other_results_and_refusals(seed):
    machine = Machine(seed)
    whole = Version(machine, 1e-4)
    assert not timed("row", (whole, Version(machine, 1e-4, "a1")), MOST_PAIRS).same
    refusing = timed("row", (whole, Version(machine, 1e-4, refused="ShapeError: no")), MOST_PAIRS)
    assert refusing == Timed("row", same=False, refused="old: ; new: ShapeError: no")
