"""Bounds the time of measurements to a tenth of the time of all calls so far."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

SHARE = 0.1


class Budget:
    """Seconds of calls and of measurements; calls within a measurement count as measurement."""

    def __init__(self) -> None:
        self.calls = self.trials = 0.0

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


budget = Budget()
