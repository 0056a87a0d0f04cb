"""What the ratios of a run say: old time by new time, below 1 where the new version is slower."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import geometric_mean, quantiles

LEAST_ROW, LEAST_MEAN = 0.95, 0.99
# of the median of a row's ratios
MOST_ERROR = 0.005


def settled(ratios: Sequence[float]) -> bool:
    """Whether the median of these is known well enough, by their quartiles as if they were normal."""
    low, _, high = quantiles(ratios, n=4)
    return 1.25 * (high - low) / 1.35 / len(ratios) ** 0.5 < MOST_ERROR


@dataclass(frozen=True)
class Ratio:
    """A row's in the first run, and in the second where there was one."""

    group: str
    row: str
    first: float
    second: float | None = None


def means(ratios: Iterable[Ratio]) -> dict[str, tuple[float, float | None]]:
    """The geometric mean of every group, over the first runs and over the second ones where all rows have one."""
    ordered = sorted(ratios, key=lambda ratio: ratio.group)
    result = {}
    for group, members in groupby(ordered, key=lambda ratio: ratio.group):
        rows = list(members)
        second = [row.second for row in rows if row.second is not None]
        result[group] = (
            geometric_mean(row.first for row in rows),
            geometric_mean(second) if len(second) == len(rows) else None,
        )
    return result


def doubtful(ratios: Sequence[Ratio]) -> list[str]:
    """Rows to be measured again: those that are slow, and all of a group whose mean is."""
    slow = {group for group, (first, _) in means(ratios).items() if first < LEAST_MEAN}
    return [ratio.row for ratio in ratios if ratio.first < LEAST_ROW or ratio.group in slow]


def failures(ratios: Sequence[Ratio]) -> list[str]:
    """Rows and groups that are slow in both runs."""
    rows = [
        f"{ratio.row}: {ratio.first:.3f}, then {ratio.second:.3f} (least {LEAST_ROW})"
        for ratio in ratios
        if ratio.second is not None and max(ratio.first, ratio.second) < LEAST_ROW
    ]
    groups = [
        f"geometric mean of {group}: {first:.3f}, then {second:.3f} (least {LEAST_MEAN})"
        for group, (first, second) in means(ratios).items()
        if second is not None and max(first, second) < LEAST_MEAN
    ]
    return rows + groups
