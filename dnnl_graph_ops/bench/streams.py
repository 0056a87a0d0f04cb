"""Throughput of a whole model: several streams side by side, each on one thread."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..errors import Error
from . import pool
from .cases import Case, Entrant
from .lineup import Lineup
from .options import Options
from .rows import Row

_ROUNDS: Final = 5
_SECONDS: Final = 0.5


def fill(row: Row, case: Case, entrants: Sequence[Entrant], options: Options) -> None:
    """Gives every entry that was raced its executions a second, the median over shuffled turns."""
    if not options.streams:
        return
    entries = {entry.label: entry for entry in row.entries if entry.status == "ok"}
    taking = [entrant for entrant in entrants if entrant.label in entries]
    with Lineup(options, 1, pool.cpu_list(options.streams)) as lineup:
        ready = lineup.ready(lineup.prepare(case, taking, options.streams))
        rates: dict[str, list[float]] = {label: [] for label in ready}
        order = list(ready)
        for _ in range(_ROUNDS):
            random.shuffle(order)
            for label in tuple(order):
                try:
                    rates[label].append(ready[label].ask("throughput", seconds=_SECONDS)["rate"])
                except Error as error:
                    entries[label].flags.append(f"no throughput: {error}")
                    order.remove(label)
        for label, found in rates.items():
            if found:
                entries[label].throughput = float(np.median(found))
