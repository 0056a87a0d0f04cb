"""Lays out boxes: rows by the longest path from an input, few crossings, straight edges where possible.

The steps are those of Sugiyama, Tagawa and Toda (IEEE Trans. SMC 11, 1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..graph.order import topological

Edge = tuple[int, int]

_GAP_X, _GAP_Y = 26.0, 34.0
# width that an edge takes in each row that it passes
_LANE = 14.0
_SWEEPS = 6  # sweeps, downwards and upwards
# with more boxes, edges over several rows are drawn straight
_MAX_LANES = 20_000


@dataclass(frozen=True)
class Layout:
    """Centres of the boxes, corners of each edge, and the size of the whole."""

    centres: tuple[tuple[float, float], ...]
    routes: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def place(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], last: Sequence[int] = ()) -> Layout:
    """Lay out an acyclic graph from top to bottom; `sizes` are (width, height), `last` may go to the end."""
    count = len(sizes)
    rows = _rows(count, edges, last)
    widths = [width for width, _ in sizes]
    chains: list[list[int]] = []
    lanes = sum(rows[b] - rows[a] - 1 for a, b in edges)
    for a, b in edges:
        chain = [a]
        if lanes <= _MAX_LANES:
            for row in range(rows[a] + 1, rows[b]):
                chain.append(len(rows))
                rows.append(row)
                widths.append(_LANE)
        chains.append([*chain, b])
    above, below = _neighbours(len(rows), [edge for chain in chains for edge in pairwise(chain)])
    order = _ordered(rows, above, below)
    x = _columns(order, widths, above, below)
    tops, height = [], 0.0
    heights = [max((sizes[i][1] for i in row if i < count), default=0.0) for row in order]
    for row_height in heights:
        tops.append(height)
        height += row_height + _GAP_Y
    y = [tops[rows[i]] + heights[rows[i]] / 2 for i in range(len(rows))]
    left = min((x[i] - widths[i] / 2 for i in range(len(rows))), default=0.0)
    right = max((x[i] + widths[i] / 2 for i in range(len(rows))), default=0.0)
    x = [value - left for value in x]
    routes = []
    for chain in chains:
        a, b = chain[0], chain[-1]
        start, end = (x[a], y[a] + sizes[a][1] / 2), (x[b], y[b] - sizes[b][1] / 2)
        # a lane runs upright through the whole row, so that no edge cuts a box
        middle = [(x[i], y[i] + side * heights[rows[i]] / 2) for i in chain[1:-1] for side in (-1, 1)]
        routes.append((start, *middle, end))
    return Layout(tuple((x[i], y[i]) for i in range(count)), tuple(routes), right - left, max(height - _GAP_Y, 0.0))


def _neighbours(count: int, edges: Sequence[Edge]) -> tuple[list[list[int]], list[list[int]]]:
    """Returns the neighbours above and below each box, each once."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        above[b].append(a)
        below[a].append(b)
    return above, below


def _rows(count: int, edges: Sequence[Edge], last: Sequence[int]) -> list[int]:
    """Returns each box's row: the longest path from a source; sources move down to the row above their first reader."""
    above, below = _neighbours(count, edges)
    rows = [0] * count
    for i in topological(above)[0]:
        rows[i] = max((rows[a] + 1 for a in above[i]), default=0)
    sources = [i for i in range(count) if not above[i]]
    for i in sources:
        rows[i] = min((rows[b] for b in below[i]), default=1) - 1
    lowest = max(rows, default=0)
    for i in last:
        if not below[i] and rows[i] < lowest and lowest - rows[i] <= 2:
            rows[i] = lowest
    return rows


def _ordered(rows: Sequence[int], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> list[list[int]]:
    """Returns each row sorted by the mean position of its neighbours, downwards and upwards in turn."""
    order: list[list[int]] = [[] for _ in range(max(rows, default=-1) + 1)]
    for i, level in enumerate(rows):
        order[level].append(i)
    position = {i: float(p) for row in order for p, i in enumerate(row)}
    best, fewest = [list(row) for row in order], _crossings(order, position, below)
    for near, swept in [(above, order), (below, order[::-1])] * _SWEEPS:
        for row in swept:
            centres = dict(zip(row, _centres(row, near, position), strict=True))
            row.sort(key=centres.__getitem__)
            position.update((i, float(p)) for p, i in enumerate(row))
        found = _crossings(order, position, below)
        if found < fewest:
            best, fewest = [list(row) for row in order], found
    return best


def _crossings(order: Sequence[Sequence[int]], position: dict[int, float], below: Sequence[Sequence[int]]) -> int:
    """Returns the number of crossing pairs between neighbouring rows, by counting inversions."""
    total = 0
    for row in order:
        ends = [end for i in row for end in sorted(position[j] for j in below[i])]
        if len(ends) > 400:
            return 0
        total += sum(a > b for k, a in enumerate(ends) for b in ends[k + 1 :])
    return total


def _columns(
    order: Sequence[Sequence[int]],
    widths: Sequence[float],
    above: Sequence[Sequence[int]],
    below: Sequence[Sequence[int]],
) -> list[float]:
    """Moves every box as near to the mean of its neighbours as its row allows."""
    x = [0.0] * len(widths)
    for row in order:
        at = 0.0
        for i in row:
            x[i] = at + widths[i] / 2
            at += widths[i] + _GAP_X
        for i in row:
            x[i] -= at / 2
    for near, swept in [(above, order), (below, order[::-1])] * _SWEEPS:
        for row in swept:
            for i, value in zip(row, _spread(_centres(row, near, x), [widths[i] for i in row]), strict=True):
                x[i] = value
    return x


def _centres(row: Sequence[int], near: Sequence[Sequence[int]], at: Any) -> list[float]:
    """Returns the mean position of each box's neighbours, its own position if it has none."""
    return [sum(at[j] for j in near[i]) / len(near[i]) if near[i] else at[i] for i in row]


def _spread(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Returns the nearest positions (least squares) that keep the order and the gaps, by pooling adjacent violators."""
    offsets, at = [], 0.0
    for i, width in enumerate(widths):
        at += (widths[i - 1] + width) / 2 + _GAP_X if i else 0.0
        offsets.append(at)
    pools: list[tuple[float, int]] = []
    for value, offset in zip(wanted, offsets, strict=True):
        total, count = value - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            more, size = pools.pop()
            total, count = total + more, count + size
        pools.append((total, count))
    flat = [total / count for total, count in pools for _ in range(count)]
    return [value + offset for value, offset in zip(flat, offsets, strict=True)]
