"""Counts the time of calls, of measurements, which get a tenth of it, and of captures, which wait for their module."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

SHARE = 0.1


class Budget:
    """Seconds of calls, measurements and captures; calls within one of the other two count as that."""

    def __init__(self) -> None:
        self.calls = self.trials = self.captures = 0.0

    def allows(self, seconds: float) -> bool:
        return self.trials + seconds <= SHARE * self.calls

    @contextmanager
    def trial(self) -> Iterator[None]:
        calls, start = self.calls, time.perf_counter()
        try:
            yield
        finally:
            self.trials += time.perf_counter() - start
            self.calls = calls

    @contextmanager
    def capture(self) -> Iterator[None]:
        calls, trials, start = self.calls, self.trials, time.perf_counter()
        try:
            yield
        finally:
            self.captures += time.perf_counter() - start
            self.calls, self.trials = calls, trials


budget = Budget()
