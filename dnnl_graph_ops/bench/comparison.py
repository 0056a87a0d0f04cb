"""Did anything change between two results? Paired by row, tested, and large enough to matter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..errors import InvalidArgumentError
from . import statistics
from .document import Document
from .peers.registry import OWN
from .rows import Row

_ENOUGH_ROWS_FOR_NOISE: Final = 8
# below, no signed-rank test reaches the level of 0.01
_ENOUGH_ROWS_FOR_A_TEST: Final = 8
_SLOWER, _UNDECIDED = 1, 4
_OUTCOMES: Final = {"same": "no change", "undecided": "undecided"}
# the normal distribution's standard deviation over its median absolute deviation
_MAD_TO_SIGMA: Final = 1.4826


@dataclass(frozen=True)
class Change:
    """One row in both results. `factor` is new time / old time: above 1 it became slower."""

    key: str
    factor: float
    p_value: float
    verdict: str
    flags: tuple[str, ...] = ()


@dataclass
class Comparison:
    """Verdicts of rows: "slower", "faster", "same", "unclear" (large, but not beyond what noise does); of the whole
    "undecided" for the last.
    """

    measure: str
    rows: list[Change]
    factor: float
    p_value: float
    verdict: str
    noise: float
    only_old: list[str] = field(default_factory=list)
    only_new: list[str] = field(default_factory=list)

    @property
    def slower(self) -> list[Change]:
        return [row for row in self.rows if row.verdict == "slower"]

    @property
    def faster(self) -> list[Change]:
        return [row for row in self.rows if row.verdict == "faster"]

    @property
    def exit_status(self) -> int:
        """0: nothing became slower; 1: something did; 4: the mean changed, by what noise may do as well."""
        if self.slower or self.verdict == "slower":
            return _SLOWER
        return _UNDECIDED if self.verdict == "undecided" else 0


def compare_documents(
    old: Document, new: Document, *, threshold: float = 0.10, alpha: float = 0.01, measure: str = "auto"
) -> Comparison:
    """Tests `new` against `old`.

    A row has changed when its time changed by at least `threshold`, a rank-sum test over the rounds says so
    after Holm's correction, and the change stands out of the rows' own scatter. The whole has changed when
    the geometric mean did by `threshold` and a signed-rank test over the rows says so.

    Args:
        measure: "ratio": this package's time over the peers' of the same rounds, which cancels the machine's speed of
            the day; "time": seconds; "auto": ratio where both results have a common peer.

    Raises:
        InvalidArgumentError: no common rows, or an unknown measure.
    """
    if measure not in ("auto", "ratio", "time"):
        raise InvalidArgumentError(f"measure {measure!r}; known: auto, ratio, time")
    olds, news = ({r.key: r for r in d.rows if r.own is not None} for d in (old, new))
    common = [key for key in olds if key in news]
    if not common:
        raise InvalidArgumentError("compare: the two results have no measured row in common")
    peers = _common_peers([olds[k] for k in common] + [news[k] for k in common])
    if measure == "ratio" and not peers:
        raise InvalidArgumentError("compare: no peer was measured in every common row; use measure 'time'")
    by_ratio = measure == "ratio" or (measure == "auto" and bool(peers))
    samples = []
    for key in common:
        pair = [_sample(row, peers if by_ratio else []) for row in (olds[key], news[key])]
        samples.append((pair[0], pair[1]))
    logs = np.array([math.log(np.median(n) / np.median(o)) for o, n in samples])
    centre = float(np.median(logs))
    noise = _MAD_TO_SIGMA * float(np.median(np.abs(logs - centre))) if len(logs) >= _ENOUGH_ROWS_FOR_NOISE else 0.0
    p_values = statistics.holm([statistics.rank_sum_p(o, n) for o, n in samples])
    limit = math.log1p(threshold)
    changes = []
    for key, log, p in zip(common, logs, p_values, strict=True):
        flags = tuple(dict.fromkeys([*olds[key].flags, *news[key].flags]))
        verdict = _verdict(float(log), float(p), limit, alpha, 3 * noise, "contended" in flags)
        changes.append(Change(key, math.exp(log), float(p), verdict, flags))
    whole = statistics.signed_rank_p(list(logs))
    mean = float(logs.mean())
    verdict = _whole(mean, limit, whole < alpha, [change.verdict for change in changes])
    return Comparison(
        "ratio to " + ", ".join(peers) if by_ratio else "time",
        changes,
        math.exp(mean),
        whole,
        verdict,
        math.exp(noise) - 1,
        [k for k in olds if k not in news],
        [k for k in news if k not in olds],
    )


def _verdict(log: float, p: float, limit: float, alpha: float, scatter: float, contended: bool) -> str:
    if abs(log) < limit:
        return "same"
    if p >= alpha or abs(log) < scatter or contended:
        return "unclear"
    return "slower" if log > 0 else "faster"


def _whole(mean: float, limit: float, tested: bool, rows: Sequence[str]) -> str:
    if abs(mean) < limit:
        return "same"
    moved = "slower" if mean > 0 else "faster"
    # a handful of rows is decided by their own tests
    agreed = len(rows) < _ENOUGH_ROWS_FOR_A_TEST and set(rows) == {moved}
    return moved if tested or agreed else "undecided"


def _common_peers(rows: Sequence[Row]) -> list[str]:
    names = [{r.peer for r in row.ratios if r.rounds} for row in rows]
    return sorted(set.intersection(*names)) if names else []


def _sample(row: Row, peers: list[str]) -> list[float]:
    """Our time in every round, divided by the geometric mean of the peers' in the same round."""
    own = row.best(OWN)
    times = own.rounds if own is not None else []
    if not peers:
        return times
    ratios = [r.rounds for r in row.ratios if r.peer in peers]
    return [1 / statistics.geometric_mean(values) for values in zip(*ratios, strict=False)]


def text(comparison: Comparison) -> str:
    """The comparison for a terminal."""
    lines = [f"compared by {comparison.measure}, {len(comparison.rows)} rows, their scatter {comparison.noise:.1%}"]
    width = max(len(row.key) for row in comparison.rows)
    order = {"slower": 0, "faster": 1, "unclear": 2, "same": 3}
    for row in sorted(comparison.rows, key=lambda r: (order[r.verdict], -abs(math.log(r.factor)))):
        if row.verdict != "same":
            flags = f"  ({', '.join(row.flags)})" if row.flags else ""
            lines.append(f"{row.verdict:8} {row.key:{width}}  {row.factor:.3f}x time  p {row.p_value:.2g}{flags}")
    for name, keys in (("only in the old result", comparison.only_old), ("only in the new", comparison.only_new)):
        if keys:
            lines.append(f"{name}: {', '.join(keys[:6])}{' ...' if len(keys) > 6 else ''}")
    counts = {v: sum(r.verdict == v for r in comparison.rows) for v in order}
    said = ", ".join(f"{n} {v}" for v, n in counts.items() if n)
    outcome = "changed" if comparison.slower + comparison.faster else _OUTCOMES.get(comparison.verdict, "changed")
    lines.append(
        f"{outcome}: geometric mean {comparison.factor:.3f}x time (p {comparison.p_value:.2g}, "
        f"{comparison.verdict}); {said}"
    )
    return "\n".join(lines) + "\n"
