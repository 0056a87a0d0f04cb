"""Sorts items topologically."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence


def topological(needs: Sequence[Collection[int]]) -> tuple[list[int], list[int]]:
    """Returns the items in topological order, by number where the order is free; and the items on or after a cycle.

    `needs[i]`: the numbers of the items that item i depends on, each once.
    """
    if all(max(sources, default=-1) < i for i, sources in enumerate(needs)):
        return list(range(len(needs))), []
    readers: list[list[int]] = [[] for _ in needs]
    for i, sources in enumerate(needs):
        for source in sources:
            readers[source].append(i)
    waiting = [len(sources) for sources in needs]
    ready = [i for i, count in enumerate(waiting) if not count]
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for reader in readers[i]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    return order, [i for i, count in enumerate(waiting) if count]
